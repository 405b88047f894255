"""Heartbeats that come within a moment share a commit, and each has its own answer."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.access.keys import Principal
from crawlfleet.control.nodes.sessions import BEATS_TOGETHER, BEATS_TOGETHER_S
from crawlfleet.control.state.audit_trail import AuditTrail, leaving
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.audit import AuditEntry, AuditFilter
from crawlfleet.model.change import Change
from crawlfleet.model.key import Role
from crawlfleet.model.wire.node_protocol import Registration
from crawlfleet.ports.store import Committed
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import stage


class Counting(MemoryStore):
    """Knows how many changes came at once, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.fails = False

    async def commit(self, changes: Sequence[Change]) -> Committed:
        if self.fails:
            raise StoreUnavailable("it fails on purpose")
        self.sizes.append(len(changes))
        return await super().commit(changes)


def test_heartbeats_of_a_moment_are_one_commit() -> None:
    async def act() -> None:
        store = Counting()
        async with stage(store) as on:
            nodes = [await on.node(f"n{number}") for number in range(20)]
            store.sizes.clear()
            replies = await asyncio.gather(*(node.beat() for node in nodes))
            assert not any(reply.session_lost for reply in replies)
            (at_once,) = store.sizes
            assert at_once >= len(nodes)

    run_simulated(act())


def test_a_refused_heartbeat_does_not_refuse_the_others() -> None:
    async def act() -> None:
        async with stage() as on:
            nodes = [await on.node(f"n{number}") for number in range(3)]
            beats = [asyncio.create_task(node.beat()) for node in nodes]
            await asyncio.sleep(0.01)  # they wait for company
            itself = Principal(role=Role.NODE, name="n1", node_id=nodes[1].id)
            await on.control.nodes.register(Registration(name="n1", node_id=nodes[1].id), by=itself)
            lost = [(await beat).session_lost for beat in beats]
            assert lost == [False, True, False]

    run_simulated(act())


def test_a_failure_reaches_everybody_and_one_who_gave_up_harms_nobody() -> None:
    async def act() -> None:
        store = Counting()
        async with stage(store) as on:
            nodes = [await on.node(f"n{number}") for number in range(3)]
            first, *others = [asyncio.create_task(node.beat()) for node in nodes]
            await asyncio.sleep(0.01)
            first.cancel()
            assert not any([(await beat).session_lost for beat in others])
            beats = [asyncio.create_task(node.beat()) for node in nodes]
            await asyncio.sleep(0.01)
            store.fails = True
            outcomes: list[Any] = await asyncio.gather(*beats, return_exceptions=True)
            assert [type(each) for each in outcomes] == [StoreUnavailable] * 3
            store.fails = False

    run_simulated(act())


def test_nobody_signs_for_the_others() -> None:
    async def act() -> None:
        async with stage() as on:
            nodes = [await on.node(f"n{number}") for number in range(2)]
            before = await on.store.audit(AuditFilter(), after=None, limit=10)
            entry = AuditEntry(
                id="", at=0.0, actor="n", actor_id="n", role="node", address="", action="heartbeat"
            )
            with leaving(AuditTrail(entry)):
                first = asyncio.create_task(nodes[0].beat())
                await asyncio.sleep(0)
            await asyncio.gather(first, nodes[1].beat())
            assert await on.store.audit(AuditFilter(), after=None, limit=10) == before

    run_simulated(act())


@pytest.mark.parametrize("apart_s", [0.0, 0.05])
def test_a_heartbeat_is_answered_soon(apart_s: float) -> None:
    async def act() -> None:
        async with stage() as on:
            nodes = [await on.node(f"n{number}") for number in range(2)]
            loop = asyncio.get_running_loop()
            first = asyncio.create_task(nodes[0].beat())
            begun = loop.time()
            await asyncio.sleep(apart_s)
            await asyncio.gather(first, nodes[1].beat())
            assert loop.time() - begun < 0.2

    run_simulated(act())


def test_where_many_wait_none_waits_for_long() -> None:
    async def act() -> None:
        async with stage() as on:
            nodes = [await on.node(f"n{number}") for number in range(BEATS_TOGETHER + 1)]
            clock = asyncio.get_running_loop()
            begun = clock.time()
            *company, alone = nodes
            await asyncio.gather(*(node.beat() for node in company))
            assert clock.time() - begun < BEATS_TOGETHER_S / 2
            begun = clock.time()
            await alone.beat()
            assert clock.time() - begun >= BEATS_TOGETHER_S

    run_simulated(act())
