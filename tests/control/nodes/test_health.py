"""Nodes under pressure get no new work; what nodes have goes back when it is time."""

import asyncio
from typing import Any

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.nodes.probing import HealthProbes
from crawlfleet.errors import Conflict, InvalidRequest, NotFound, Unauthenticated
from crawlfleet.model.node import Health, NodeStatus
from crawlfleet.model.resources import Usage
from crawlfleet.model.settings import HealthSettings, RetentionSettings
from crawlfleet.model.task import ErrorClass, TaskStatus
from crawlfleet.model.wire.node_protocol import Heartbeat, Registration, ReportKind, ReportOutcome
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import JOINER, PlayedNode, Stage, stage
from tests.control.test_masters import agree, two

AT_ONCE = HealthSettings(sustain_s=0, recover_s=0, least_ended=2)
DAY_S = 86_400.0


async def beat(on: Stage, node: PlayedNode, **measured: Any) -> Health:
    """A heartbeat with these measurements; the node's health after it."""
    sent_at = measured.pop("sent_at", None)
    await on.control.nodes.heartbeat(
        node.id,
        Heartbeat(resources=Usage(**measured), session_id=node.session_id, sent_at=sent_at),
    )
    return on.control.nodes.get(node.id).health


def health_events(on: Stage, node: PlayedNode) -> list[tuple[str | None, str | None]]:
    return [
        (event.from_state, event.to_state)
        for event in on.heard.events
        if event.kind == "node.health_changed" and event.subject == node.id
    ]


def test_a_node_under_pressure_keeps_its_work_and_gets_no_more() -> None:
    async def scene() -> None:
        async with stage(health=AT_ONCE) as on:
            node = await on.node(slots=2)
            assert await beat(on, node) is Health.HEALTHY
            first = await on.submit()
            held = await node.take()
            assert await beat(on, node, memory_usage=0.97) is Health.UNHEALTHY
            second = await on.submit()

            assert (await node.lease(held)).assignments == ()
            explained = await on.control.queries.explain(second.id)
            assert explained.placement is not None
            assert explained.placement.rejected == {"health": 1}
            (reason,) = explained.placement.details[0].reasons
            assert reason.message == "the node is unhealthy: memory at 97%, limit 95%"
            assert await node.report(held, ReportKind.SUCCEEDED) == [ReportOutcome.RECORDED]
            assert (await on.task(first)).status is TaskStatus.COMPLETED

            assert await beat(on, node, memory_usage=0.5) is Health.HEALTHY
            assert (await node.take()).task_id == second.id
            await asyncio.sleep(0.1)
            assert health_events(on, node) == [
                ("unknown", "healthy"),
                ("healthy", "unhealthy"),
                ("unhealthy", "healthy"),
            ]

    run_simulated(scene())


def test_a_busy_node_gets_work_only_while_it_has_none() -> None:
    async def scene() -> None:
        async with stage(health=AT_ONCE) as on:
            node = await on.node(slots=4)
            assert await beat(on, node, cpu_usage=1.0) is Health.UNHEALTHY
            await on.submit()
            held = await node.take()
            waiting = await on.submit()

            assert (await node.lease(held)).assignments == ()
            explained = await on.control.queries.explain(waiting.id)
            assert explained.placement is not None
            assert not explained.placement.feasible
            assert "CPU at 100%" in explained.placement.details[0].reasons[0].message
            await node.report(held, ReportKind.SUCCEEDED)
            assert (await node.take()).task_id == waiting.id

    run_simulated(scene())


def test_failing_late_and_wrongly_timed_nodes_are_degraded_and_work_on() -> None:
    async def scene() -> None:
        async with stage(health=AT_ONCE) as on:
            node = await on.node(slots=1)
            for _ in range(2):
                await on.submit(max_retries=0)
                held = await node.take()
                await node.report(
                    held, ReportKind.STARTED, ReportKind.FAILED, error=ErrorClass.ERROR
                )
            assert await beat(on, node) is Health.DEGRADED
            assert "100% of its executions failed" in on.control.nodes.get(node.id).health_reason
            await on.submit()
            held = await node.take()
            await asyncio.sleep(5)
            now = on.control.now()
            assert await beat(on, node, sent_at=now - 60) is Health.DEGRADED
            assert "its clock is wrong by 60.0 s" in on.control.nodes.get(node.id).health_reason

            other = await on.node("late", slots=1)
            for _ in range(2):
                await on.submit()
                slow = await other.take()
                for _ in range(2):
                    await asyncio.sleep(3.5)
                    await beat(on, node)
                    await beat(on, other)
                await other.report(slow, ReportKind.STARTED, ReportKind.SUCCEEDED)
            await asyncio.sleep(1.5)
            assert await beat(on, other) is Health.DEGRADED
            assert "begin 7." in on.control.nodes.get(other.id).health_reason

    run_simulated(scene())


