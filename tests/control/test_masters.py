"""Two masters over one store: one leads, both serve, and each copy stays true."""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.events.stream import EventFilter
from crawlfleet.control.state import follow
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.tasks.orders import Verb
from crawlfleet.errors import Conflict, Unauthenticated
from crawlfleet.features.crawls.service import Crawls, CrawlVerb
from crawlfleet.model.admin_requests import ClusterPatch, ClusterSettingsPatch, ProjectPatch
from crawlfleet.model.key import Role
from crawlfleet.model.project import DEFAULT_CLUSTER, DEFAULT_PROJECT
from crawlfleet.model.settings import RetentionSettings
from crawlfleet.model.task import RetryPolicy, TaskStatus
from crawlfleet.model.wire.node_protocol import (
    Note,
    NoteBatch,
    OrderAnswer,
    ReportKind,
    ReportOutcome,
)
from crawlfleet.testing.simulation.clock import SimulatedSystem, run_simulated
from crawlfleet.testing.simulation.shared import SharedMemory
from tests.control.stage import PlayedNode, Stage, stage

SEEDS = 500 if os.environ.get("CRAWLFLEET_SOAK") else 12
DONE = (ReportKind.STARTED, ReportKind.SUCCEEDED)
KINDS = (
    *("submit", "node", "take", "report", "order", "beat", "depose"),
    *("configure", "project"),
)


class Two:
    """A leader and a follower, which takes over when the leader goes."""

    def __init__(self, shared: SharedMemory, one: Stage, other: Stage) -> None:
        self.shared = shared
        self.one = one
        self.other = other

    def depose(self) -> None:
        """The leader loses its connection to the store's lock, and nothing else."""
        assert self.shared.leader is not None
        self.shared.leave(self.shared.leader)


@contextlib.asynccontextmanager
async def two(
    delay_s: Callable[[], float] = lambda: 0.001, skew_s: float = 0.0, **sections: Any
) -> AsyncIterator[Two]:
    shared = SharedMemory(MemoryStore(), delay_s=delay_s)
    async with (
        stage(shared.seat(), name="one", **sections) as one,
        stage(shared.seat(), name="other", skew_s=skew_s, **sections) as other,
    ):
        yield Two(shared, one, other)


def picture(state: FleetState) -> dict[str, Any]:
    """What a copy says, as far as two copies must agree."""
    return {
        "nodes": state.nodes,
        "sessions": sorted(state.sessions),
        "keys": state.keyring.keys,
        "projects": state.projects,
        "clusters": state.clusters,
        "offered": {id: state.fleet.capacity(id) for id in state.nodes},
        "leases": {id: (each.execution, each.owns) for id, each in state.leases.items()},
        "versions": state._versions,
        "pending": {id for id in state._versions if id in state.queue or id in state.delays.until},
        "reserved": {id: state.fleet.reserved(id) for id in state.nodes},
    }


async def agree(on: Two) -> None:
    """Both copies say what the store says, once the news has come through."""
    on.shared.delay_s = lambda: 0.0
    await asyncio.sleep(4.987)
    fresh = FleetState(store=on.one.store, system=SimulatedSystem(random.Random(0)))
    await fresh.load()
    assert picture(on.one.control.state) == picture(fresh)
    assert picture(on.other.control.state) == picture(fresh)


def test_the_first_master_leads_and_the_second_stands_by() -> None:
    async def scene() -> None:
        async with two() as on:
            assert (on.one.control.leads, on.other.control.leads) == (True, False)
            for master in (on.one, on.other):
                leadership = await master.control.leadership()
                assert (leadership.leader, leadership.epoch) == ("one", 1)
            await asyncio.sleep(100)
            assert (on.one.control.leads, on.other.control.leads) == (True, False)

    run_simulated(scene())


def test_a_follower_serves_the_whole_life_of_a_task() -> None:
    async def scene() -> None:
        async with two() as on:
            node = await on.other.node()
            task = await on.other.submit()
            assignment = await node.take()
            await node.beat(task.id)
            assert await node.report(assignment, *DONE) == [ReportOutcome.RECORDED] * 2
            assert (await on.one.task(task)).status is TaskStatus.COMPLETED
            await agree(on)
            assert not on.one.control.state.leases

    run_simulated(scene())


