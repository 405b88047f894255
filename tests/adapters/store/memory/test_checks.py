"""What is said to go its usual way is held against what there is."""

import asyncio

import pytest
from msgspec.structs import replace

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.model.change import Change
from crawlfleet.model.task import TaskStatus
from crawlfleet.testing.store_suite.samples import ERROR, make_node, make_task

TASK = make_task()


@pytest.mark.parametrize(
    "change",
    [
        Change(tasks=(make_task(2, error=ERROR),), usual=True),
        Change(
            tasks=(replace(TASK, version=2, status=TaskStatus.ASSIGNED, priority=9),), usual=True
        ),
        Change(tasks=(make_task(2),), nodes=(make_node(),), usual=True),
    ],
)
def test_more_than_usual_is_a_mistake(change: Change) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await store.open()
        await store.commit([Change(tasks=(TASK,), usual=True)])
        with pytest.raises(AssertionError, match="usual"):
            await store.commit([change])

    asyncio.run(scenario())
