"""Dispatch: what a plan does not know of must not be given away twice."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.state.pending import MAX_BYTES
from crawlfleet.core.tasks import attempts
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import Task
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import stage

TOO_LARGE_TO_REMEMBER = msgspec.Raw(msgspec.json.encode({"note": "x" * MAX_BYTES}))


class SlowStore(MemoryStore):
    """Something happens while tasks are being read."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def tasks(self, ids: Sequence[str]) -> list[Task]:
        if self.meanwhile is not None:
            happen, self.meanwhile = self.meanwhile, None
            await happen()
        return await super().tasks(ids)


def test_a_plan_from_before_memory_was_loaded_anew_is_not_carried_out() -> None:
    async def scene() -> None:
        store = SlowStore()
        async with stage(store) as on:
            node = await on.node(slots=1)
            unheard = await on.submit(node_type="other")

            async def come_to_light() -> None:
                """A commit of unknown outcome was made after all: the node has no room left."""
                slot = Resources(slots=1)
                change = attempts.assign(
                    unheard,
                    node_id=node.id,
                    session_id=node.session_id,
                    execution_id="exec-unheard",
                    reserved=slot,
                    allocation=slot,
                    now=1.0,
                    cause="placed before",
                )
                assert change is not None
                await store.commit([change])
                await on.control.state.load()

            store.meanwhile = come_to_light
            await on.submit(parameters=TOO_LARGE_TO_REMEMBER)
            await asyncio.sleep(5)

            assert [each.id for each in await store.live_executions()] == ["exec-unheard"]

    run_simulated(scene())
