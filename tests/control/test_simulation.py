"""The promises hold in random worlds full of faults; when they do not, the simulator can tell."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from crawlfleet.adapters.store.acceptance import Present
from crawlfleet.control.leases.service import Leases
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.follow import MasterFollower
from crawlfleet.control.state.pending import DelayedTasks
from crawlfleet.control.state.refresh import ConcurrentChanges, Refresh
from crawlfleet.control.tasks import shard_parents
from crawlfleet.control.tasks.shard_parents import ShardParents
from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.core.tasks import admission, attempts, parents
from crawlfleet.core.tasks.merge import Merger
from crawlfleet.core.tasks.orders import Verb
from crawlfleet.core.tasks.recovery import RetryTask
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.settings import BreakerSettings, RecoverySettings
from crawlfleet.model.task import TaskStatus
from crawlfleet.ports.store import Refusal, RefusalKind
from crawlfleet.testing.simulation import (
    A_BAD_DAY,
    Scenario,
    Violation,
    share_of_a_day,
    simulate,
)
from crawlfleet.testing.simulation.clock import Stalled
from crawlfleet.worker.session.session import WorkSession

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
SEEDS, SEEDS_OF_TWO_MASTERS, WARY_SEEDS = (2_000, 1_000, 100) if SOAK else (30, 10, 3)
PORTION = 10
SEEDS_TO_FIND_A_DEFECT = [*dict.fromkeys((0, 10, 6, 5, *range(80)))]
"""In the first of these worlds most defects come out."""
WARY = Scenario(
    masters=2,
    tasks=40,
    rough_s=120.0,
    targets=("down.example", "up.example", None),
    recovery=RecoverySettings(retry_floor=3, fleet_retry_floor=5, retry_share=0.1),
    breakers=BreakerSettings(failures=2, tasks=1, pause_s=5.0, max_pause_s=20.0),
)
"""Sites are taken for down at once, and few retries are free."""
TWO_MASTERS = Scenario(masters=2)
TWO_DEAF_MASTERS = Scenario(masters=2, late_news_s=4.0)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, PORTION))
def test_every_promise_holds_whatever_fails(first: int) -> None:
    for seed in range(first, first + PORTION):
        outcome = simulate(seed)
        assert sum(outcome.by_status.values()) > 0


@pytest.mark.slow
def test_every_task_ends_although_many_are_held_back() -> None:
    for seed in range(WARY_SEEDS):
        outcome = simulate(seed, WARY)
        assert sum(outcome.by_status.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS_OF_TWO_MASTERS, PORTION))
def test_every_promise_holds_with_two_masters(first: int) -> None:
    for seed in range(first, first + PORTION):
        outcome = simulate(seed, TWO_DEAF_MASTERS if seed % 4 == 0 else TWO_MASTERS)
        assert sum(outcome.by_status.values()) > 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_bad_day_of_a_large_fleet_loses_nothing() -> None:
    """A million tasks on a thousand nodes in the soak; a small part of that otherwise."""
    scenario = A_BAD_DAY if SOAK else share_of_a_day(0.03)
    outcome = simulate(1, scenario)
    assert sum(outcome.by_status.values()) == scenario.tasks
    assert outcome.by_status["completed"] > scenario.tasks / 2


def test_a_rough_world_with_two_masters_loses_nothing() -> None:
    outcome = simulate(1, TWO_MASTERS)
    assert outcome.master_lives > 2, "masters must have died in this world"
    assert outcome.by_status["completed"] > 0


def test_a_rough_world_loses_nothing() -> None:
    outcome = simulate(1)
    assert outcome.master_lives > 1, "the master must have died in this world"
    assert outcome.by_status["completed"] > 0


@pytest.mark.slow
def test_the_same_seed_makes_the_same_world_in_another_process() -> None:
    program = "from crawlfleet.testing.simulation import simulate; print(simulate(7).fingerprint)"
    worlds = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(worlds) == 1


async def nothing(*_: object, **__: object) -> None:
    return None


Plant = Callable[[pytest.MonkeyPatch], None]


def any_session(self: Leases, node_id: str, session_id: str) -> object:
    sessions = self._state.sessions
    return sessions.get(session_id) or sessions.get(self._state.nodes[node_id].session_id or "")


def reports_are_believed_under_any_token(patch: pytest.MonkeyPatch) -> None:
    def believe(self: Leases, report: object, pending: Change | None) -> object:
        held = self._state.leases
        same_task = [each for each in held.values() if each.task.id == report.task_id]
        return same_task[0] if same_task else None

    patch.setattr(Leases, "_current", believe)
    patch.setattr(Leases, "_session", any_session)
    ended_sessions_get_work(patch)


def placement_forgets_what_is_reserved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fleet, "reserve", lambda *_: None)
    patch.setattr(Fleet, "release", lambda *_: None)


def freed_resources_are_not_given_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fleet, "release", lambda *_: None)


def work_of_a_lost_node_stays_where_it_was(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leases, "_losses", lambda *_: [])


def failures_are_retried_for_ever(patch: pytest.MonkeyPatch) -> None:
    def again(task: object, *_: object, now: float, **__: object) -> RetryTask:
        return RetryTask(at=now, retry_count=task.retry_count, loss_count=task.loss_count)

    patch.setattr(attempts, "after_failure", again)


def delayed_retries_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DelayedTasks, "next", lambda self: None)


def state_changes_without_its_event(patch: pytest.MonkeyPatch) -> None:
    whole = attempts._both

    def half(*args: object, **fields: object) -> Change | None:
        change = whole(*args, **fields)
        return change and Change(tasks=change.tasks, executions=change.executions)

    patch.setattr(attempts, "_both", half)


def ended_sessions_get_work(patch: pytest.MonkeyPatch) -> None:
    accept = Present.accept

    def without_guard(self: Present, change: Change) -> Refusal | None:
        return accept(
            self, Change(**{**{n: getattr(change, n) for n in ROWS}, "epoch": change.epoch})
        )

    patch.setattr(Present, "accept", without_guard)


ROWS = ("nodes", "sessions", "tasks", "executions", "rows", "claims", "events")


def versions_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    accept = Present.accept

    def anything(self: Present, change: Change) -> Refusal | None:
        refusal = accept(self, change)
        return None if refusal and refusal.kind is RefusalKind.VERSION else refusal

    patch.setattr(Present, "accept", anything)


def dedup_keys_are_not_claimed(patch: pytest.MonkeyPatch) -> None:
    admit = admission.admit

    def unclaimed(*args: object, **fields: object) -> Change:
        change = admit(*args, **fields)
        return Change(tasks=change.tasks, events=change.events)

    patch.setattr(admission, "admit", unclaimed)


def submissions_are_acknowledged_unwritten(patch: pytest.MonkeyPatch) -> None:
    commit = FleetState.commit

    async def forgetful(
        self: FleetState, changes: list[Change], *, room_at: str | None = None
    ) -> list[Refusal | None]:
        new = [each for each in changes if each.tasks and each.tasks[0].version == 1]
        if len(new) == 1 == len(changes):
            return [None]
        return await commit(self, changes, room_at=room_at)

    patch.setattr(FleetState, "commit", forgetful)


def a_restarted_master_forgets_what_runs(patch: pytest.MonkeyPatch) -> None:
    load = FleetState.load

    async def without_leases(self: FleetState) -> None:
        await load(self)
        for lease in [*self.leases.values()]:
            self._drop_lease(lease.execution)

    patch.setattr(FleetState, "load", without_leases)


def silent_nodes_go_on_working(patch: pytest.MonkeyPatch) -> None:
    async def never(self: WorkSession) -> None:
        await self._stopping.wait()

    patch.setattr(WorkSession, "_expire", never)


def freed_slots_wake_nobody(patch: pytest.MonkeyPatch) -> None:
    drop = FleetState._drop_lease

    def quietly(self: FleetState, execution: object) -> None:
        heard, self.signals.dispatch = self.signals.dispatch, asyncio.Event()
        drop(self, execution)
        self.signals.dispatch = heard

    patch.setattr(FleetState, "_drop_lease", quietly)


def every_state_is_an_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shard_parents, "TERMINAL", frozenset(TaskStatus))
    patch.setattr(parents, "TERMINAL", frozenset(TaskStatus))


def nobody_gathers_shards(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShardParents, "gather", nothing)


def ends_of_shards_are_heard_of_once_at_most(patch: pytest.MonkeyPatch) -> None:
    publish = ShardParents.publish

    async def once(self: ShardParents, events: Sequence[Event]) -> None:
        with contextlib.suppress(StoreUnavailable):
            await publish(self, events)

    patch.setattr(ShardParents, "publish", once)
    patch.setattr(ShardParents, "run", nothing)


def a_retried_shard_forgets_its_parent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parents, "with_parent", lambda _, change, *__, **___: change)


def shards_of_a_cancelled_parent_go_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parents, "_is_meant", lambda verb, _: verb is not Verb.CANCEL)


def the_first_shard_is_left_out(patch: pytest.MonkeyPatch) -> None:
    take = Merger.take
    patch.setattr(Merger, "take", lambda self, child: take(self, child) if child.shard else None)


DEFECTS = [
    reports_are_believed_under_any_token,
    placement_forgets_what_is_reserved,
    freed_resources_are_not_given_back,
    work_of_a_lost_node_stays_where_it_was,
    failures_are_retried_for_ever,
    delayed_retries_are_forgotten,
    state_changes_without_its_event,
    ended_sessions_get_work,
    versions_are_not_checked,
    dedup_keys_are_not_claimed,
    submissions_are_acknowledged_unwritten,
    a_restarted_master_forgets_what_runs,
    silent_nodes_go_on_working,
    freed_slots_wake_nobody,
    every_state_is_an_end,
    nobody_gathers_shards,
    ends_of_shards_are_heard_of_once_at_most,
    a_retried_shard_forgets_its_parent,
    shards_of_a_cancelled_parent_go_on,
    the_first_shard_is_left_out,
]


@pytest.mark.slow
@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_a_planted_defect_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in SEEDS_TO_FIND_A_DEFECT:
        try:
            simulate(seed)
        except (Violation, Stalled):
            return
    pytest.fail(f"{plant.__name__} went unnoticed in {len(SEEDS_TO_FIND_A_DEFECT)} worlds")


def masters_do_not_hear_of_each_other(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MasterFollower, "_renew", nothing)


def what_was_read_overwrites_what_is_newer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConcurrentChanges, "has", lambda *_: False)


def a_new_leader_does_not_catch_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MasterFollower, "catch_up", nothing)


def deadlines_of_other_clocks_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Refresh, "_timed", lambda _, session, *__: session)


def what_is_unknown_here_is_taken_for_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leases, "know_session", nothing)
    patch.setattr(Leases, "_know_leases", nothing)


SHARED_DEFECTS = [
    masters_do_not_hear_of_each_other,
    what_was_read_overwrites_what_is_newer,
    a_new_leader_does_not_catch_up,
    deadlines_of_other_clocks_are_believed,
    what_is_unknown_here_is_taken_for_lost,
]


@pytest.mark.slow
@pytest.mark.parametrize("plant", SHARED_DEFECTS, ids=lambda plant: plant.__name__)
def test_a_defect_planted_in_two_masters_is_found(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in SEEDS_TO_FIND_A_DEFECT:
        try:
            simulate(seed, TWO_DEAF_MASTERS)
        except (Violation, Stalled):
            return
    pytest.fail(f"{plant.__name__} went unnoticed in {len(SEEDS_TO_FIND_A_DEFECT)} worlds")
