"""Counts events over the last minutes for the alert rules that watch them."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from crawlfleet.features.alerts.model import AlertRule, Source
from crawlfleet.features.alerts.rules.states import MAX_SUBJECTS, OF_ALERTS, Observation
from crawlfleet.model.event import Event

STEP_S: Final = 5.0
ENDED: Final = {"task.completed": False, "task.failed": True, "task.timeout": True}
"""Kinds of events that end a task, and if they count as a failure. A cancelled task counts as
neither."""


class _Step:
    """The events of a rule counted within `STEP_S` seconds."""

    __slots__ = ("at", "bad", "subjects", "total")

    def __init__(self, at: float) -> None:
        self.at = at
        self.total = self.bad = 0
        self.subjects: dict[str, None] = {}


class EventWindows:
    """One time window of event counts for each rule; older events are dropped."""

    def __init__(self) -> None:
        self._steps: dict[str, deque[_Step]] = {}
        self._rules: list[AlertRule] = []
        self._counting: dict[str, list[tuple[AlertRule, bool]]] = {}
        """Rules that count each kind of event, with a flag for those that count it as a failure.
        This is a cache: thousands of events arrive per second, but of few kinds."""

    def watch(self, rules: Iterable[AlertRule]) -> None:
        """Set the rules to count for. Counts stay for rules that still watch the same events."""
        before = {rule.id: (rule.event, rule.project_id) for rule in self._rules}
        self._rules = [rule for rule in rules if rule.source in {Source.EVENTS, Source.ERROR_SHARE}]
        kept = {
            rule.id for rule in self._rules if before.get(rule.id) == (rule.event, rule.project_id)
        }
        self._steps = {id: steps for id, steps in self._steps.items() if id in kept}
        self._counting.clear()

    def add(self, event: Event) -> None:
        """Take notice of an event."""
        counting = self._counting.get(event.kind)
        if counting is None:
            counting = self._counting[event.kind] = [*self._concerned(event.kind)]
        for rule, bad in counting:
            if rule.project_id in (None, event.project_id):
                self._count(rule, event, bad=bad)

    def observe(self, rule: AlertRule, now: float) -> Observation:
        """Return the value and the subjects of a rule at this moment."""
        steps = self._steps.get(rule.id, deque())
        while steps and steps[0].at < now - rule.window_s:
            steps.popleft()
        total = sum(step.total for step in steps)
        bad = sum(step.bad for step in steps)
        if rule.source is Source.ERROR_SHARE:
            if not total or total < rule.least:
                return Observation()
            return Observation(value=bad / total, count=bad)
        subjects = dict.fromkeys(subject for step in steps for subject in step.subjects)
        named = tuple(subjects)[:MAX_SUBJECTS]
        return Observation(value=float(bad), subjects=named, count=len(subjects))

    def _concerned(self, kind: str) -> Iterator[tuple[AlertRule, bool]]:
        if kind.startswith(OF_ALERTS):
            return
        failed = ENDED.get(kind)
        for rule in self._rules:
            if rule.source is Source.EVENTS:
                if kind.startswith(rule.event):
                    yield rule, True
            elif failed is not None:
                yield rule, failed

    def _count(self, rule: AlertRule, event: Event, *, bad: bool) -> None:
        steps = self._steps.setdefault(rule.id, deque())
        if not steps or event.at >= steps[-1].at + STEP_S:
            steps.append(_Step(event.at))
            while steps[0].at < event.at - rule.window_s - STEP_S:
                steps.popleft()
        step = steps[-1]
        step.total += 1
        step.bad += bad
        if rule.source is Source.EVENTS and len(step.subjects) < MAX_SUBJECTS:
            step.subjects[event.subject] = None
