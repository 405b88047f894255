"""Tests of split tasks: their shards are found, summarised, and kept while they are needed."""

from typing import Any

from crawlfleet.model.task import Shard, Task, TaskStatus
from crawlfleet.ports.store import Change, Store, TaskFilter
from crawlfleet.testing.store_suite.harness import Harness, must, on_store
from crawlfleet.testing.store_suite.samples import AWKWARD, NOW, make_execution, make_task

PARENT = "task-0001"


def make_parent(**fields: Any) -> Task:
    return make_task(1, **{"status": TaskStatus.WAITING, "shards": 2, **fields})


def make_shard(number: int, shard: int, **fields: Any) -> Task:
    return make_task(number, **{"parent_id": PARENT, "shard": shard, "shards": 2, **fields})


class ShardTests(Harness):
    @on_store
    async def test_shards_are_found_by_their_parent(self, store: Store) -> None:
        other = make_task(5, parent_id="task-0009", shard=0, shards=1)
        mine = [make_shard(2, 1), make_shard(3, 0, status=TaskStatus.PAUSED)]
        await must(store, Change(tasks=(make_parent(), make_task(4), other, *mine)))
        of_parent = TaskFilter(parent_id=PARENT)
        assert await store.find_tasks(of_parent, after=None, limit=9) == mine[::-1]
        assert await store.find_tasks(of_parent, after="task-0003", limit=9) == mine[:1]
        first = await store.find_tasks(of_parent, after=None, limit=1, newest_first=False)
        assert first == mine[:1]
        paused = TaskFilter(parent_id=PARENT, status=(TaskStatus.PAUSED, TaskStatus.FAILED))
        assert await store.find_tasks(paused, after=None, limit=9) == mine[1:]
        for nobody in ("task-0004", AWKWARD):
            found = await store.find_tasks(TaskFilter(parent_id=nobody), after=None, limit=9)
            assert found == []

    @on_store
    async def test_shards_are_told_in_short_and_in_their_order(self, store: Store) -> None:
        running = make_execution(1, task_id="task-0002", metrics={"pages": 1.5})
        one = make_shard(
            2,
            1,
            status=TaskStatus.PROCESSING,
            execution_id=running.id,
            assigned_node="node-0001",
        )
        await must(
            store, Change(tasks=(make_parent(), one, make_shard(3, 0)), executions=(running,))
        )
        assert await store.shards(PARENT) == [
            Shard(id="task-0003", shard=0, status=TaskStatus.PENDING),
            Shard(
                id="task-0002",
                shard=1,
                status=TaskStatus.PROCESSING,
                execution_id=running.id,
                assigned_node="node-0001",
                metrics={"pages": 1.5},
            ),
        ]
        assert await store.shards("task-0002") == []
        assert await store.shards(AWKWARD) == []

    @on_store
    async def test_what_becomes_of_a_shard_is_seen_at_once(self, store: Store) -> None:
        await must(store, Change(tasks=(make_parent(), make_shard(2, 0), make_shard(3, 1))))
        ended = make_shard(2, 0, status=TaskStatus.COMPLETED, version=2, completed_at=NOW)
        await must(store, Change(tasks=(ended,)))
        states = [each.status for each in await store.shards(PARENT)]
        assert states == [TaskStatus.COMPLETED, TaskStatus.PENDING]
        assert await store.tasks(["task-0002"]) == [ended]

    @on_store
    async def test_shards_stay_while_their_parent_has_not_ended(self, store: Store) -> None:
        old = {"status": TaskStatus.COMPLETED, "completed_at": NOW - 100}
        stray = make_task(5, parent_id="task-0008", shard=0, shards=1, **old)
        tasks = (make_parent(), make_shard(2, 0, **old), make_shard(3, 1, **old), stray)
        await must(store, Change(tasks=(*tasks, make_task(4, **old))))
        assert await store.remove_finished(before=NOW, limit=9) == 2
        assert [each.id for each in await store.shards(PARENT)] == ["task-0002", "task-0003"]
        ended = make_parent(status=TaskStatus.COMPLETED, completed_at=NOW - 50, version=2)
        await must(store, Change(tasks=(ended,)))
        assert await store.remove_finished(before=NOW, limit=1) == 1
        assert await store.remove_finished(before=NOW, limit=9) == 2
        assert await store.shards(PARENT) == []
        assert await store.find_tasks(TaskFilter(parent_id=PARENT), after=None, limit=9) == []
