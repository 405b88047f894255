"""Tests of cursors, removal of old rows, and closed stores."""

import asyncio
from pathlib import Path

import pytest

from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.change import NEVER
from crawlfleet.model.node import Node
from crawlfleet.model.node_sample import NodeSample, Resolution
from crawlfleet.model.task import TERMINAL, TaskStatus
from crawlfleet.ports.store import Change, RefusalKind, Store
from crawlfleet.testing.store_suite.harness import (
    Harness,
    commit_one,
    is_refused,
    must,
    on_store,
)
from crawlfleet.testing.store_suite.samples import (
    NOW,
    make_claim,
    make_event,
    make_execution,
    make_node,
    make_session,
    make_task,
)


async def _raw_samples(store: Store, node: Node) -> list[NodeSample]:
    return await store.samples(node.id, Resolution.RAW, since=0, until=NOW + 1, limit=9)


class UpkeepTests(Harness):
    @on_store
    async def test_cursor_moves_forward_only(self, store: Store) -> None:
        await store.move_cursor("outbox", 5)
        await store.move_cursor("outbox", 3)
        await store.move_cursor("other", 1)
        assert await store.cursor("outbox") == 5
        assert await store.cursor("other") == 1
        await store.move_cursor("outbox", 6)
        assert await store.cursor("outbox") == 6

    @on_store
    async def test_cursor_of_a_consumer_that_is_gone_can_be_removed(self, store: Store) -> None:
        await must(store, Change(events=(make_event(), make_event())))
        await store.move_cursor("outbox", 2)
        await store.move_cursor("abandoned", 1)
        assert await store.remove_events(before=NOW + 1, limit=10) == 1
        await store.remove_cursor("abandoned")
        await store.remove_cursor("abandoned")
        assert await store.cursor("abandoned") == 0
        assert await store.cursor("outbox") == 2
        assert await store.remove_events(before=NOW + 1, limit=10) == 1

    @on_store
    async def test_finished_tasks_go_with_their_attempts(self, store: Store) -> None:
        done = make_task(1, status=TaskStatus.COMPLETED, completed_at=NOW)
        await must(
            store,
            Change(tasks=(done, make_task(2))),
            Change(executions=(make_execution(1), make_execution(2, task_id="task-0002"))),
        )
        assert await store.remove_finished(before=NOW + 1, limit=10) == 1
        assert await store.tasks(["task-0001"]) == []
        assert await store.executions("task-0001") == []
        assert await store.tasks(["task-0002"]) == [make_task(2)]
        assert len(await store.executions("task-0002")) == 1
        assert [row.id for row in await store.live_executions()] == ["exec-0002"]
        late = Change(tasks=(make_task(1, version=2),))
        assert is_refused(await commit_one(store, late), RefusalKind.VERSION, "task-0001")
        await must(store, Change(tasks=(make_task(1),), executions=(make_execution(1),)))

    @on_store
    async def test_only_ended_tasks_that_are_old_enough_go(self, store: Store) -> None:
        tasks = [
            make_task(n, status=status, completed_at=NOW) for n, status in enumerate(TaskStatus)
        ]
        recent = make_task(100, status=TaskStatus.COMPLETED, completed_at=NOW + 10)
        endless = make_task(101, status=TaskStatus.COMPLETED)
        await must(store, Change(tasks=(*tasks, recent, endless)))
        assert await store.remove_finished(before=NOW, limit=100) == 0
        assert await store.remove_finished(before=NOW + 10, limit=100) == len(TERMINAL)
        left = await store.count_tasks()
        assert set(left) == set(TaskStatus) - TERMINAL | {TaskStatus.COMPLETED}
        assert left[TaskStatus.COMPLETED] == 2

    @on_store
    async def test_removal_takes_the_earliest_first_and_keeps_to_its_limit(
        self, store: Store
    ) -> None:
        tasks = [make_task(n, status=TaskStatus.FAILED, completed_at=NOW - n) for n in range(1, 11)]
        await must(store, Change(tasks=tuple(tasks)))
        assert await store.remove_finished(before=NOW, limit=0) == 0
        assert await store.remove_finished(before=NOW, limit=3) == 3
        left = await store.tasks([task.id for task in tasks])
        assert left == tasks[:7]
        assert await store.remove_finished(before=NOW, limit=100) == 7

    @on_store
    async def test_removal_forgets_claims_that_had_expired_or_lasted_as_long_as_the_task(
        self, store: Store
    ) -> None:
        done = make_task(1, status=TaskStatus.COMPLETED, completed_at=NOW)
        await must(
            store,
            Change(
                tasks=(done,),
                claims=(
                    make_claim(key="old", expires_at=NOW + 1),
                    make_claim("another", key="older", expires_at=NOW + 1),
                    make_claim(key="alive", expires_at=NOW + 100),
                    make_claim(key="endless", expires_at=NEVER),
                    make_claim("another", key="of another", expires_at=NEVER),
                ),
            ),
        )
        assert await store.remove_finished(before=NOW + 50, limit=10) == 1
        free = [
            key
            for key in ("old", "older", "alive", "endless", "of another")
            if await commit_one(store, Change(claims=(make_claim("b", key=key),))) is None
        ]
        assert free == ["old", "older", "endless"]

    @on_store
    async def test_old_events_go_from_the_beginning_of_the_log(self, store: Store) -> None:
        changes = [Change(events=(make_event(f"s{n % 2}", at=NOW + n),)) for n in range(10)]
        await must(store, *changes)
        log = await store.events(after=0, limit=100)
        assert await store.remove_events(before=NOW + 6, limit=4) == 4
        assert await store.remove_events(before=NOW + 6, limit=4) == 2
        assert await store.remove_events(before=NOW + 6, limit=4) == 0
        assert await store.events(after=0, limit=100) == log[6:]
        assert await store.events(after=0, limit=100, subject="s0") == log[6::2]

    @on_store
    async def test_events_stay_until_every_consumer_has_passed_them(self, store: Store) -> None:
        await must(store, *(Change(events=(make_event(),)) for _ in range(10)))
        await store.move_cursor("ahead", 8)
        await store.move_cursor("behind", 3)
        assert await store.remove_events(before=NOW + 1, limit=2) == 2
        assert await store.remove_events(before=NOW + 1, limit=10) == 1
        assert [event.seq for event in await store.events(after=0, limit=20)] == [*range(4, 11)]
        await store.move_cursor("behind", 100)
        assert await store.remove_events(before=NOW + 1, limit=10) == 5
        assert [event.seq for event in await store.events(after=0, limit=20)] == [9, 10]
        await store.move_cursor("new", 0)
        assert await store.remove_events(before=NOW + 1, limit=10) == 0

    @on_store
    async def test_ended_sessions_go_in_the_order_in_which_they_ended(self, store: Store) -> None:
        ended = [make_session(n, ended_at=NOW - n) for n in range(1, 8)]
        await must(store, Change(sessions=tuple(ended)))
        assert await store.remove_sessions(before=NOW - 1, limit=0) == 0
        assert await store.remove_sessions(before=NOW - 1, limit=4) == 4
        left = [await store.session(session.id) for session in ended]
        assert left == [*ended[:3], None, None, None, None]
        assert await store.remove_sessions(before=NOW - 1, limit=4) == 2
        assert await store.remove_sessions(before=NOW - 1, limit=4) == 0
        assert await store.session("sess-0001") == ended[0]

    @on_store
    async def test_sessions_that_live_stay_however_old_they_are(self, store: Store) -> None:
        live = make_session(1, started_at=0.0, deadline=0.0, last_heartbeat=0.0)
        await must(store, Change(sessions=(live, make_session(2, ended_at=NOW))))
        assert await store.remove_sessions(before=NOW + 1e9, limit=10) == 1
        assert await store.live_sessions() == [live]
        await must(store, Change(tasks=(make_task(),), under="sess-0001"))

    @on_store
    async def test_removed_session_is_as_one_that_never_was(self, store: Store) -> None:
        await must(store, Change(sessions=(make_session(ended_at=NOW),)))
        assert await store.remove_sessions(before=NOW + 1, limit=10) == 1
        refusal = await commit_one(store, Change(tasks=(make_task(),), under="sess-0001"))
        assert is_refused(refusal, RefusalKind.SESSION, "sess-0001")
        refusal = await commit_one(store, Change(sessions=(make_session(version=2),)))
        assert is_refused(refusal, RefusalKind.VERSION, "sess-0001")
        await must(store, Change(sessions=(make_session(),)))

    @on_store
    async def test_archived_nodes_go_with_their_samples_first_those_archived_first(
        self, store: Store
    ) -> None:
        gone = [make_node(n, archived_at=NOW - n) for n in range(1, 5)]
        await must(store, Change(nodes=(*gone, make_node(9))))
        samples = [NodeSample(node_id=node.id, at=NOW) for node in (*gone, make_node(9))]
        await store.append_samples(samples)
        assert await store.remove_nodes(before=NOW - 1, limit=0) == 0
        assert await store.remove_nodes(before=NOW - 1, limit=2) == 2
        assert [node.id for node in await store.nodes()] == ["node-0001", "node-0002", "node-0009"]
        assert await store.remove_nodes(before=NOW - 1, limit=2) == 1
        assert await store.remove_nodes(before=NOW - 1, limit=2) == 0
        kept = [await _raw_samples(store, node) for node in (*gone, make_node(9))]
        assert kept == [samples[:1], [], [], [], samples[4:]]
        assert await store.remove_nodes(before=NOW + 1e9, limit=9) == 1
        await must(store, Change(nodes=(make_node(1),)))

    @on_store
    async def test_numbers_of_removed_events_are_not_given_again(self, store: Store) -> None:
        await must(store, Change(events=(make_event(), make_event())))
        assert await store.remove_events(before=NOW + 1, limit=10) == 2
        committed = await store.commit([Change(events=(make_event(),))])
        assert committed.last_seq == 3
        assert [event.seq for event in await store.events(after=2, limit=10)] == [3]

    @on_store
    async def test_closed_store_refuses_everything(self, store: Store) -> None:
        await store.close()
        await store.close()
        for call in (
            store.commit([]),
            store.lead("a"),
            store.tasks(["a"]),
            store.cursor("a"),
            store.move_cursor("a", 1),
            store.remove_cursor("a"),
            store.leadership(),
            store.nodes_among(["a"]),
            store.sessions_among(["a"]),
            store.live_executions(["a"]),
            store.remove_events(before=0, limit=1),
            store.remove_sessions(before=0, limit=1),
            store.remove_audit(before=0, limit=1),
            store.remove_nodes(before=0, limit=1),
        ):
            with pytest.raises(StoreUnavailable):
                await call

    @on_store
    async def test_closed_store_can_be_opened_again(self, store: Store) -> None:
        await must(store, Change(tasks=(make_task(),)))
        await store.close()
        await store.open()
        assert await store.tasks(["task-0001"]) == [make_task()]
        await must(store, Change(tasks=(make_task(2),)))

    def test_store_that_was_never_opened_can_be_closed(self, tmp_path: Path) -> None:
        asyncio.run(self.make_store(tmp_path).close())
