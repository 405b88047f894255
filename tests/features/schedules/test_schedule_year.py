"""A year of schedules in several time zones, while masters are killed, deposed and away for days.

What must come out is what a reference says that looks at every minute of the year.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.quotas import Quotas
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.tasks.orders import TaskOrders
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.core.placement.rules import default_rules
from crawlfleet.core.tasks.admission import AdmissionRules
from crawlfleet.errors import LeadershipLost, StoreUnavailable
from crawlfleet.features.schedules import runner
from crawlfleet.features.schedules.model import Firing, Outcome, Schedule
from crawlfleet.features.schedules.schedule_index import ScheduleIndex
from crawlfleet.features.schedules.service import Schedules
from crawlfleet.features.schedules.table import firings_of
from crawlfleet.features.schedules.views import ScheduleRequest
from crawlfleet.features.webhooks.submission import CallbackCheck
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.model.change import Change
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.settings import TaskSettings
from crawlfleet.model.task import Task, TaskStatus
from crawlfleet.ports.store import Committed
from crawlfleet.testing.simulation.clock import EPOCH, SimulatedSystem, run_simulated
from tests.core import reference_cron as reference

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
DAY_S = 86_400.0
YEAR_S = 366 * DAY_S
HOUR_S = 3_600.0

pytestmark = [pytest.mark.slow]


class Kind(NamedTuple):
    """A schedule of the year."""

    cron: str
    zone: str
    more: dict[str, Any]


KINDS = (
    Kind("30 2 * * *", "Europe/Berlin", {}),
    Kind("30 1 * * *", "America/New_York", {"misfire_grace_s": HOUR_S}),
    Kind("0 2 * * *", "Australia/Lord_Howe", {"jitter_s": 900.0, "misfire_grace_s": 2 * HOUR_S}),
    Kind("45 */8 * * *", "America/Sao_Paulo", {"coalesce": False, "max_instances": 50}),
    Kind("0 3 * * sun", "Europe/London", {"coalesce": False, "misfire_grace_s": DAY_S}),
    Kind("59 23 28-31 * *", "Asia/Kathmandu", {}),
)


class Killed(BaseException):
    """The process is gone, in the middle of whatever it did."""


class DangerousStore:
    """The store as a master sees it that is killed around commits, and does not always get an
    answer."""

    def __init__(self, store: MemoryStore, chance: random.Random, rate: float) -> None:
        self._store = store
        self._chance = chance
        self._rate = rate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, changes: Sequence[Change]) -> Committed:
        if changes and self._chance.random() < self._rate:
            raise Killed
        if changes and self._chance.random() < self._rate / 2:
            raise StoreUnavailable("refused before the commit")
        await asyncio.sleep(self._chance.choice((0.0, 0.001, 0.5)))
        committed = await self._store.commit(changes)
        if changes and self._chance.random() < self._rate:
            raise Killed
        if changes and self._chance.random() < self._rate / 2:
            raise StoreUnavailable("nobody knows whether it was committed")
        return committed


class Master:
    """As much of a master as schedules need."""

    def __init__(self, store: Any, chance: random.Random) -> None:
        system = SimulatedSystem(chance, skew_s=chance.uniform(-5.0, 5.0))
        self.store = store
        self.state = FleetState(store=store, system=system)
        rules = AdmissionRules(strategies=default_rules().strategies)
        limits = TaskSettings()
        common: dict[str, Any] = {"store": store, "state": self.state, "system": system}
        quotas = Quotas(state=self.state, system=system)
        tasks = Tasks(**common, rules=rules, settings=limits, quotas=quotas)
        callbacks = CallbackCheck(store=store, allow_private=False)
        workflows = Workflows(
            **common, tasks=tasks, orders=TaskOrders(**common), callbacks=callbacks
        )
        index = ScheduleIndex(store=store)
        self.state.indexes.append(index)
        self.state.signals.wake_with_all(index.changed)
        self.schedules = Schedules(**common, tasks=tasks, workflows=workflows, index=index)

    async def lead(self) -> None:
        """Until it is killed, or finds out that another one leads."""
        lead = await self.store.lead("master")
        await self.state.load()
        self.state.epoch = lead.epoch
        recovering = asyncio.create_task(self.state.recover())
        try:
            await self.schedules.runner.run()
        finally:
            recovering.cancel()
            await asyncio.wait([recovering])


async def keep_masters(store: MemoryStore, chance: random.Random, rate: float) -> int:
    """Start one whenever one is killed, sometimes after days; at times beside one that lives."""
    lives = 0
    deposed: list[asyncio.Task[None]] = []
    try:
        while True:
            lives += 1
            master = Master(DangerousStore(store, chance, rate), chance)
            life = asyncio.create_task(master.lead())
            done, _ = await asyncio.wait({life}, timeout=chance.expovariate(1 / (20 * DAY_S)))
            if not done:
                # A second one begins to lead, while the first believes that it does.
                deposed.append(life)
                continue
            with contextlib.suppress(Killed, StoreUnavailable):
                life.result()
            away_s = chance.choice((0.5, 5.0, 600.0, 2.5 * HOUR_S, 3.2 * DAY_S))
            await asyncio.sleep(away_s if rate else 0.0)
    except asyncio.CancelledError:
        for task in (*deposed, life):
            task.cancel()
        ended = await asyncio.gather(*deposed, life, return_exceptions=True)
        for each in ended:
            if not isinstance(each, Killed | LeadershipLost | asyncio.CancelledError):
                raise AssertionError(f"a master ended by itself: {each!r}") from None
        return lives


async def do_the_work(store: MemoryStore) -> None:
    """What is submitted is done within half an hour."""
    while True:
        await asyncio.sleep(1800.0)
        async for tasks in store.unfinished_tasks():
            await store.commit([Change(tasks=(done(task),)) for task in tasks])


def done(task: Task) -> Task:
    from msgspec.structs import replace

    return replace(task, status=TaskStatus.COMPLETED, completed_at=0.0, version=task.version + 1)


async def a_year(seed: int, rate: float) -> tuple[MemoryStore, list[Schedule], int]:
    chance = random.Random(seed)
    store = MemoryStore()
    await store.open()
    first = Master(store, chance)
    await first.state.load()
    made = [
        (
            await first.schedules.create(
                ScheduleRequest(
                    name=f"kind-{number}",
                    task=TaskRequest(task_type="work"),
                    cron=kind.cron,
                    time_zone=kind.zone,
                    end_at=datetime.fromtimestamp(EPOCH + YEAR_S, UTC),
                    **kind.more,
                ),
                by="ann",
            )
        )[0]
        for number, kind in enumerate(KINDS)
    ]
    keeping = asyncio.create_task(keep_masters(store, chance, rate))
    working = asyncio.create_task(do_the_work(store))
    await asyncio.wait({keeping, working}, timeout=YEAR_S + 20 * DAY_S)
    keeping.cancel()
    working.cancel()
    await asyncio.wait({working})
    return store, made, await keeping


def spans(firings: Sequence[Firing], dues: Sequence[float]) -> None:
    """The firings cut the due instants into pieces: nothing is left out, nothing is in two."""
    left = [*dues]
    for firing in firings:
        group, left = left[: firing.count], left[firing.count :]
        assert group, f"{firing} is due at no instant of the reference"
        assert firing.due_at == group[-1], firing
        assert (firing.first_due_at or firing.due_at) == group[0], firing
    assert left == []


def check(kind: Kind, firings: Sequence[Firing], dues: Sequence[float]) -> None:
    spans(firings, dues)
    grace = kind.more.get("misfire_grace_s")
    for firing in firings:
        # Clocks of masters are wrong by seconds, and jitter comes on top.
        late_s = firing.at - firing.due_at
        most = 11.0 + kind.more.get("jitter_s", 0.0)
        assert late_s > -11.0
        if firing.outcome is Outcome.MISSED:
            assert grace is not None
            assert late_s > grace - 11.0
        elif grace is not None:
            assert late_s <= grace + most
        if not kind.more.get("coalesce", True):
            assert firing.count == 1 or firing.outcome is Outcome.MISSED


@pytest.fixture(scope="module")
def wanted() -> list[list[float]]:
    """The due instants of each kind, from minute to minute."""
    since, until = (datetime.fromtimestamp(EPOCH + s, UTC) for s in (0.0, YEAR_S))
    begin = since.replace(second=0, microsecond=0)
    found = []
    for kind in KINDS:
        minutes = reference.minutes_of(ZoneInfo(kind.zone), begin, until)
        dues = reference.due(kind.cron, minutes)
        found.append([due for due in dues if EPOCH < due < EPOCH + YEAR_S])
    return found


@pytest.mark.parametrize("seed", range(1, 31 if SOAK else 2))
def test_a_year_with_masters_that_die_at_any_instant(
    seed: int, wanted: list[list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "LOOK_AGAIN_S", 6 * HOUR_S)

    async def scene() -> None:
        store, made, lives = await a_year(seed, rate=0.02)
        assert lives > 20
        started = 0
        for kind, schedule, dues in zip(KINDS, made, wanted, strict=True):
            firings = (await store.find(firings_of(schedule.id, after=None, limit=100_000)))[::-1]
            check(kind, firings, dues)
            tasks = [each.task_id for each in firings if each.outcome is Outcome.STARTED]
            assert None not in tasks
            assert len({*tasks}) == len(tasks)
            started += len(tasks)
        assert sum((await store.count_tasks()).values()) == started

    run_simulated(scene())


def test_a_year_without_trouble_starts_each_instant_by_itself(
    wanted: list[list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "LOOK_AGAIN_S", 6 * HOUR_S)

    async def scene() -> None:
        store, made, _ = await a_year(0, rate=0.0)
        for kind, schedule, dues in zip(KINDS, made, wanted, strict=True):
            firings = (await store.find(firings_of(schedule.id, after=None, limit=100_000)))[::-1]
            assert [each.due_at for each in firings] == dues, kind
            assert {each.outcome for each in firings} == {Outcome.STARTED}
            assert all(
                each.at - each.due_at < 11 + kind.more.get("jitter_s", 0) for each in firings
            )

    run_simulated(scene())