def test_a_crawl_that_is_paused_at_one_master_is_paused_for_all() -> None:
    async def scene() -> None:
        async with two() as on:
            node = await on.other.node()
            await on.other.submit()
            work = await node.take()
            await node.report(work, ReportKind.STARTED)
            await agree(on)
            task = await on.other.control.tasks.get(work.task_id)
            crawls = on.other.control.service(Crawls)
            ordered = asyncio.create_task(crawls.order(task, CrawlVerb.PAUSE, by="ann"))
            await asyncio.sleep(0)
            (order,) = (await node.lease(work)).orders
            note = Note(execution_id=work.execution_id, answers=(OrderAnswer(number=order.number),))
            batch = NoteBatch(session_id=node.session_id, notes=(note,))
            await crawls.hear(batch, await on.other.control.logs.take(node.id, batch))
            await ordered
            await agree(on)
            lease = on.one.control.state.leases[work.execution_id]
            assert lease.task.is_held

    run_simulated(scene())


def test_only_who_leads_gives_a_task_to_a_node_that_somebody_names() -> None:
    async def scene() -> None:
        async with two() as on:
            node = await on.one.node(slots=1)
            await on.one.submit()
            assignment = await node.take()
            task = await on.one.submit()
            await agree(on)
            on.depose()
            assert await node.report(assignment, *DONE) == [ReportOutcome.RECORDED] * 2
            await asyncio.sleep(0.01)
            # Nobody has placed it yet, and the node is free.
            assert (await on.other.task(task)).status is TaskStatus.PENDING
            with pytest.raises(Conflict, match="another master leads"):
                await on.other.control.assigning.assign(task.id, node.id, by="ann")
            assert (await on.other.task(task)).status is TaskStatus.PENDING

    run_simulated(scene())


def test_what_is_submitted_to_either_goes_to_nodes_of_either() -> None:
    async def scene() -> None:
        async with two() as on:
            nodes = [await on.one.node("a", slots=1), await on.other.node("b", slots=1)]
            tasks = [await on.one.submit(), await on.other.submit()]
            taken = [await node.take() for node in nodes]
            assert {each.task_id for each in taken} == {task.id for task in tasks}
            await agree(on)

    run_simulated(scene())


def test_a_node_turns_to_a_master_that_has_not_heard_of_it_yet() -> None:
    async def scene() -> None:
        async with two(delay_s=lambda: 30.0) as on:
            node = await on.one.node()
            task = await on.one.submit()
            assignment = await node.take()
            node.turn_to(on.other)
            reply = await node.beat(task.id)
            assert (reply.session_lost, reply.lost_tasks) == (False, ())
            assert not (await node.lease(assignment)).session_lost
            assert await node.report(assignment, *DONE) == [ReportOutcome.RECORDED] * 2
            assert (await on.one.task(task)).status is TaskStatus.COMPLETED

    run_simulated(scene())


def test_what_a_node_has_really_lost_it_is_told_by_any_master() -> None:
    async def scene() -> None:
        async with two(delay_s=lambda: 30.0) as on:
            node = await on.one.node()
            task = await on.one.submit()
            assignment = await node.take()
            await on.one.order(Verb.CANCEL, task)
            node.turn_to(on.other)
            reply = await node.beat(task.id)
            assert reply.lost_tasks == (task.id,)
            assert [order.execution_id for order in reply.stop] == [assignment.execution_id]

    run_simulated(scene())


@pytest.mark.parametrize("skew_s", [-100.0, 0.0, 100.0])
def test_heartbeats_that_another_master_takes_in_keep_a_node_alive(skew_s: float) -> None:
    async def scene() -> None:
        async with two(skew_s=skew_s) as on:
            node = await on.one.node()
            task = await on.one.submit()
            await node.take()
            node.turn_to(on.other)
            for _ in range(30):
                await asyncio.sleep(3)
                assert not (await node.beat(task.id)).session_lost
            assert (await on.one.task(task)).status is TaskStatus.ASSIGNED
            await asyncio.sleep(20)
            assert (await on.one.task(task)).status is TaskStatus.PENDING
            assert on.other.control.nodes.get(node.id).status == "unresponsive"

    run_simulated(scene())


