"""The master's memory decides anew when somebody else was faster, and only the leader leads."""

import random
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.state.fleet_state import MAX_DECISIONS, FleetState
from crawlfleet.errors import Conflict, LeadershipLost
from crawlfleet.model.change import Change
from crawlfleet.model.project import DEFAULT_PROJECT, Project
from crawlfleet.ports.kernel_tables import PROJECTS
from crawlfleet.ports.store import Refusal, RefusalKind
from crawlfleet.testing.simulation.clock import SimulatedSystem, run_simulated


def with_state(test: Callable[[FleetState, MemoryStore], Awaitable[None]]) -> None:
    async def run() -> None:
        system = SimulatedSystem(random.Random(1))
        store = MemoryStore()
        await store.open()
        lead = await store.lead("here")
        assert lead is not None
        state = FleetState(store=store, system=system)
        await state.load()
        state.epoch = lead.epoch
        await test(state, store)
        await store.close()

    run_simulated(run())


def renamed(project: Project, name: str) -> Change:
    return Change(rows=(msgspec.structs.replace(project, name=name, version=project.version + 1),))


def test_a_change_is_decided_anew_on_what_another_master_wrote() -> None:
    async def test(state: FleetState, store: MemoryStore) -> None:
        seen: list[str] = []

        async def decide() -> tuple[str, Change]:
            project = state.projects[DEFAULT_PROJECT]
            seen.append(project.name)
            if len(seen) == 1:
                await store.commit([renamed(project, "theirs")])
            return "ours", renamed(project, "ours")

        assert await state.decide(DEFAULT_PROJECT, decide) == "ours"
        assert len(seen) == 2
        assert seen[1] == "theirs"
        assert state.projects[DEFAULT_PROJECT].name == "ours"

    with_state(test)


def test_without_a_change_the_answer_comes_at_once() -> None:
    async def test(state: FleetState, store: MemoryStore) -> None:
        async def decide() -> tuple[int, None]:
            return 7, None

        assert await state.decide("nothing", decide) == 7

    with_state(test)


def test_who_is_always_too_late_is_told_so() -> None:
    async def test(state: FleetState, store: MemoryStore) -> None:
        kinds: list[RefusalKind] = []

        async def decide() -> tuple[None, Change]:
            stale = msgspec.structs.replace(state.projects[DEFAULT_PROJECT], version=0)
            return None, renamed(stale, "late")

        with pytest.raises(Conflict, match=DEFAULT_PROJECT):
            await state.decide(
                DEFAULT_PROJECT, decide, on_refusal=lambda each: kinds.append(each.kind)
            )
        assert kinds == [RefusalKind.VERSION] * MAX_DECISIONS

    with_state(test)


def test_a_leader_that_was_deposed_changes_nothing() -> None:
    async def test(state: FleetState, store: MemoryStore) -> None:
        state.epoch -= 1

        async def decide() -> tuple[None, Change]:
            return None, renamed(state.projects[DEFAULT_PROJECT], "old")

        before = state.projects[DEFAULT_PROJECT]
        with pytest.raises(LeadershipLost):
            await state.commit_as_leader([renamed(before, "old")])
        with pytest.raises(LeadershipLost):
            await state.decide(DEFAULT_PROJECT, decide, as_leader=True)
        assert (await store.find(PROJECTS.where()))[0] == before == state.projects[DEFAULT_PROJECT]

    with_state(test)


def test_of_a_batch_only_what_was_refused_is_decided_anew() -> None:
    async def test(state: FleetState, store: MemoryStore) -> None:
        batches: list[int] = []
        left = ["a", "b"]

        async def decide() -> Sequence[Change]:
            batches.append(len(left))
            project = state.projects[DEFAULT_PROJECT]
            return [renamed(project, name) for name in left]

        def is_settled(changes: Sequence[Change], refusals: Sequence[Refusal | None]) -> bool:
            pairs = zip(changes, refusals, strict=True)
            left[:] = [change.of(Project)[0].name for change, refusal in pairs if refusal]
            return not left

        assert await state.decide_batch(decide, is_settled=is_settled)
        assert batches == [2, 1]
        assert state.projects[DEFAULT_PROJECT].name == "b"

        async def never() -> Sequence[Change]:
            stale = msgspec.structs.replace(state.projects[DEFAULT_PROJECT], version=0)
            return [renamed(stale, "late")]

        assert not await state.decide_batch(never)

    with_state(test)
