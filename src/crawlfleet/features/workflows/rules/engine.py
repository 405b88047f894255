"""Decides what follows when a step of a run has ended: which steps begin or are skipped, and how
the run ends.

The engine has no clock and no store: ended steps go in, decisions come out, and they are
deterministic. Each step is decided once, when the last of its dependencies has ended. The cost of a
decision depends on the step's own dependencies and values, not on the number of steps: each step
counts down its open dependencies.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from crawlfleet.core.tasks.admission import MAX_PARAMETERS_BYTES
from crawlfleet.features.workflows.model import (
    MAX_INSTANCES,
    SETTLED,
    On,
    RunStatus,
    StepStatus,
)
from crawlfleet.features.workflows.rules.language.evaluation import ExpressionScope, evaluate
from crawlfleet.features.workflows.rules.language.functions import described
from crawlfleet.features.workflows.rules.language.syntax import BadExpression
from crawlfleet.features.workflows.rules.language.template import IN_A_SINK, Room, Template
from crawlfleet.features.workflows.rules.plan import PlannedStep, WorkflowPlan

MAX_BYTES: Final = 64_000_000
"""Maximum size of the parameters of all instances of a step together."""
WORK_OF_INSTANCE: Final = 30
"""Work that each instance adds to the limit of its step, enough to read some fields of its own."""
_MEETS: Final = {
    On.SUCCESS: frozenset({StepStatus.COMPLETED}),
    On.FAILURE: frozenset({StepStatus.FAILED}),
    On.ALWAYS: SETTLED,
}


class StartStep(msgspec.Struct, frozen=True):
    """A task for each of these parameters; the step has ended when there are none."""

    parameters: tuple[msgspec.Raw, ...]


class SkipStep(msgspec.Struct, frozen=True):
    """The step is skipped."""

    reason: str


class FailStep(msgspec.Struct, frozen=True):
    """The step fails before it begins."""

    reason: str


Verdict = StartStep | SkipStep | FailStep


class StepDecision(msgspec.Struct, frozen=True):
    """The decision about a step whose dependencies have ended."""

    step: PlannedStep
    verdict: Verdict

    @property
    def status(self) -> StepStatus:
        """Return the new state of the step."""
        match self.verdict:
            case StartStep(parameters=()):
                return StepStatus.COMPLETED
            case StartStep():
                return StepStatus.RUNNING
            case SkipStep():
                return StepStatus.SKIPPED
            case _:
                return StepStatus.FAILED


class RunProgress:
    """The progress of a run: the states of its steps, and those that are ready for a decision. One
    caller reports ends and asks for decisions."""

    def __init__(self, plan: WorkflowPlan, statuses: Mapping[int, StepStatus] = {}) -> None:
        """Set up the progress. `statuses` has the states of steps that do not wait."""
        self.plan = plan
        self._statuses = [statuses.get(step.place, StepStatus.WAITING) for step in plan.steps]
        self._pending = [
            sum(self._statuses[before] not in SETTLED for before, _ in step.dependencies)
            for step in plan.steps
        ]
        self._ready = deque(
            step.place
            for step in plan.steps
            if not self._pending[step.place] and self._statuses[step.place] is StepStatus.WAITING
        )
        self._left = sum(status not in SETTLED for status in self._statuses)
        self._spoilt = {StepStatus.FAILED: 0, StepStatus.CANCELLED: 0}
        for step, status in zip(plan.steps, self._statuses, strict=True):
            self._count(step, status)

    def status(self, place: int) -> StepStatus:
        """Return the state of a step."""
        return self._statuses[place]

    def settle(self, place: int, status: StepStatus) -> None:
        """Record that a started step has ended, and make those ready that waited for it."""
        if self._statuses[place] in SETTLED:
            return
        self._put(place, status)

    def ready(self, most: int) -> list[PlannedStep]:
        """Return up to `most` ready steps and remove them from the queue; empty if there are
        none."""
        count = min(most, len(self._ready))
        return [self.plan.steps[self._ready.popleft()] for _ in range(count)]

    def unmet(self, step: PlannedStep) -> str | None:
        """Return the reason why a step is skipped after the ends of its dependencies; `None` if
        they are met."""
        for before, on in step.dependencies:
            status = self._statuses[before]
            if status not in _MEETS[on]:
                return f"{self.plan.steps[before].name} is {status}, and it follows on {on}"
        return None

    def decide(self, step: PlannedStep, scope: ExpressionScope) -> StepDecision:
        """Decide about a ready step from the values of the steps it names, and record its new
        state."""
        reason = self.unmet(step)
        verdict = judge(step, scope) if reason is None else SkipStep(reason)
        decision = StepDecision(step, verdict)
        self._put(step.place, decision.status)
        return decision

    def outcome(self) -> RunStatus | None:
        """Return the final state of the run; `None` while steps are left."""
        if self._left:
            return None
        if self._spoilt[StepStatus.FAILED]:
            return RunStatus.FAILED
        return RunStatus.CANCELLED if self._spoilt[StepStatus.CANCELLED] else RunStatus.COMPLETED

    def _put(self, place: int, status: StepStatus) -> None:
        self._statuses[place] = status
        if status not in SETTLED:
            return
        step = self.plan.steps[place]
        self._left -= 1
        self._count(step, status)
        for after in step.dependents:
            self._pending[after] -= 1
            if not self._pending[after]:
                self._ready.append(after)

    def _count(self, step: PlannedStep, status: StepStatus) -> None:
        if status in self._spoilt and not step.step.optional:
            self._spoilt[status] += 1


def judge(step: PlannedStep, scope: ExpressionScope) -> Verdict:
    """Decide about a step whose dependencies are met: start, skip or fail it."""
    try:
        if step.when is not None:
            wanted = evaluate(step.when, scope)
            if not isinstance(wanted, bool):
                raise BadExpression(f"is {described(wanted)}", "it has to be true or false")
            if not wanted:
                return SkipStep(f"its condition is not met: {_short(step.step.when)}")
    except BadExpression as problem:
        return FailStep(f"when: {problem.message}; {problem.remedy}")
    if step.items is None:
        return _begin(step, [scope])
    try:
        items = _items(step.items, scope)
    except BadExpression as problem:
        return FailStep(f"for_each: {problem.message}; {problem.remedy}")
    return _begin(step, _scopes(items, scope))


def _items(source: Any, scope: ExpressionScope) -> list[Any]:
    found = source.fill(scope) if isinstance(source, Template) else evaluate(source, scope)
    if not isinstance(found, list):
        raise BadExpression(f"is {described(found)}", "it has to be a list")
    if len(found) > MAX_INSTANCES:
        raise BadExpression(
            f"has {len(found)} elements", f"use at most {MAX_INSTANCES}, such as by chunk()"
        )
    return found


def _scopes(items: list[Any], scope: ExpressionScope) -> Iterable[ExpressionScope]:
    """Yield the scope for each instance. It is one object, so that all instances share the work
    limit."""
    outside = scope.roots
    for index, item in enumerate(items):
        scope.left += WORK_OF_INSTANCE
        scope.roots = {**outside, "item": item, "index": index}
        yield scope
    scope.roots = outside


def _begin(step: PlannedStep, scopes: Iterable[ExpressionScope]) -> Verdict:
    made: list[msgspec.Raw] = []
    size = 0
    same = None if step.parameters.nodes else _encoded(step.parameters.value)
    for scope in scopes:
        try:
            raw = same or _encoded(step.parameters.fill(scope, Room(MAX_PARAMETERS_BYTES)))
        except BadExpression as problem:
            return FailStep(f"parameters: {problem.message}; {problem.remedy}")
        size += len(memoryview(raw))
        if len(memoryview(raw)) > MAX_PARAMETERS_BYTES or size > MAX_BYTES:
            return FailStep(f"parameters: come to {size} bytes; {IN_A_SINK}")
        made.append(raw)
    return StartStep(tuple(made))


def _encoded(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _short(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= 120 else f"{text[:119]}…"
