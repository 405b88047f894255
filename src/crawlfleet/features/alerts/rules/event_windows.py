"""Counts what events tell, over the last minutes, for the rules that ask for it."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from crawlfleet.features.alerts.model import AlertRule, Source
from crawlfleet.features.alerts.rules.states import MAX_SUBJECTS, OF_ALERTS, Observation
from crawlfleet.model.event import Event

STEP_S: Final = 5.0
ENDED: Final = {"task.completed": False, "task.failed": True, "task.timeout": True}
"""Whether a task that ended like this failed; one that was cancelled did neither."""


class _Step:
    """What happened within a few seconds."""

    __slots__ = ("at", "bad", "subjects", "total")

    def __init__(self, at: float) -> None:
        self.at = at
        self.total = self.bad = 0
        self.subjects: dict[str, None] = {}


class EventWindows:
    """One window for each rule; what is older is forgotten."""

    def __init__(self) -> None:
        self._steps: dict[str, deque[_Step]] = {}
        self._rules: list[AlertRule] = []
        self._counting: dict[str, list[tuple[AlertRule, bool]]] = {}
        """By kind of event: for which rules it counts, and whether as a bad one. Thousands of
        events come in a second, of a few kinds."""

    def watch(self, rules: Iterable[AlertRule]) -> None:
        """Count for these rules; what was counted for one that still asks the same stays."""
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
        """What a rule sees at this moment."""
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
