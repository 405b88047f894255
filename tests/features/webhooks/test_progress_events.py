"""How often the shards of a task are read to tell how far it has got."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.features.webhooks.progress_events import ProgressEvents
from crawlfleet.model.log import Progress
from crawlfleet.model.task import Callback, Execution, Shard, Task, TaskStatus
from crawlfleet.testing.simulation.clock import SimulatedSystem, run_simulated


class ReadStore(MemoryStore):
    """Counts how often shards are read."""

    reads = 0

    async def shards(self, parent_id: str) -> list[Shard]:
        self.reads += 1
        return []


def test_a_sum_that_stays_the_same_is_not_read_for_each_shard() -> None:
    async def scene() -> None:
        store, system = ReadStore(), SimulatedSystem(random.Random(0))
        await store.open()
        state = FleetState(store=store, system=system)
        same = Progress(done=5.0, total=10.0, at=0.0)

        def sum_up(task_id: str, shards: Sequence[Shard]) -> Progress | None:
            return same

        headway = ProgressEvents(
            store=store, state=state, system=system, every_s=10.0, sum_up=sum_up
        )
        moved: list[tuple[str, Progress]] = []
        for number in range(8):
            lease = _lease(f"part-{number}", f"exec-{number}")
            state.leases[lease.execution.id] = lease
            moved.append((lease.execution.id, same))
        await headway.note(moved)
        assert store.reads == 1
        for _ in range(10):
            await asyncio.sleep(11)
            await headway.note(moved)
        assert store.reads == 11

    run_simulated(scene())


def _lease(task_id: str, execution_id: str) -> Lease:
    common: dict[str, Any] = {"token": 1}
    task = Task(
        id=task_id,
        project_id="shop",
        task_type="work",
        created_at=0.0,
        updated_at=0.0,
        parent_id="whole",
        shards=8,
        status=TaskStatus.PROCESSING,
        execution_id=execution_id,
        callback=Callback(url="https://flow.example/", webhook_id="hook-1"),
        **common,
    )
    execution = Execution(
        id=execution_id, task_id=task_id, node_id="n", session_id="s", start_time=0.0, **common
    )
    return Lease(task, execution)
