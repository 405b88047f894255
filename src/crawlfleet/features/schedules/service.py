"""The service for schedules: create, read, change, pause, run at once, backfill, remove,
explain."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import Final

import msgspec

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.if_version import accept, expect_version, has_changed
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.errors import Conflict, FieldProblem, NotFound
from crawlfleet.features.schedules.model import (
    Firing,
    Outcome,
    Rule,
    Schedule,
    ScheduleStatus,
    WorkflowCall,
    firings_from,
)
from crawlfleet.features.schedules.rules import firing, schedules
from crawlfleet.features.schedules.rules import reasons as schedule_reasons
from crawlfleet.features.schedules.rules.firing import FiringPlan
from crawlfleet.features.schedules.rules.recurrence import Recurrence
from crawlfleet.features.schedules.runner import ScheduleRunner, claimed_by
from crawlfleet.features.schedules.schedule_index import ScheduleIndex
from crawlfleet.features.schedules.starter import ScheduleStarter, held_back
from crawlfleet.features.schedules.table import firings_of
from crawlfleet.features.schedules.views import (
    MAX_FILLED_BACK,
    ScheduledWorkflow,
    SchedulePatch,
    ScheduleReason,
    ScheduleRequest,
)
from crawlfleet.features.schedules.zones import name_near, zone_named
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.model.change import Change
from crawlfleet.model.ids import SCHEDULE, make_id
from crawlfleet.ports.store import RefusalKind, Store
from crawlfleet.ports.system import System

PORTION: Final = 1000


class Upcoming(msgspec.Struct, frozen=True, kw_only=True):
    """Due instants to come, each with when it starts something, by the clocks of a zone."""

    zone: tzinfo
    items: tuple[tuple[float, float], ...]


class Schedules:
    """Creates, reads, changes, runs and removes schedules."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        tasks: Tasks,
        workflows: Workflows,
        index: ScheduleIndex,
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._starting = ScheduleStarter(store=store, tasks=tasks, workflows=workflows)
        self._index = index
        self.runner = ScheduleRunner(
            state=state, system=system, starting=self._starting, index=index
        )
        """Starts what is due, for as long as this master leads."""

    @property
    def firings(self) -> Counter[Outcome]:
        """Number of firings by outcome that this master wrote."""
        return self._index.firings

    def all(self) -> list[Schedule]:
        """All schedules that were not removed, in order of id."""
        return self._index.all()

    def get(self, schedule_id: str) -> Schedule:
        """The schedule, or `NotFound`."""
        schedule = self._index.get(schedule_id)
        if schedule is None:
            raise NotFound("schedule", schedule_id)
        return schedule

    async def find(self, schedule_id: str) -> Schedule:
        """Read the newest version of the schedule from the store; raises `NotFound`."""
        await self._state.refresh.index(self._index, [schedule_id])
        return self.get(schedule_id)

    def page(
        self,
        *,
        after: str | None,
        limit: int,
        project_id: str | None = None,
        name: str | None = None,
    ) -> list[Schedule]:
        """Up to `limit` schedules beyond an id, in order of id."""
        found = [
            each
            for each in self._index.all()
            if (after is None or each.id > after)
            and project_id in (None, each.project_id)
            and name in (None, each.name)
        ]
        return found[:limit]

    async def running(self, schedule: Schedule) -> list[str]:
        """Return the ids of a schedule's tasks and runs that have not ended."""
        return (await self._starting.living([schedule]))[schedule.id]

    def next_at(self, schedule: Schedule) -> float | None:
        """Return the time at which a schedule starts something next; `None` while it is paused."""
        return self._index.starts_next(schedule) if schedule.is_active else None

    async def create(self, request: ScheduleRequest, *, by: str) -> tuple[Schedule, bool]:
        """Create a schedule; true if it is new. Raises `Conflict` if another schedule has the
        name."""
        rule = schedules.rule_of(request)
        zone = zone_named(rule.time_zone)
        problems = schedules.problems_of(
            rule, zone, name=request.name, description=request.description, near=_near(rule, zone)
        )
        if not request.name:
            problems.append(_no_name())
        accept([*problems, *schedules.work_problems(request)])
        call: WorkflowCall | None = None
        if request.workflow is not None:
            call, project_id = await self._starting.accept_workflow(request.workflow)
        else:
            assert request.task is not None, "that would be a problem"
            await self._starting.accept_task(request.task, by=by)
            project_id = request.task.project_id
        now = self._system.wall()
        change = schedules.new_schedule(
            request,
            call,
            project_id=project_id,
            id=make_id(SCHEDULE, now, self._system.entropy),
            now=now,
            cause=f"created by {by}",
        )
        (wanted,) = change.of(Schedule)
        (refusal,) = await self._state.commit([change])
        if refusal is None:
            return wanted, True
        if refusal.kind is not RefusalKind.CLAIM:
            raise has_changed(wanted.id)
        # Perhaps by this very request, which another master has answered unheard.
        there = await self.find(claimed_by(refusal))
        if schedules.essence(there) != schedules.essence(wanted):
            raise Conflict(
                f"there is a schedule {request.name!r} already ({there.id}); PATCH changes it, or "
                "choose another name"
            )
        return there, False

    async def change(
        self, schedule_id: str, patch: SchedulePatch, *, by: str, if_version: int | None = None
    ) -> Schedule:
        """Apply a patch to a schedule and return the new version."""
        accept(schedules.work_problems(patch))
        call: WorkflowCall | None = None
        if patch.task is not msgspec.UNSET:
            await self._starting.accept_task(patch.task, by=by)
        elif patch.workflow is not msgspec.UNSET:
            call = await self._own_workflow(await self.find(schedule_id), patch.workflow)

        def decide(schedule: Schedule, now: float) -> Change | None:
            rule = schedules.patched(schedule.rule, patch)
            zone = zone_named(rule.time_zone)
            accept(
                schedules.problems_of(
                    rule,
                    zone,
                    description="" if patch.description is msgspec.UNSET else patch.description,
                    near=_near(rule, zone),
                )
            )
            if patch.task is not msgspec.UNSET and patch.task.project_id != schedule.project_id:
                accept([_other_project(schedule, patch.task.project_id)])
            return schedules.changed_schedule(
                schedule, patch, call, now=now, cause=f"changed by {by}"
            )

        return await self._make(schedule_id, decide, if_version)

    async def _own_workflow(self, schedule: Schedule, wanted: ScheduledWorkflow) -> WorkflowCall:
        own = schedule.project_id
        if wanted.project_id not in (None, own):
            accept([_other_project(schedule, wanted.project_id or "", "workflow")])
        call, _ = await self._starting.accept_workflow(
            msgspec.structs.replace(wanted, project_id=own)
        )
        return call

    async def move(
        self, schedule_id: str, status: ScheduleStatus, *, by: str, if_version: int | None = None
    ) -> Schedule:
        """Pause the schedule, or let it go on."""
        verb = "paused" if status is ScheduleStatus.PAUSED else "resumed"

        def decide(schedule: Schedule, now: float) -> Change | None:
            return schedules.moved_schedule(schedule, status, now=now, cause=f"{verb} by {by}")

        return await self._make(schedule_id, decide, if_version)

    async def remove(self, schedule_id: str, *, by: str, if_version: int | None = None) -> Schedule:
        """Remove a schedule; tasks and runs that it started continue."""

        def decide(schedule: Schedule, now: float) -> Change | None:
            return schedules.removed_schedule(schedule, now=now, cause=f"removed by {by}")

        return await self._make(schedule_id, decide, if_version)

    async def run(self, schedule_id: str, *, force: bool, by: str) -> Firing:
        """Start something at once, whatever its rule says; `Conflict` when there is no room."""
        schedule = await self.find(schedule_id)
        running = await self.running(schedule)
        most = schedule.rule.max_instances
        if len(running) >= most and not force:
            raise Conflict(
                f"max_instances of {schedule.name} is {most}, and {', '.join(running[:3])} has not "
                "ended; wait for it, cancel it, or run with `force`"
            )
        now = self._system.wall()
        verdict = firing.run_now(schedule, now=now, running=running, cause=f"run by {by}")
        (fired,) = await self._start(schedule, verdict, now, f"run by {by}")
        return fired

    async def fill_back(
        self, schedule_id: str, since: float, until: float, *, dry_run: bool, by: str
    ) -> tuple[list[Firing], int]:
        """Start something for each due instant of a range that has not started anything.

        All of them or none. Also tells how many have.
        """
        schedule = await self.find(schedule_id)
        now = self._system.wall()
        dues = self._range(schedule, since, until, now)
        known = await self._known(schedule, dues)
        verdict = firing.fill_back(schedule, dues, known, now=now, cause=f"filled back by {by}")
        already = len(dues) - len(verdict.starts)
        if dry_run or not verdict.starts:
            return [start.firing for start in verdict.starts], already
        return await self._start(schedule, verdict, now, f"filled back by {by}"), already

    async def _known(self, schedule: Schedule, dues: Sequence[float]) -> list[Firing]:
        """Return the existing firings of a range of instants, of any edition."""
        if not dues:
            return []
        lowest = firings_from(schedule.id, dues[0])
        after = firings_from(schedule.id, dues[-1] + 0.001)
        known: list[Firing] = []
        while True:
            page = await self._store.find(firings_of(schedule.id, after=after, limit=PORTION))
            known += [each for each in page if each.id >= lowest]
            if len(page) < PORTION or page[-1].id < lowest:
                return known
            after = page[-1].id

    def _range(self, schedule: Schedule, since: float, until: float, now: float) -> list[float]:
        if until > now:
            accept([_of_range("until", "is in the future", "name an instant of the past")])
        if since >= until:
            accept([_of_range("since", "is not before until", "let the range begin earlier")])
        dues = self._recurrence(schedule).between(since, until, most=MAX_FILLED_BACK + 1)
        if len(dues) > MAX_FILLED_BACK:
            last = datetime.fromtimestamp(dues[MAX_FILLED_BACK], tz=zone_named("UTC"))
            accept(
                [
                    _of_range(
                        "until",
                        f"has more than {MAX_FILLED_BACK} due instants before it",
                        f"go in steps: first until {last.isoformat()}",
                    )
                ]
            )
        return dues

    async def _start(
        self, schedule: Schedule, verdict: FiringPlan, now: float, cause: str
    ) -> list[Firing]:
        """Start everything in a plan, or raise `Conflict` with the reason."""
        with self._starting.intake() as intake:
            made = await self._starting.drafts(schedule, len(verdict.starts), intake)
            for place, refused in enumerate(made):
                if isinstance(refused, str):
                    raise Conflict(_not_accepted(schedule, place, len(made), refused))
            change = firing.settle(verdict, made, now=now, cause=cause)
            (refusal,) = await self._state.commit([change])
        if refusal is not None and refusal.kind is RefusalKind.CLAIM:
            raise Conflict(f"{held_back(schedule)}, by {claimed_by(refusal)}")
        if refusal is not None:
            raise has_changed(schedule.id)
        return [*change.of(Firing)]

    async def history(self, schedule_id: str, *, after: str | None, limit: int) -> list[Firing]:
        """Return the firings of a schedule, the newest due instant first."""
        await self.find(schedule_id)
        return await self._store.find(firings_of(schedule_id, after=after, limit=limit))

    async def upcoming(self, schedule_id: str, *, after: float | None, count: int) -> Upcoming:
        """Return the next due instants of a schedule, as if it were not paused."""
        schedule = await self.find(schedule_id)
        # What was dealt with does not come again, also when the clock was set back.
        begin = max(self._system.wall(), schedule.cursor + 1e-3) if after is None else after
        found = self._recurrence(schedule).between(begin, float("inf"), most=count)
        zone = zone_named(schedule.rule.time_zone)
        assert zone is not None, "a recurrence has a zone"
        items = tuple((due, firing.starts_at(schedule, due)) for due in found)
        return Upcoming(zone=zone, items=items)

    def preview(self, rule: Rule, *, after: float | None, count: int) -> Upcoming:
        """The due instants that a rule would have."""
        zone = zone_named(rule.time_zone)
        accept(schedules.problems_of(rule, zone, near=_near(rule, zone)))
        assert zone is not None, "that would be a problem"
        now = self._system.wall()
        begin = now if after is None else after
        found = Recurrence(rule, zone, made_at=now).between(begin, float("inf"), most=count)
        return Upcoming(zone=zone, items=tuple((due, due) for due in found))

    async def explain(self, schedule_id: str) -> tuple[Schedule, str, list[ScheduleReason]]:
        """Return the schedule, a sentence why it does or does not run, and the reasons."""
        schedule = await self.find(schedule_id)
        running = await self.running(schedule)
        next_at = self._index.starts_next(schedule)
        reasons = schedule_reasons.reasons(
            schedule, next_at=next_at, running=running, now=self._system.wall()
        )
        return schedule, schedule_reasons.summary(schedule, reasons, next_at), reasons

    def _recurrence(self, schedule: Schedule) -> Recurrence:
        zone = zone_named(schedule.rule.time_zone)
        if zone is None:
            raise Conflict(
                f"this machine knows no time zone {schedule.rule.time_zone!r}; install the package "
                "tzdata, or change the schedule"
            )
        return schedules.recurrence_of(schedule, zone)

    async def _make(
        self,
        schedule_id: str,
        decide: Callable[[Schedule, float], Change | None],
        if_version: int | None,
    ) -> Schedule:
        async def present() -> tuple[Schedule, Change | None]:
            schedule = await self.find(schedule_id)
            change = decide(schedule, self._system.wall())
            if change is None:
                return schedule, None
            expect_version(schedule_id, schedule.version, if_version)
            return change.of(Schedule)[0], change

        return await self._state.decide(schedule_id, present)


def _near(rule: Rule, zone: tzinfo | None) -> str:
    return name_near(rule.time_zone) if zone is None else ""


def _no_name() -> FieldProblem:
    return FieldProblem(
        field="name", value="", message="is empty", remedy="name it, such as shop-nightly"
    )


def _of_range(field: str, message: str, remedy: str) -> FieldProblem:
    return FieldProblem(field=field, message=message, remedy=remedy)


def _not_accepted(schedule: Schedule, place: int, of: int, why: str) -> str:
    what = "task" if schedule.workflow is None else "run"
    which = "" if of == 1 else f" {place + 1} of {of}"
    return f"the {what}{which} of {schedule.name} is not accepted: {why}"


def _other_project(schedule: Schedule, wanted: str, within: str = "task") -> FieldProblem:
    return FieldProblem(
        field=f"{within}.project_id",
        value=wanted,
        message=f"is not the project of the schedule, {schedule.project_id!r}",
        remedy="leave it out, or make a schedule in the other project",
    )
