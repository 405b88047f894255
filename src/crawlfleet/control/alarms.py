"""Starts what schedules have due, for as long as this master leads.

Sleeps until the next due instant, or until a schedule changes, or until a task ends that a firing
waits for. What is due is decided by `core.firing` and written as one change: the tasks, the cursor
of the schedule and the history. It carries the leader's epoch and the schedule's version. So of two
masters that believe to lead, and of a master that is killed at any instant and its successor, one
does it.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from crawlfleet.control.leases import demand_lead
from crawlfleet.control.state import FleetState
from crawlfleet.control.tasks import Tasks
from crawlfleet.control.zones import zone_named
from crawlfleet.core import firing, schedules
from crawlfleet.core.firing import Late, Verdict
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.change import Change
from crawlfleet.model.schedule import Schedule
from crawlfleet.model.task import TERMINAL
from crawlfleet.ports.store import Refusal, RefusalKind, Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.SCHED)
AT_ONCE: Final = 100
"""Schedules in one commit."""
LOOK_AGAIN_S: Final = 300.0
"""Somebody may set the clock while we sleep, or the machine may sleep too."""
PAUSE_AFTER_FAILURE_S: Final = 0.5
PAUSE_AFTER_CHANGE_S: Final = 0.05


class Alarms:
    """Watches the schedules, for as long as it runs."""

    def __init__(self, *, store: Store, state: FleetState, system: System, tasks: Tasks) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._tasks = tasks

    async def run(self) -> None:
        """Do what is due, then sleep until the next thing is."""
        wake = self._state.signals.schedules
        while True:
            wake.clear()
            # Before looking: what ends from now on is heard of.
            with self._state.signals.ended.telling(self._awaited(), wake):
                try:
                    await self.do_due()
                except StoreUnavailable as error:
                    log.warning("schedules wait for the store", error=str(error))
                    await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
                    continue
                due = self.next_due()
                wait_s = None
                if due is not None:
                    wait_s = min(max(due - self._system.now(), 0.0), LOOK_AGAIN_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await wake.wait()

    def next_due(self) -> float | None:
        """The next instant at which a schedule starts something."""
        timetable = self._state.timetable
        found = (timetable.starts_next(each) for each in timetable.active())
        return min((at for at in found if at is not None), default=None)

    async def do_due(self) -> None:
        """Everything whose time has come."""
        now = self._system.now()
        due = [each for each in self._state.timetable.active() if self._is_due(each, now)]
        for first in range(0, len(due), AT_ONCE):
            await self._fire(due[first : first + AT_ONCE], now)

    def _awaited(self) -> list[str]:
        """The tasks whose end makes room for a firing that waits."""
        return [
            task for each in self._state.timetable.active() if each.waiting for task in each.running
        ]

    def _is_due(self, schedule: Schedule, now: float) -> bool:
        at = self._state.timetable.starts_next(schedule)
        return schedule.waiting is not None or (at is not None and at <= now)

    async def _fire(self, due: Sequence[Schedule], now: float) -> None:
        running = await living_tasks(self._store, due)
        verdicts: list[Verdict] = []
        for schedule in due:
            late = await self._look(schedule, now)
            verdict = firing.decide(schedule, late, now=now, running=running[schedule.id])
            if verdict is not None:
                verdicts.append(verdict)
        for few in range(3):
            made = [await self._make(each, few) for each in verdicts]
            refusals = await self._state.commit(self._changes(verdicts, made, now))
            demand_lead(refusals)
            if any(refusal and refusal.kind is RefusalKind.VERSION for refusal in refusals):
                # Somebody has changed one: it is looked at anew, but not again and again.
                await asyncio.sleep(PAUSE_AFTER_CHANGE_S)
            # Those whose work is under way already are written down as that.
            verdicts = [
                verdict
                for verdict, refusal in zip(verdicts, refusals, strict=True)
                if refusal and refusal.kind is RefusalKind.CLAIM
            ]
            if not verdicts:
                return

    async def _look(self, schedule: Schedule, now: float) -> Late:
        zone = zone_named(schedule.rule.time_zone)
        if zone is None:
            return Late()
        recurrence = schedules.recurrence_of(schedule, zone)
        late = firing.look(schedule, recurrence, now)
        while late.more:
            await asyncio.sleep(0)
            late = firing.look(schedule, recurrence, now, late)
        return late

    async def _make(self, verdict: Verdict, few: int) -> list[Change | str]:
        """The tasks of a verdict: all, then only the first, then none, as there is room for."""
        schedule = verdict.schedule
        request = schedules.request_of(schedule)
        held = f"the same work (dedup_key {request.dedup_key!r}) is under way, or was just done"
        most = {0: len(verdict.starts), 1: 1, 2: 0}[few]
        return [
            await self._tasks.draft(request, by=called(schedule)) if place < most else held
            for place in range(len(verdict.starts))
        ]

    def _changes(
        self, verdicts: Sequence[Verdict], made: Sequence[Sequence[Change | str]], now: float
    ) -> list[Change]:
        return [
            firing.settle(
                verdict, tasks, now=now, cause="its time has come", epoch=self._state.epoch
            )
            for verdict, tasks in zip(verdicts, made, strict=True)
        ]


def called(schedule: Schedule) -> str:
    """How a schedule is spoken of as the one who submits."""
    return f"the schedule {schedule.name} ({schedule.id})"


async def living_tasks(store: Store, found: Sequence[Schedule]) -> dict[str, list[str]]:
    """Of each schedule, the tasks that have not ended."""
    ids = [task for schedule in found for task in schedule.running]
    states = await store.task_states(ids) if ids else {}
    return {
        schedule.id: [
            task for task in schedule.running if task in states and states[task] not in TERMINAL
        ]
        for schedule in found
    }


def claimed_by(refusal: Refusal) -> str:
    """Who has what a task wanted to claim."""
    return refusal.claim.holder if refusal.claim is not None else refusal.subject