def test_a_follower_shows_what_nodes_measured_at_the_leader() -> None:
    async def scene() -> None:
        async with two() as on:
            node = await on.one.node()
            for _ in range(4):
                await asyncio.sleep(3)
                await node.beat()
            heard = on.one.control.state.sessions[node.session_id].last_heartbeat
            seen = on.other.control.state.sessions[node.session_id].last_heartbeat
            assert heard - seen < 6.5

    run_simulated(scene())


def test_orders_at_a_follower_reach_what_runs_at_the_leader() -> None:
    async def scene() -> None:
        async with two(delay_s=lambda: 2.0) as on:
            node = await on.one.node()
            task = await on.one.submit()
            assignment = await node.take()
            assert (await on.other.order(Verb.CANCEL, task)).status is TaskStatus.CANCELLED
            reply = await node.lease(assignment, wait_s=10.0)
            assert [order.execution_id for order in reply.stop] == [assignment.execution_id]
            await node.report(assignment, ReportKind.STOPPED)
            await agree(on)
            assert not on.other.control.state.leases, "an end without a task is told of too"

    run_simulated(scene())


def test_who_waits_at_a_follower_hears_of_the_end() -> None:
    async def scene() -> None:
        async with two() as on:
            node = await on.one.node()
            task = await on.one.submit()
            waiting = asyncio.create_task(on.other.control.tasks.wait(task.id, 50.0))
            with on.other.control.events.follow(EventFilter(kind="task.completed"), after=0) as all:
                await anext(all)
                await node.report(await node.take(), *DONE)
                assert [event.subject for event in (await anext(all)).events] == [task.id]
            begun = asyncio.get_running_loop().time()
            assert (await waiting).status is TaskStatus.COMPLETED
            assert asyncio.get_running_loop().time() - begun < 1

    run_simulated(scene())


def test_a_key_made_at_one_master_opens_the_other() -> None:
    async def scene() -> None:
        async with two() as on:
            await on.one.control.keys.ensure("secret", name="ops", role=Role.ADMIN)
            await asyncio.sleep(1)
            assert on.other.control.keys.authenticate("secret").name == "ops"
            await on.other.control.keys.ensure("new secret", name="ops", role=Role.ADMIN)
            await asyncio.sleep(1)
            with pytest.raises(Unauthenticated):
                on.one.control.keys.authenticate("secret")

    run_simulated(scene())


def test_the_follower_takes_over_when_the_leader_is_gone() -> None:
    async def scene() -> None:
        shared = SharedMemory(MemoryStore(), delay_s=lambda: 0.001)
        async with contextlib.AsyncExitStack() as second:
            async with stage(shared.seat(), name="one") as one:
                other = await second.enter_async_context(stage(shared.seat(), name="other"))
                node = await one.node(slots=1)
                first, then = await one.submit(), await one.submit()
                assignment = await node.take()
                node.turn_to(other)
            gone_at = asyncio.get_running_loop().time()
            await node.report(assignment, *DONE)
            assert (await node.take()).task_id == then.id
            assert asyncio.get_running_loop().time() - gone_at < 2
            assert other.control.leads
            events = await other.store.events(after=0, limit=100)
            done = [each.subject for each in events if each.kind == "task.completed"]
            assert done == [first.id]

    run_simulated(scene())


def test_a_leader_that_loses_the_lead_goes_on_and_takes_part_again() -> None:
    async def scene() -> None:
        async with two() as on:
            node = await on.one.node()
            for _ in range(6):
                on.depose()
                task = await on.one.submit()
                assignment = await node.take()
                assert await node.report(assignment, *DONE) == [ReportOutcome.RECORDED] * 2
                assert (await on.other.task(task)).status is TaskStatus.COMPLETED
                assert on.one.control.leads + on.other.control.leads == 1
            assert (await on.one.control.leadership()).epoch == 7
            await agree(on)

    run_simulated(scene())


