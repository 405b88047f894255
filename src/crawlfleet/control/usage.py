"""The use of projects over time: sampled, measured, and reported.

Each commit counts its own use (`core.usage`). This module adds the rest: the most tasks that waited
and ran, and how many bytes are kept. The leading master samples every few seconds and adds to the
rows of the hour, once a minute at most and only where there is something new.

Every master also begins days, and reads the counts of other masters where a quota needs them.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from math import inf
from typing import Final

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.usage import over_time
from crawlfleet.errors import CrawlfleetError, OutputUnavailable, StoreUnavailable
from crawlfleet.model.change import Change
from crawlfleet.model.quota import Allowance
from crawlfleet.model.usage import DAY_S, HOUR_S, UsageHour
from crawlfleet.ports.kernel_tables import BUNDLES, usage_between
from crawlfleet.ports.output import OutputStore
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
SAMPLE_EVERY_S: Final = 10.0
WRITE_EVERY_S: Final = 60.0
MEASURE_EVERY_S: Final = 600.0
ANSWER_WITHIN_S: Final = 60.0
"""Timeout for the sizes of stored output; a slower answer is used at the next measurement."""
LOOK_EVERY_S: Final = 10.0
PORTION: Final = 1000


class UsageMeter:
    """Measures the use of projects, for as long as it runs."""

    def __init__(
        self, *, store: Store, state: FleetState, system: System, output: OutputStore | None
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._output = output
        self._begin_hour(system.now() // HOUR_S * HOUR_S)
        self._kept: dict[str, int] = {}
        """Stored bytes by project, when last measured."""
        self._told: dict[str, tuple[int, int]] = {}
        """Day and number of the stored bytes that were last written, by project."""
        self._asked: asyncio.Task[Mapping[str, int]] | None = None
        """Pending request for the sizes of stored output."""
        self._measured_at = self._written_at = 0.0
        self.is_unmeasured = False
        """Set while this master leads and fails to measure the stored bytes."""

    def _begin_hour(self, hour: float) -> None:
        self._hour = hour
        self._peaks: dict[str, tuple[int, int]] = {}
        """Maximum numbers of waiting and of running tasks in this hour, by project."""
        self._written: dict[str, tuple[int, int]] = {}

    async def run(self) -> None:
        """Begin days, and read the counts of other masters; runs until cancelled."""
        while True:
            self.begin_day()
            try:
                await self.look()
            except StoreUnavailable as error:
                log.warning("usage waits for the store", error=str(error))
            now = self._system.now()
            await asyncio.sleep(min(LOOK_EVERY_S, DAY_S - now % DAY_S))

    def begin_day(self) -> None:
        """Reset the use of the day when a new one begins, and wake dispatch."""
        if self._state.tenancy.begin_day(int(self._system.now() // DAY_S)):
            self._state.signals.dispatch.set()

    async def look(self) -> None:
        """Read the use of today from the store, if a project has a quota on it."""
        if not any(_is_metered(project.allowance) for project in self._state.projects.values()):
            return
        await self._state.catch_up()
        tenancy = self._state.tenancy
        spendings = tenancy.spendings
        today = self._system.now() // DAY_S
        rows = await self._store.find(usage_between(since=today * DAY_S, until=inf))
        # What was committed meanwhile may be in what was read, or only in the copy.
        await self._state.catch_up()
        if self._state.tenancy is not tenancy:
            return
        exact = tenancy.spendings == spendings
        for row in over_time(rows, DAY_S):
            if row.at == today * DAY_S:
                tenancy.tenant(row.project_id).settle(row, exact=exact)

    async def keep(self) -> None:
        """Sample waiting, running and stored amounts while this master leads."""
        # Whoever begins to lead has more urgent things to do.
        self._written_at = self._system.now()
        self._measured_at = self._written_at + WRITE_EVERY_S - MEASURE_EVERY_S
        try:
            while True:
                await asyncio.sleep(SAMPLE_EVERY_S)
                try:
                    await self.sample()
                except StoreUnavailable as error:
                    log.warning("usage is not kept", error=str(error))
        finally:
            self.is_unmeasured = False
            if self._asked is not None:
                self._asked.cancel()
                self._asked = None

    async def sample(self) -> None:
        """Take a sample, and write new values if it is time to."""
        now = self._system.now()
        if now // HOUR_S * HOUR_S != self._hour:
            await self.write()
            self._begin_hour(now // HOUR_S * HOUR_S)
        if now - self._measured_at >= MEASURE_EVERY_S:
            self._measured_at = now
            await self._try_to_measure()
        state = self._state
        for id in state.projects:
            waiting = state.queue.waiting(id) + state.delays.count(id)
            running = state.tenancy.tenant(id).running
            if waiting or running:
                before = self._peaks.get(id, (0, 0))
                self._peaks[id] = max(waiting, before[0]), max(running, before[1])
        if now - self._written_at >= WRITE_EVERY_S:
            self._written_at = now
            await self.write()

    async def write(self) -> None:
        """Add new values to the rows of the hour."""
        rows = [*filter(None, map(self._row, sorted({*self._peaks, *self._kept})))]
        if not rows:
            return
        await self._state.commit_as_leader([Change(usage=tuple(rows))])
        for row in rows:
            self._written[row.project_id] = row.peak_waiting, row.peak_running
            if row.storage_bytes is not None:
                self._told[row.project_id] = int(self._hour // DAY_S), row.storage_bytes

    def _row(self, project_id: str) -> UsageHour | None:
        waiting, running = peaks = self._peaks.get(project_id, (0, 0))
        kept = self._kept.get(project_id)
        if kept is not None and self._told.get(project_id) == (self._hour // DAY_S, kept):
            kept = None
        if kept is None and peaks == self._written.get(project_id, (0, 0)):
            return None
        return UsageHour(
            project_id=project_id,
            at=self._hour,
            peak_waiting=waiting,
            peak_running=running,
            storage_bytes=kept,
        )

    async def _try_to_measure(self) -> None:
        """Measure the stored bytes. If the output store fails, the last measurement counts and
        everything else goes on; a lasting failure is logged once.
        """
        try:
            await self._measure()
        except StoreUnavailable:
            raise
        except Exception as error:
            if not self.is_unmeasured:
                say = log.warning if isinstance(error, CrawlfleetError) else log.exception
                say("storage is not measured", error=str(error) or repr(error))
            self.is_unmeasured = True
            return
        if self.is_unmeasured:
            log.info("storage is measured again")
        self.is_unmeasured = False

    async def _measure(self) -> None:
        """Sum the stored bytes of each project: output of its crawls, and its bundles."""
        kept: Counter[str] = Counter()
        for bundle in await self._store.find(BUNDLES.where()):
            kept[bundle.project_id] += sum(version.bytes for version in bundle.versions)
        sizes = await self._sizes(self._output) if self._output is not None else {}
        ids = sorted(sizes)
        for begin in range(0, len(ids), PORTION):
            owners = await self._store.task_owners(ids[begin : begin + PORTION])
            for id, project_id in owners.items():
                kept[project_id] += sizes[id]
        self._kept = {id: kept[id] for id in {*self._kept, *kept}}

    async def _sizes(self, output: OutputStore) -> Mapping[str, int]:
        """Return the sizes of stored output. Raises `OutputUnavailable` without an answer in time:
        a hanging store must not stop the other measurements.
        """
        if self._asked is None:
            self._asked = asyncio.create_task(output.sizes(), name="sizes")
        done, _ = await asyncio.wait([self._asked], timeout=ANSWER_WITHIN_S)
        if not done:
            raise OutputUnavailable(f"storage gave no answer within {ANSWER_WITHIN_S:g} s")
        asked, self._asked = self._asked, None
        return asked.result()

    async def report(
        self, *, since: float, until: float, step_s: float, project_id: str | None = None
    ) -> list[UsageHour]:
        """Return the use by day or by hour; of one project, or of all."""
        begin = since // step_s * step_s
        rows = await self._store.find(
            usage_between(since=begin, until=until, project_id=project_id)
        )
        return over_time(rows, step_s)


def _is_metered(allowance: Allowance) -> bool:
    return allowance.pages_per_day is not None or allowance.storage_mb is not None
