"""Schedules in a simulated world: random requests, and invariants of their starts."""

import random
from datetime import UTC, datetime

from crawlfleet.features.schedules.model import (
    Firing,
    Origin,
    Outcome,
    Overlap,
    Schedule,
    ScheduleStatus,
)
from crawlfleet.features.schedules.rules.recurrence import Recurrence
from crawlfleet.features.schedules.service import Schedules
from crawlfleet.features.schedules.views import ScheduledWorkflow, ScheduleRequest
from crawlfleet.features.workflows.model import Run
from crawlfleet.master import ControlPlane
from crawlfleet.model.change import Change
from crawlfleet.model.requests import TaskRequest
from crawlfleet.testing.simulation.clock import EPOCH

VERBS = ("pause", "resume", "resume", "run")


class ScheduleInvariants:
    """Invariants of schedules, checked after every commit."""

    def __init__(self) -> None:
        self.schedules: dict[str, Schedule] = {}
        self.firings: dict[str, Firing] = {}
        self._begun: dict[str, str] = {}
        """Id of the firing that started each task or run."""
        self.paused: set[str] = set()
        """Schedules that were paused at some time; their due instants may have no firing."""

    def observe(self, change: Change) -> None:
        """Take one accepted change into account."""
        for schedule in change.of(Schedule):
            before = self.schedules.get(schedule.id)
            self.schedules[schedule.id] = schedule
            if not schedule.is_active:
                self.paused.add(schedule.id)
            if before is not None:
                assert schedule.version == before.version + 1, f"{schedule.id} skipped a version"
                assert schedule.cursor >= before.cursor, f"the cursor of {schedule.id} went back"
        new = {task.id for task in change.tasks if task.version == 1 and task.parent_id is None}
        new |= {run.id for run in change.of(Run) if run.version == 1}
        for firing in change.of(Firing):
            known = self.firings.get(firing.id)
            assert known is None or known.outcome is Outcome.QUEUED, f"{firing.id} was there"
            self.firings[firing.id] = firing
            begun = firing.task_id or firing.run_id
            if firing.outcome is not Outcome.STARTED:
                assert begun is None, f"{firing.id} has {begun}, but did not start"
                continue
            runs = self.schedules[firing.schedule_id].workflow is not None
            assert (firing.run_id is not None) == runs, f"{firing.id} started something else"
            assert begun in new, f"{firing.id} names nothing of its commit"
            assert begun not in self._begun, f"{begun} was started twice"
            self._begun[begun or ""] = firing.id

    def check_end(self) -> None:
        """Every due instant of a schedule that is over was dealt with once."""
        for schedule in self.schedules.values():
            assert schedule.waiting is None, f"{schedule.id} still waits"
            if schedule.id in self.paused:
                continue
            recurrence = Recurrence(schedule.rule, UTC, made_at=schedule.created_at)
            left = [*recurrence.after(schedule.created_at)]
            of_rule = sorted(
                (each.due_at, each)
                for each in self.firings.values()
                if each.schedule_id == schedule.id and each.origin is Origin.RULE
            )
            for due_at, firing in of_rule:
                group, left = left[: firing.count], left[firing.count :]
                assert group, f"{firing.id} is beyond the end"
                assert group[-1] == due_at, f"{firing.id} leaves something out"
            assert not left, f"{schedule.id} did not deal with {left}"


async def create(on: ControlPlane, request: ScheduleRequest) -> str:
    """Make a schedule; its id."""
    schedule, _ = await on.service(Schedules).create(request, by="people")
    return schedule.id


async def order(on: ControlPlane, verb: str, schedule_id: str) -> None:
    """Carry out an order of an operator for a schedule."""
    if verb == "run":
        await on.service(Schedules).run(schedule_id, force=False, by="people")
    else:
        status = ScheduleStatus.PAUSED if verb == "pause" else ScheduleStatus.ACTIVE
        await on.service(Schedules).move(schedule_id, status, by="people")


def request(
    number: int, chance: random.Random, work: TaskRequest | str, rough_s: float
) -> ScheduleRequest:
    """Return a random schedule: intervals of seconds that end before the failures end.

    `work` is a task, or the name of a workflow.
    """
    every_s = chance.choice((5.0, 7.5, 20.0))
    by_name = ScheduledWorkflow(name=work) if isinstance(work, str) else None
    return ScheduleRequest(
        name=f"schedule-{number}",
        task=None if isinstance(work, str) else work,
        workflow=by_name,
        every_s=every_s,
        end_at=datetime.fromtimestamp(EPOCH + 0.8 * rough_s, UTC),
        coalesce=chance.random() < 0.5,
        misfire_grace_s=chance.choice((None, 3.0, 30.0)),
        max_instances=chance.choice((1, 2, 50)),
        overlap=chance.choice([*Overlap]),
        jitter_s=chance.choice((0.0, every_s)),
    )
