"""Starts the due work of schedules while this master leads.

The runner sleeps until the next due instant, a change of a schedule, or the end of a task or run
that a firing waits for. `features.schedules.rules.firing` decides; each decision is stored as one
change with the tasks or runs, the cursor of the schedule and the history. The change carries the
leader's epoch and the schedule's version, so only one of two masters that believe to lead can
commit it, and a successor repeats nothing.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

import msgspec

from crawlfleet.control.quotas import QuotaIntake
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.store_pause import StorePause
from crawlfleet.features.schedules.model import Schedule
from crawlfleet.features.schedules.rules import firing, schedules
from crawlfleet.features.schedules.rules.firing import FiringPlan, LateFirings
from crawlfleet.features.schedules.schedule_index import ScheduleIndex
from crawlfleet.features.schedules.starter import ScheduleStarter, held_back
from crawlfleet.features.schedules.zones import zone_named
from crawlfleet.model.change import Change
from crawlfleet.ports.store import Refusal, RefusalKind
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.SCHED)
SCHEDULES_BATCH: Final = 100
"""Schedules in one commit."""
LOOK_AGAIN_S: Final = 300.0
"""Maximum sleep in seconds: the clock may be set, or the machine may sleep, meanwhile."""
SET_AHEAD_S: Final = 1.0
PAUSE_AFTER_CHANGE_S: Final = 0.05


class ScheduleRunner:
    """Watches the schedules, for as long as it runs."""

    def __init__(
        self,
        *,
        state: FleetState,
        system: System,
        starting: ScheduleStarter,
        index: ScheduleIndex,
    ) -> None:
        self._index = index
        self._state = state
        self._system = system
        self._starting = starting
        self._set_by_s = system.wall() - system.now()

    async def run(self) -> None:
        """Start due work, then sleep until the next due instant or event."""
        wake = self._index.changed
        while True:
            wake.clear()
            # Before looking: what ends from now on is heard of.
            with self._state.signals.ended.telling(self._awaited(), wake):
                async with StorePause(log, "schedules wait for the store") as store:
                    await self.do_due()
                if store.has_failed:
                    continue
                due = self.next_due()
                wait_s = None
                if due is not None:
                    wait_s = min(max(due - self._system.wall(), 0.0), LOOK_AGAIN_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await wake.wait()

    def next_due(self) -> float | None:
        """The next instant at which a schedule starts something."""
        index = self._index
        found = (index.starts_next(each) for each in index.active())
        return min((at for at in found if at is not None), default=None)

    async def do_due(self) -> None:
        """Start everything that is due."""
        now = self._system.wall()
        set_by_s = now - self._system.now()
        is_set_ahead = set_by_s - self._set_by_s > SET_AHEAD_S
        await self._go_back(now)
        due = [each for each in self._index.active() if self._is_due(each, now)]
        for first in range(0, len(due), SCHEDULES_BATCH):
            await self._fire(due[first : first + SCHEDULES_BATCH], now, is_set_ahead)
        # Last: if the store failed meanwhile, what was jumped over is looked at once more.
        self._set_by_s = set_by_s

    async def _go_back(self, now: float) -> None:
        """Move schedules by elapsed time to now if the clock was set back."""
        found = (schedules.set_back(each, now=now) for each in self._index.active())
        await self._state.commit_as_leader([change for change in found if change])

    def _awaited(self) -> list[str]:
        """Return the ids of tasks and runs whose end makes room for a waiting firing."""
        return [id for each in self._index.active() if each.waiting for id in each.running]

    def _is_due(self, schedule: Schedule, now: float) -> bool:
        at = self._index.starts_next(schedule)
        return schedule.waiting is not None or (at is not None and at <= now)

    async def _fire(self, due: Sequence[Schedule], now: float, is_set_ahead: bool) -> None:
        """Decide about due schedules and commit the decisions. With `is_set_ahead` the clock
        jumped, and the late instants of a schedule come to one firing."""
        running = await self._starting.living(due)
        verdicts: list[FiringPlan] = []
        for schedule in due:
            late = await self._look(together(schedule) if is_set_ahead else schedule, now)
            verdict = firing.decide(schedule, late, now=now, running=running[schedule.id])
            if verdict is not None:
                verdicts.append(verdict)
        for few in range(3):
            # What was drafted counts for the quotas until it is in the copy.
            with self._starting.intake() as intake:
                made = [await self._make(each, few, intake) for each in verdicts]
                refusals = await self._state.commit_as_leader(self._changes(verdicts, made, now))
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

    async def _look(self, schedule: Schedule, now: float) -> LateFirings:
        zone = zone_named(schedule.rule.time_zone)
        if zone is None:
            return LateFirings()
        recurrence = schedules.recurrence_of(schedule, zone)
        late = firing.look(schedule, recurrence, now)
        while late.more:
            await asyncio.sleep(0)
            late = firing.look(schedule, recurrence, now, late)
        return late

    async def _make(self, verdict: FiringPlan, few: int, intake: QuotaIntake) -> list[Change | str]:
        """Draft the starts of a plan: all of them, then only the first, then none, depending on how
        often the commit was refused."""
        wanted = len(verdict.starts)
        most = min({0: wanted, 1: 1, 2: 0}[few], wanted)
        made = await self._starting.drafts(verdict.schedule, most, intake)
        return [*made, *[held_back(verdict.schedule)] * (wanted - most)] if most < wanted else made

    def _changes(
        self, verdicts: Sequence[FiringPlan], made: Sequence[Sequence[Change | str]], now: float
    ) -> list[Change]:
        return [
            firing.settle(verdict, works, now=now, cause="its time has come")
            for verdict, works in zip(verdicts, made, strict=True)
        ]


def together(schedule: Schedule) -> Schedule:
    """Return the schedule with coalescing on, so that its late instants come to one firing."""
    rule = msgspec.structs.replace(schedule.rule, coalesce=True)
    return msgspec.structs.replace(schedule, rule=rule)


def claimed_by(refusal: Refusal) -> str:
    """Return the id of the row that holds the claim a task or run was refused for."""
    return refusal.claim.holder if refusal.claim is not None else refusal.subject
