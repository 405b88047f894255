"""What lies ready at a node while ends of its work are being recorded."""

import asyncio
from collections.abc import Sequence

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.wire.node_protocol import Assignment, ReportKind, ReportOutcome
from crawlfleet.ports.store import Change, Committed
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import PlayedNode, Stage, stage

RECORDING_S = 2.0
READY = 4


class SlowStore(MemoryStore):
    """Takes its time to record what becomes of executions, and fails to when it is told to."""

    fails = False

    async def commit(self, changes: Sequence[Change]) -> Committed:
        executions = [each for change in changes for each in change.executions]
        if any(each.version > 1 for each in executions):
            await asyncio.sleep(RECORDING_S)
            if self.fails:
                raise StoreUnavailable("the disk is away")
        return await super().commit(changes)


async def busy(on: Stage, backlog: int) -> tuple[PlayedNode, Assignment]:
    """A node that has as much as it may, and what it began first; more waits."""
    node = await on.node(slots=1)
    for _ in range(20):
        await on.submit()
    (first,) = (await node.lease(backlog=backlog)).assignments
    await asyncio.sleep(1)
    return node, first


async def held(on: Stage) -> int:
    return len(await on.store.live_executions())


def test_what_ends_makes_room_while_that_is_being_recorded() -> None:
    async def scene() -> None:
        async with stage(SlowStore()) as on:
            node, first = await busy(on, READY)
            assert await held(on) == 1 + READY

            report = asyncio.create_task(node.report(first, ReportKind.SUCCEEDED))
            await asyncio.sleep(RECORDING_S / 2)
            assert await held(on) == 1 + READY + 1, "the next one is there before the end is"

            assert await report == [ReportOutcome.RECORDED]
            await asyncio.sleep(1)
            assert await held(on) == 1 + READY, "it makes room once"

    run_simulated(scene())


def test_what_has_only_begun_makes_no_room() -> None:
    async def scene() -> None:
        async with stage(SlowStore()) as on:
            node, first = await busy(on, READY)
            report = asyncio.create_task(node.report(first, ReportKind.STARTED))
            await asyncio.sleep(RECORDING_S / 2)
            assert await held(on) == 1 + READY
            await report
            await asyncio.sleep(1)
            assert await held(on) == 1 + READY

    run_simulated(scene())


def test_a_slot_is_not_free_before_the_end_is_recorded() -> None:
    async def scene() -> None:
        async with stage(SlowStore()) as on:
            node, first = await busy(on, 0)
            report = asyncio.create_task(node.report(first, ReportKind.SUCCEEDED))
            await asyncio.sleep(RECORDING_S / 2)
            assert await held(on) == 1
            await report
            await asyncio.sleep(1)
            assert await held(on) == 1, "another one"
            assert first.execution_id not in {each.id for each in await on.store.live_executions()}

    run_simulated(scene())


def test_an_end_that_was_not_recorded_makes_room_no_longer() -> None:
    async def scene() -> None:
        store = SlowStore()
        async with stage(store) as on:
            node, first = await busy(on, READY)
            store.fails = True
            with pytest.raises(StoreUnavailable):
                await node.report(first, ReportKind.SUCCEEDED)
            store.fails = False
            await node.lease(first, backlog=READY)
            await asyncio.sleep(1)
            assert await held(on) == 1 + READY + 1

            assert await node.report(first, ReportKind.SUCCEEDED) == [ReportOutcome.RECORDED]
            await asyncio.sleep(1)
            assert await held(on) == 1 + READY

    run_simulated(scene())