def test_a_deposed_leader_that_does_not_know_it_yet_assigns_nothing() -> None:
    async def scene() -> None:
        async with two() as on:
            await on.one.node()
            state = on.one.control.state
            await on.shared.store.lead("somebody else")
            task = await on.one.submit()
            await asyncio.sleep(0.2)
            assert (await on.one.task(task)).status is TaskStatus.PENDING
            await asyncio.sleep(3)
            assert (await on.one.task(task)).status is TaskStatus.ASSIGNED
            assert state.epoch != 1

    run_simulated(scene())


@pytest.mark.parametrize("trimmed", [True, False])
def test_a_follower_that_is_too_far_behind_loads_anew(
    trimmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with two(delay_s=lambda: 100.0) as on:
            node = await on.one.node()
            for _ in range(30):
                await on.one.submit()
            await node.take_all()
            if trimmed:
                await asyncio.sleep(2)
                assert await on.shared.store.remove_events(before=1e12, limit=20) == 20
            else:
                monkeypatch.setattr(follow, "MAX_BEHIND", 10)
            on.shared.delay_s = lambda: 0.0
            await on.one.submit()
            await agree(on)

    run_simulated(scene())


@pytest.mark.parametrize("seed", range(SEEDS))
def test_copies_agree_whatever_happens_at_either_master(seed: int) -> None:
    async def scene() -> None:
        chance = random.Random(seed)
        slow = chance.choice((0.001, 0.2, 3.0))
        retention = RetentionSettings(tasks_days=0, events_days=0)
        async with two(delay_s=lambda: chance.uniform(0, slow), retention=retention) as on:
            await meddle(on, chance)
            await agree(on)

    run_simulated(scene())


async def meddle(on: Two, chance: random.Random) -> None:
    masters = (on.one, on.other)
    nodes: list[PlayedNode] = []
    tasks = [await chance.choice(masters).submit() for _ in range(3)]
    held: dict[PlayedNode, dict[str, Any]] = {}
    for _ in range(150):
        master = chance.choice(masters)
        match chance.choice(KINDS):
            case "submit":
                retry = RetryPolicy(initial_delay_s=chance.choice((0.0, 2.0)))
                tasks.append(await master.submit(retry_policy=retry))
            case "node" if len(nodes) < 4:
                nodes.append(await master.node(f"n{len(nodes)}"))
                held[nodes[-1]] = {}
            case "take" if nodes:
                node = chance.choice(nodes)
                node.turn_to(master)
                reply = await node.lease(*held[node].values(), wait_s=0.5)
                held[node] |= {each.execution_id: each for each in reply.assignments}
            case "report" if nodes:
                node = chance.choice(nodes)
                node.turn_to(master)
                if held[node]:
                    assignment = held[node].pop(chance.choice([*held[node]]))
                    kind = chance.choice((ReportKind.SUCCEEDED, ReportKind.RELEASED))
                    await node.report(assignment, ReportKind.STARTED, kind)
            case "order":
                verb = chance.choice((Verb.CANCEL, Verb.PAUSE, Verb.RESUME, Verb.RETRY))
                with contextlib.suppress(Conflict):
                    await master.order(verb, chance.choice(tasks))
            case "beat" if nodes:
                node = chance.choice(nodes)
                node.turn_to(master)
                await node.beat()
            case "configure":
                settings = ClusterSettingsPatch(max_slots=chance.choice((None, 1, 2)))
                patch = ClusterPatch(configuration=settings)
                with contextlib.suppress(Conflict):
                    await master.control.clusters.change(DEFAULT_CLUSTER, patch, by="people")
            case "project":
                patch = ProjectPatch(name=chance.choice("abc"))
                with contextlib.suppress(Conflict):
                    await master.control.projects.change(DEFAULT_PROJECT, patch, by="people")
            case "depose" if chance.random() < 0.2 and on.shared.leader is not None:
                on.depose()
        await asyncio.sleep(chance.choice((0.0, 0.0, 0.01, 0.5)))
