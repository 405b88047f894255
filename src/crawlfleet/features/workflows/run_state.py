"""A live run in the memory of the leading master: the states of its steps and of their tasks."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from crawlfleet.core.text.nesting import MAX_MESSAGE_NESTING, is_too_deep
from crawlfleet.features.workflows.model import Run, RunStatus, RunStep, StepStatus
from crawlfleet.features.workflows.rules import runs
from crawlfleet.features.workflows.rules.engine import RunProgress
from crawlfleet.features.workflows.rules.language.evaluation import ExpressionScope, StepValue
from crawlfleet.features.workflows.rules.plan import PlannedStep, WorkflowPlan
from crawlfleet.model.change import Change, Claim
from crawlfleet.model.event import Event
from crawlfleet.model.quality import OnDrift
from crawlfleet.model.task import TERMINAL, Task, TaskStatus
from crawlfleet.ports.store import Store

MAX_READ: Final = 64_000_000
"""Maximum size in bytes of the results that a step needs."""
READ_BATCH: Final = 64
"""Number of tasks that are read at once: each may have a result of a megabyte."""
_AS_STEP: Final = {
    TaskStatus.COMPLETED: StepStatus.COMPLETED,
    TaskStatus.FAILED: StepStatus.FAILED,
    TaskStatus.TIMEOUT: StepStatus.FAILED,
    TaskStatus.CANCELLED: StepStatus.CANCELLED,
}


class _Result(msgspec.Struct):
    """The parts of a task's result that later steps can read."""

    data: Any = None
    metrics: dict[str, float] = {}


def _read_result(result: msgspec.Raw) -> _Result | str:
    """Return the result of a task, or the reason why it cannot be read: a worker may send any
    JSON."""
    if is_too_deep(bytes(result), MAX_MESSAGE_NESTING):
        return "it is nested too deep"
    try:
        return msgspec.json.decode(result, type=_Result)
    except msgspec.DecodeError as error:
        return str(error)