def test_health_is_not_known_before_and_after_a_session() -> None:
    async def scene() -> None:
        async with stage(health=AT_ONCE) as on:
            node = await on.node()
            assert on.control.nodes.get(node.id).health is Health.UNKNOWN
            await beat(on, node, memory_usage=1.0)
            await asyncio.sleep(20)
            gone = on.control.nodes.get(node.id)
            assert (gone.status, gone.health) == (NodeStatus.UNRESPONSIVE, Health.UNKNOWN)
            assert gone.conditions == ()

    run_simulated(scene())


def test_other_masters_know_the_health_of_a_node() -> None:
    async def scene() -> None:
        async with two(health=AT_ONCE) as on:
            node = await on.one.node()
            await on.one.control.nodes.heartbeat(
                node.id, Heartbeat(resources=Usage(memory_usage=0.99), session_id=node.session_id)
            )
            await agree(on)
            for master in (on.one, on.other):
                assert master.control.nodes.get(node.id).health is Health.UNHEALTHY

    run_simulated(scene())


class Door:
    """A prober whose every answer the test decides."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        self.asked: list[tuple[str, int, str]] = []

    async def ask(self, address: str, port: int, node_id: str) -> str | None:
        self.asked.append((address, port, node_id))
        return self.trouble


def probing(on: Stage, door: Door, settings: HealthSettings) -> HealthProbes:
    return HealthProbes(
        state=on.control.state,
        system=on.control.system,
        prober=door,
        settings=settings,
        allow_loopback=False,
    )


async def advertise(on: Stage, address: str = "10.0.0.7", port: int = 8010) -> PlayedNode:
    registration = Registration(
        name="n", ip_address=address, port=port, probe=True, resources={"slots": 2, "cpu": 4}
    )
    return PlayedNode(on.control, await on.control.nodes.register(registration, by=JOINER))


def test_an_address_that_does_not_answer_makes_a_node_unreachable() -> None:
    async def scene() -> None:
        settings = HealthSettings(probe_failures=3, release_unreachable_s=5)
        async with stage(health=settings) as on:
            door = Door()
            probes = probing(on, door, settings)
            node = await advertise(on)
            await on.node("silent about its address")
            await beat(on, node)
            await probes.ask_all()
            assert door.asked == [("10.0.0.7", 8010, node.id)]

            door.trouble = "refused"
            for expected in (Health.HEALTHY, Health.HEALTHY, Health.UNREACHABLE):
                await probes.ask_all()
                assert on.control.nodes.get(node.id).health is expected
            assert await beat(on, node) is Health.UNREACHABLE
            assert "10.0.0.7 port 8010 failed: refused" in (
                on.control.nodes.get(node.id).health_reason
            )

            door.trouble = None
            await probes.ask_all()
            assert on.control.nodes.get(node.id).health is Health.UNREACHABLE
            await probes.ask_all()
            assert on.control.nodes.get(node.id).health is Health.HEALTHY

    run_simulated(scene())


def test_the_work_of_an_unreachable_node_goes_back_after_a_while() -> None:
    async def scene() -> None:
        settings = HealthSettings(probe_failures=1, release_unreachable_s=5)
        async with stage(health=settings) as on:
            door = Door()
            probes = probing(on, door, settings)
            node = await advertise(on)
            task = await on.submit()
            held = await node.take()
            await node.report(held, ReportKind.STARTED)
            door.trouble = "refused"
            await probes.ask_all()
            await asyncio.sleep(4)
            await beat(on, node)
            assert (await on.task(task)).status is TaskStatus.PROCESSING
            await asyncio.sleep(2)

            back = await on.task(task)
            assert (back.status, back.retry_count, back.loss_count) == (TaskStatus.PENDING, 0, 0)
            reply = await node.lease(held)
            assert [order.execution_id for order in reply.stop] == [held.execution_id]
            late = await node.report(held, ReportKind.SUCCEEDED)
            assert late == [ReportOutcome.RECORDED]  # the stop is confirmed, the result is not kept
            assert (await on.task(task)).status is TaskStatus.PENDING
            other = await on.node("other")
            assert (await other.take()).token == held.token + 1

    run_simulated(scene())


def test_a_node_cannot_make_the_master_knock_at_other_doors() -> None:
    async def scene() -> None:
        async with stage() as on:
            for address, port in (
                ("169.254.169.254", 80),
                ("localhost", 80),
                ("10.0.0.7", 0),
            ):
                with pytest.raises(InvalidRequest, match=r"^(ip_address|port): "):
                    await advertise(on, address, port)

    run_simulated(scene())


def test_what_still_runs_when_the_time_to_drain_is_up_goes_back() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            task = await on.submit()
            held = await node.take()
            await node.report(held, ReportKind.STARTED)
            drained = await on.control.node_orders.drain(node.id, by="people", deadline_s=8)
            assert drained.drain_until == on.control.now() + 8
            await asyncio.sleep(6)
            await node.beat(task.id)
            assert (await on.task(task)).status is TaskStatus.PROCESSING
            await asyncio.sleep(3)
            reply = await node.beat(task.id)

            assert (await on.task(task)).status is TaskStatus.PENDING
            assert reply.lost_tasks == (task.id,)
            assert [order.execution_id for order in reply.stop] == [held.execution_id]
            await node.report(held, ReportKind.STOPPED)
            gone = await node.lease()
            assert (gone.draining, gone.session_lost) == (True, True)
            after = on.control.nodes.get(node.id)
            assert (after.status, after.drain_until) == (NodeStatus.OFFLINE, None)

    run_simulated(scene())


def test_a_drain_can_get_another_deadline_and_be_called_off() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            task = await on.submit()
            await node.take()
            orders = on.control.node_orders
            await orders.drain(node.id, by="people")
            assert (await orders.drain(node.id, by="people", deadline_s=5)).drain_until is not None
            assert (await orders.resume(node.id, by="people")).drain_until is None
            for _ in range(4):
                await asyncio.sleep(2)
                await node.beat(task.id)
            assert (await on.task(task)).status is TaskStatus.ASSIGNED

    run_simulated(scene())


def test_a_removed_node_is_nowhere_and_its_token_is_worth_nothing() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            registered = await on.control.nodes.register(Registration(name="n"), by=JOINER)
            assert registered.node_token is not None
            orders = on.control.node_orders
            with pytest.raises(Conflict):
                await orders.remove(registered.node_id, by="people")
            await orders.unregister(registered.node_id, by="people")
            await orders.remove(registered.node_id, by="people")

            with pytest.raises(NotFound):
                await on.control.nodes.find(registered.node_id)
            assert on.control.queries.nodes() == []
            assert len(on.control.state.fleet) == 0
            with pytest.raises(Unauthenticated):
                await on.control.authentication.authenticate(registered.node_token or "")
            await asyncio.sleep(0.1)
            assert on.heard.events[-1].kind == "node.removed"
        async with stage(store) as on:
            assert on.control.queries.nodes() == []

    run_simulated(scene())


@pytest.mark.slow
def test_nodes_that_stay_away_are_removed_by_themselves() -> None:
    async def scene() -> None:
        retention = RetentionSettings(nodes_days=1, tasks_days=0, events_days=0)
        async with stage(retention=retention) as on:
            gone = await on.node("gone")
            await asyncio.sleep(0.9 * DAY_S)
            await on.node("here")
            assert gone.id in on.control.state.nodes
            await asyncio.sleep(0.15 * DAY_S)
            assert gone.id not in on.control.state.nodes
            assert await on.store.node(gone.id) is not None
            await asyncio.sleep(1.1 * DAY_S)
            assert await on.store.node(gone.id) is None

    run_simulated(scene())


def test_all_masters_forget_a_removed_node() -> None:
    async def scene() -> None:
        async with two() as on:
            node = await on.one.node()
            await agree(on)
            await on.one.control.node_orders.unregister(node.id, by="people")
            await on.one.control.node_orders.remove(node.id, by="people")
            await agree(on)
            assert node.id not in on.other.control.state.nodes

    run_simulated(scene())