class RunState:
    """The state of one live run, and its changes that are not written yet."""

    def __init__(self, run: Run, plan: WorkflowPlan, rows: Iterable[RunStep]) -> None:
        self.run = run
        self.plan = plan
        self.rows = {plan.places[row.step]: row for row in rows}
        self.course = RunProgress(plan, {place: row.status for place, row in self.rows.items()})
        self._ids: dict[int, dict[str, int]] = {}
        """Task ids of each running step, with the index of their instance."""
        self._ended: dict[int, dict[int, TaskStatus]] = {}
        for place, row in self.rows.items():
            if row.status in (StepStatus.RUNNING, StepStatus.HELD):
                self._watch(place, row)
        self.parameters = {
            **{
                name: each.default
                for name, each in plan.document.parameters.items()
                if each.default is not msgspec.UNSET
            },
            **msgspec.json.decode(run.parameters),
        }
        self._values: dict[int, StepValue] = {}
        self._read = 0
        self._begin_batch()

    def _begin_batch(self) -> None:
        self._steps: dict[int, RunStep] = {}
        self._tasks: list[Task] = []
        self._claims: list[Claim] = []
        self._events: list[Event] = []

    def _watch(self, place: int, row: RunStep) -> None:
        self._ids[place] = {id: at for at, id in enumerate(runs.instance_ids(self.run, row))}
        self._ended[place] = {}

    @property
    def running(self) -> list[int]:
        """Return the places of the steps that have begun and not ended."""
        return [*self._ids]

    @property
    def weight(self) -> int:
        """Return the number of rows of tasks and steps that are not written yet."""
        return len(self._tasks) + len(self._steps)

    def ids(self, place: int) -> list[str]:
        """Return the ids of the tasks of a running step."""
        return [*self._ids[place]]

    def hear(self, event: Event) -> int | None:
        """Take an event of one of the run's tasks; return the step whose last instance it ended, or
        `None`."""
        place = self.plan.places.get(event.details["step"])
        index = self._ids.get(-1 if place is None else place, {}).get(event.subject)
        if place is None or index is None or event.to_state is None:
            return None
        status = TaskStatus(event.to_state)
        if status not in TERMINAL:
            self._ended[place].pop(index, None)
            return None
        self._ended[place][index] = status
        return place if self.is_over(place) else None

    def is_over(self, place: int) -> bool:
        """Return true if all instances of a running step have ended, as far as events were
        received."""
        return len(self._ended[place]) == len(self._ids[place])

    def see(self, place: int, states: Mapping[str, TaskStatus]) -> None:
        """Take the states of a step's tasks from the store; a missing task counts as failed."""
        self._ended[place] = {
            at: states.get(id, TaskStatus.FAILED)
            for id, at in self._ids[place].items()
            if states.get(id, TaskStatus.FAILED) in TERMINAL
        }

    def undone(self, place: int) -> list[str]:
        """Return the ids of some tasks of a step that did not complete."""
        ids = self.ids(place)
        bad = [at for at, each in self._ended[place].items() if each is not TaskStatus.COMPLETED]
        return [ids[at] for at in sorted(bad)[: runs.MAX_NAMED]]

    def is_measured(self, place: int) -> bool:
        """Return true if a user may have to accept the step's items before it ends."""
        expected = self.plan.steps[place].step.expectations
        return expected is not None and expected.on_drift is OnDrift.HOLD

    def hold(self, place: int, reason: str, now: float) -> None:
        """Hold a step whose tasks have ended until a user accepts its items."""
        row = self.rows[place]
        if row.status is not StepStatus.HELD or row.reason != reason:
            self._put(place, StepStatus.HELD, now, reason=reason)

    def reject(self, place: int, reason: str, now: float) -> None:
        """Fail a step whose items a user has rejected."""
        del self._ids[place], self._ended[place]
        self._put(place, StepStatus.FAILED, now, reason=reason)
        self.course.settle(place, StepStatus.FAILED)

    def settle(self, place: int, reasons: list[str], now: float) -> None:
        """End a step from the states of its instances."""
        ended = self._ended.pop(place)
        del self._ids[place]
        bad = sum(each is not TaskStatus.COMPLETED for each in ended.values())
        status = runs.status_of(_AS_STEP[each] for each in ended.values())
        told = "; ".join(reasons)
        if bad and len(ended) > 1:
            told = f"{bad} of {len(ended)} instances did not complete: {told}"
        self._put(place, status, now, reason=told)
        self.course.settle(place, status)

    def begin(
        self, step: PlannedStep, drafts: list[Change], status: StepStatus, now: float
    ) -> None:
        """Start a step with the tasks of these drafts; a step without any has ended."""
        self._put(step.place, status, now, count=len(drafts))
        for draft in drafts:
            self._tasks += draft.tasks
            self._claims += draft.claims
            self._events += draft.events
        if status is StepStatus.RUNNING:
            self._watch(step.place, self.rows[step.place])

    def end_unbegun(self, step: PlannedStep, status: StepStatus, reason: str, now: float) -> None:
        """End a step that is skipped or cannot begin."""
        self._put(step.place, status, now, reason=reason)

    def _put(
        self, place: int, status: StepStatus, now: float, *, count: int = 0, reason: str = ""
    ) -> None:
        before = self._written(place)
        row = runs.step_row(
            self.run,
            self.plan.steps[place].name,
            before,
            status,
            now=now,
            count=count,
            reason=reason,
        )
        self.rows[place] = self._steps[place] = row
        self._events.append(runs.step_event(self.run, row))

    def _written(self, place: int) -> RunStep | None:
        """The row as the store has it: one change writes each row once."""
        assert place not in self._steps, "a step changes once in a batch"
        return self.rows.get(place)

    def end(self, status: RunStatus, now: float) -> None:
        """End the run."""
        fields = runs.ended_fields(self.plan, self.rows, status)
        self.run, event = runs.moved_run(
            self.run, status, now=now, cause="its steps have ended", **fields
        )
        self._events.append(event)

    def take_change(self, now: float) -> Change | None:
        """Return all unwritten rows as one change under the run's own version; `None` if there are
        none."""
        if not self._steps and self.run.ended_at is None:
            return None
        if self.run.ended_at is None:
            self.run = msgspec.structs.replace(
                self.run, updated_at=now, version=self.run.version + 1
            )
        change = Change(
            rows=(self.run, *self._steps.values()),
            tasks=tuple(self._tasks),
            claims=tuple(self._claims),
            events=tuple(self._events),
        )
        self._begin_batch()
        return change

    async def scope(self, step: PlannedStep, store: Store) -> ExpressionScope | str:
        """Return the scope of a step's expressions, with the results that they need; or the reason
        why these cannot be read."""
        for place in step.read:
            if place not in self._values and (refused := await self._load(place, store)):
                return refused
        values = {self.plan.steps[place].name: self._value(place) for place in step.spoken_of}
        roots: dict[str, Any] = {"parameters": self.parameters, "run": {"id": self.run.id}}
        return ExpressionScope(steps=values, roots=roots)

    def _value(self, place: int) -> StepValue:
        return self._values.get(place) or self._known(place)

    def _known(self, place: int, results: list[_Result | None] = []) -> StepValue:  # noqa: B006
        row = self.rows.get(place)
        spread = self.plan.steps[place].items is not None
        only = results[0] if results and not spread else None
        return StepValue(
            status=str(self.course.status(place)),
            count=row.count if row else 0,
            error=(row.reason or None) if row else None,
            result=only.data if only else None,
            results=[each.data if each else None for each in results] if spread else None,
            metrics=only.metrics if only else {},
        )

    async def _load(self, place: int, store: Store) -> str:
        """Read the results of a step; return the reason if that fails, or an empty text."""
        name = self.plan.steps[place].name
        row = self.rows.get(place)
        ids = runs.instance_ids(self.run, row) if row else []
        results: dict[str, _Result] = {}
        size = 0
        for first in range(0, len(ids), READ_BATCH):
            portion = ids[first : first + READ_BATCH]
            tasks = await store.tasks(portion)
            if len(tasks) < len(portion):
                return (
                    f"results of {name} were removed after their time (`retention.tasks_days`); "
                    "start the workflow anew"
                )
            for task in tasks:
                if task.status is TaskStatus.COMPLETED and task.result is not None:
                    size += len(memoryview(task.result))
                    read = _read_result(task.result)
                    if isinstance(read, str):
                        return (
                            f"the result of {name} cannot be read: {read}; let {task.id} send "
                            "numbers and depths that others can read"
                        )
                    results[task.id] = read
            if size > MAX_READ:
                return (
                    f"the results of {name} come to more than {MAX_READ} bytes; keep them in a "
                    "sink, and pass on where they are"
                )
        self._read += size
        if self._read > MAX_READ:
            # What was read for others goes: it can be read again.
            self._values.clear()
            self._read = size
        self._values[place] = self._known(place, [results.get(id) for id in ids])
        return ""
