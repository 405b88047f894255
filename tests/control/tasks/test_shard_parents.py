"""Tasks that are split: made at once, done in pieces, and ended once as what the pieces came to."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.events.outbox import Outbox
from crawlfleet.control.tasks import service as control_tasks
from crawlfleet.control.tasks.shard_parents import ShardParents
from crawlfleet.core.tasks import parents
from crawlfleet.core.tasks.orders import TaskOrder, Verb
from crawlfleet.errors import Conflict, InvalidRequest
from crawlfleet.model.log import Progress
from crawlfleet.model.requests import CloneRequest, TaskRequest
from crawlfleet.model.task import ErrorClass, ExecutionStatus, Task, TaskStatus
from crawlfleet.model.wire.node_protocol import Note, NoteBatch, ReportKind
from crawlfleet.ports.store import Change, Committed, TaskFilter
from crawlfleet.testing.simulation.clock import run_simulated
from crawlfleet.testing.simulation.shared import SharedMemory
from tests.control.stage import PlayedNode, Stage, stage

URLS = [f"https://h{number}.example/" for number in range(40)]
DONE = (ReportKind.STARTED, ReportKind.SUCCEEDED)


def fetches(shards: int = 3, **fields: Any) -> dict[str, Any]:
    parameters = {"urls": URLS, "shards": shards}
    return {
        "task_type": "http_fetch",
        "parameters": msgspec.Raw(msgspec.json.encode(parameters)),
        **fields,
    }


async def shards_of(on: Stage, parent: Task) -> list[Task]:
    found = await on.store.find_tasks(TaskFilter(parent_id=parent.id), after=None, limit=99)
    return sorted(found, key=lambda task: task.shard or 0)


async def finish(node: PlayedNode, *, failing: Sequence[str] = ()) -> None:
    """Do all that the node has been given; what is in `failing` fails for good."""
    await asyncio.sleep(0.1)
    for assignment in await node.take_all():
        if assignment.task_id in failing:
            await node.report(
                assignment, ReportKind.STARTED, ReportKind.FAILED, error=ErrorClass.INVALID
            )
        else:
            urls = msgspec.json.decode(assignment.parameters)["urls"]
            data = msgspec.json.encode({"urls": len(urls), "pages": urls})
            await node.report(assignment, *DONE, data=data)
    await asyncio.sleep(0.1)


def test_a_list_is_done_in_pieces_and_put_together() -> None:
    async def scene() -> None:
        async with stage() as on:
            parent = await on.submit(**fetches(), priority=8)
            assert (parent.status, parent.shards) == (TaskStatus.WAITING, 3)
            children = await shards_of(on, parent)
            assert [child.shard for child in children] == [0, 1, 2]
            assert {child.priority for child in children} == {8}
            node = await on.node(slots=9)
            await finish(node)
            done = await on.task(parent)
            assert done.status is TaskStatus.COMPLETED
            assert done.result is not None
            result = msgspec.json.decode(done.result)
            assert result["data"]["urls"] == 40
            assert sorted(result["data"]["pages"]) == sorted(URLS)
            ends = [e for e in on.heard.events if e.subject == parent.id]
            assert [event.kind for event in ends] == ["task.waiting", "task.completed"]
            assert ends[-1].cause == "its shards have ended: 3 completed"

    run_simulated(scene())


def test_who_waits_for_a_parent_is_woken_by_its_end() -> None:
    async def scene() -> None:
        async with stage() as on:
            parent = await on.submit(**fetches())
            waiting = asyncio.create_task(on.control.tasks.wait(parent.id, 30.0))
            await finish(await on.node(slots=9))
            assert (await waiting).status is TaskStatus.COMPLETED

    run_simulated(scene())


def test_a_failed_shard_fails_its_parent_which_keeps_the_rest() -> None:
    async def scene() -> None:
        async with stage() as on:
            parent = await on.submit(**fetches())
            children = await shards_of(on, parent)
            node = await on.node(slots=9)
            await finish(node, failing=[children[1].id])
            failed = await on.task(parent)
            assert failed.status is TaskStatus.FAILED
            assert failed.error is not None
            assert f"shard 1 ({children[1].id}): it broke" in failed.error.message
            assert failed.result is not None
            kept = msgspec.json.decode(failed.result)["data"]["urls"]
            assert kept == 40 - len(msgspec.json.decode(children[1].parameters)["urls"])
            dead = await on.store.find_tasks(TaskFilter(dead=True), after=None, limit=9)
            assert [task.id for task in dead] == [children[1].id]

            order = TaskOrder(verb=Verb.REQUEUE, by="people")
            await on.control.orders.carry_out_one(order, children[1].id)
            assert (await on.task(parent)).status is TaskStatus.WAITING
            await finish(node)
            done = await on.task(parent)
            assert done.status is TaskStatus.COMPLETED
            assert done.result is not None
            assert msgspec.json.decode(done.result)["data"]["urls"] == 40

    run_simulated(scene())


def test_keys_are_the_parents() -> None:
    async def scene() -> None:
        async with stage() as on:
            request = TaskRequest(**fetches(idempotency_key="once", dedup_key="same"))
            first = await on.control.tasks.submit(request, by="people")
            again = await on.control.tasks.submit(request, by="people")
            assert again.task == first.task
            assert not again.created
            other = TaskRequest(**fetches(2, dedup_key="same"))
            same = await on.control.tasks.submit(other, by="people")
            assert same.deduplicated
            assert same.task == first.task
            assert sum((await on.store.count_tasks()).values()) == 4

    run_simulated(scene())


def test_a_clone_is_split_again() -> None:
    async def scene() -> None:
        async with stage() as on:
            parent = await on.submit(**fetches())
            cloned = await on.control.tasks.clone(parent.id, CloneRequest(), by="people")
            assert cloned.task is not None
            assert len(await shards_of(on, cloned.task)) == 3
            (child, *_) = await shards_of(on, parent)
            single = await on.control.tasks.clone(child.id, CloneRequest(), by="people")
            assert single.task is not None
            assert (single.task.parent_id, single.task.shards) == (None, 0)

    run_simulated(scene())


def test_a_submission_makes_no_more_shards_than_one_commit_can_bear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control_tasks.split, "MAX_SHARDS_AT_ONCE", 7)

    async def scene() -> None:
        async with stage() as on:
            requests = [TaskRequest(**fetches(parents)) for parents in (3, 3, 3, 1)]
            outcomes = await on.control.tasks.submit_batch(requests, by="people")
            assert [bool(outcome.problems) for outcome in outcomes] == [False, False, True, False]
            with pytest.raises(InvalidRequest, match="parameters"):
                await on.submit(**fetches(8))

    run_simulated(scene())


def test_cancelling_the_parent_stops_its_shards() -> None:
    async def scene() -> None:
        async with stage() as on:
            parent = await on.submit(**fetches())
            node = await on.node(slots=2)
            await asyncio.sleep(0.1)
            for assignment in await node.take_all():
                await node.report(assignment, ReportKind.STARTED)
            cancelled = await on.order(Verb.CANCEL, parent)
            assert cancelled.id == parent.id
            states = {child.status for child in await shards_of(on, parent)}
            assert states == {TaskStatus.CANCELLED} == {cancelled.status}
            stopping = {each.execution.status for each in on.control.state.leases.values()}
            assert stopping == {ExecutionStatus.STOPPING}
            again = await on.order(Verb.RETRY, parent)
            assert again.status is TaskStatus.WAITING
            for lease in (await node.lease()).stop:
                assert lease.task_id != parent.id

    run_simulated(scene())


def test_a_parent_is_paused_and_resumed_with_its_shards() -> None:
    async def scene() -> None:
        async with stage() as on:
            parent = await on.submit(**fetches())
            assert (await on.order(Verb.PAUSE, parent)).status is TaskStatus.PAUSED
            assert {each.status for each in await shards_of(on, parent)} == {TaskStatus.PAUSED}
            (first, *others) = await shards_of(on, parent)
            assert (await on.order(Verb.RESUME, first)).status is TaskStatus.PENDING
            assert (await on.task(parent)).status is TaskStatus.WAITING
            for other in others:
                await on.order(Verb.CANCEL, other)
            node = await on.node(slots=9)
            await finish(node)
            assert (await on.task(parent)).status is TaskStatus.CANCELLED

    run_simulated(scene())


def test_shards_of_a_paused_parent_that_are_cancelled_end_it() -> None:
    async def scene() -> None:
        async with stage() as on:
            parent = await on.submit(**fetches())
            await on.order(Verb.PAUSE, parent)
            for child in await shards_of(on, parent):
                await on.order(Verb.CANCEL, child)
            await asyncio.sleep(0.1)
            assert (await on.task(parent)).status is TaskStatus.CANCELLED

    run_simulated(scene())


def test_all_shards_are_retried_by_one_order() -> None:
    """Each of them reopens the parent, in the same commit as the others."""

    async def scene() -> None:
        async with stage() as on:
            parent = await on.submit(**fetches(20))
            children = await shards_of(on, parent)
            node = await on.node(slots=99)
            await finish(node, failing=[child.id for child in children])
            assert (await on.task(parent)).status is TaskStatus.FAILED
            retry = TaskOrder(verb=Verb.RETRY, by="people")
            ids = [parent.id, *(child.id for child in children)]
            for some in (ids[1:], ids, ids[::-1]):
                outcomes = await on.control.orders.carry_out(retry, some)
                assert [each.refusal for each in outcomes] == [None] * len(some)
                assert (await on.task(parent)).status is TaskStatus.WAITING
                states = {each.status for each in await shards_of(on, parent)}
                assert states <= {TaskStatus.PENDING, TaskStatus.ASSIGNED}
                await finish(node, failing=[child.id for child in children])
            cancel = TaskOrder(verb=Verb.CANCEL, by="people")
            await on.control.orders.carry_out(retry, ids)
            outcomes = await on.control.orders.carry_out(cancel, ids[::-1])
            assert [each.refusal for each in outcomes] == [None] * len(ids)

    run_simulated(scene())


def test_shards_that_are_retried_while_their_parent_ends_reopen_it_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Hasty(MemoryStore):
        first: Change | None = None

        async def commit(self, changes: Sequence[Change]) -> Committed:
            if self.first is not None:
                faster, self.first = self.first, None
                await super().commit([faster])
            return await super().commit(changes)

    async def scene() -> None:
        store = Hasty()
        async with stage(store) as on:
            parent = await on.submit(**fetches())
            children = await shards_of(on, parent)
            monkeypatch.setattr(ShardParents, "publish", nothing)
            node = await on.node(slots=9)
            await finish(node, failing=[child.id for child in children])
            ending = parents.Gathering(await on.task(parent))
            for child in await shards_of(on, parent):
                ending.take(child)
            store.first = ending.end(now=99.0)
            retry = TaskOrder(verb=Verb.RETRY, by="people")
            outcomes = await on.control.orders.carry_out(retry, [child.id for child in children])
            assert [outcome.changed for outcome in outcomes] == [True] * 3
            assert (await on.task(parent)).status is TaskStatus.WAITING
            events = await store.events(after=0, limit=999, subject=parent.id)
            states = [event.to_state for event in events]
            assert states == ["waiting", "failed", "waiting"]

    run_simulated(scene())


def test_a_new_priority_reaches_the_shards() -> None:
    async def scene() -> None:
        async with stage() as on:
            parent = await on.submit(**fetches())
            order = TaskOrder(verb=Verb.REPRIORITISE, by="people", priority=9)
            await on.control.orders.carry_out_one(order, parent.id)
            assert {each.priority for each in await shards_of(on, parent)} == {9}
            assert (await on.task(parent)).priority == 9

    run_simulated(scene())


def test_a_parent_is_no_dead_letter() -> None:
    async def scene() -> None:
        async with stage() as on:
            parent = await on.submit(**fetches())
            with pytest.raises(Conflict, match="not a dead letter"):
                await on.order(Verb.DISCARD, parent)

    run_simulated(scene())


def test_a_waiting_parent_says_what_it_waits_for() -> None:
    async def scene() -> None:
        async with stage() as on:
            parent = await on.submit(**fetches())
            node = await on.node(slots=1)
            await asyncio.sleep(0.1)
            (assignment,) = await node.take_all()
            await node.report(assignment, *DONE)
            await asyncio.sleep(0.1)
            why = await on.control.queries.explain(parent.id)
            assert why.summary == "waits for 2 of its 3 shards: 1 completed, 1 assigned, 1 pending"
            assert why.shards == {"completed": 1, "assigned": 1, "pending": 1}

    run_simulated(scene())


def test_the_progress_of_a_parent_is_the_sum_of_its_shards() -> None:
    async def scene() -> None:
        async with stage() as on:
            parent = await on.submit(**fetches(2))
            assert (
                on.control.logs.sum_up(parent.id, await on.control.queries.shards(parent.id))
                is None
            )
            node = await on.node(slots=9)
            await asyncio.sleep(0.1)
            one, other = await node.take_all()
            await node.report(one, ReportKind.STARTED)
            await node.report(other, ReportKind.STARTED)
            for assignment, done in ((one, 3), (other, 4)):
                note = Note(
                    execution_id=assignment.execution_id,
                    progress=Progress(done=done, total=20, at=1.0),
                )
                batch = NoteBatch(session_id=node.session_id, notes=(note,))
                await on.control.logs.take(node.id, batch)
            together = on.control.logs.sum_up(parent.id, await on.control.queries.shards(parent.id))
            assert together is not None
            assert (together.done, together.total) == (7, 40)

    run_simulated(scene())


def test_a_master_that_died_before_it_gathered_is_made_up_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        store = MemoryStore()
        with monkeypatch.context() as patch:
            patch.setattr(Outbox, "_carry", nothing)
            async with stage(store) as on:
                parent = await on.submit(**fetches())
                await finish(await on.node(slots=9))
                assert (await on.task(parent)).status is TaskStatus.WAITING
        async with stage(store) as on:
            await asyncio.sleep(0.1)
            assert (await on.task(parent)).status is TaskStatus.COMPLETED
            events = await store.events(after=0, limit=999, subject=parent.id)
            assert [event.kind for event in events] == ["task.waiting", "task.completed"]

    run_simulated(scene())


def test_a_parent_whose_events_are_gone_is_ended_all_the_same() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            parent = await on.submit(**fetches())
            children = await shards_of(on, parent)
        await store.open()
        ended = [
            msgspec.structs.replace(child, status=TaskStatus.CANCELLED, version=2, completed_at=1.0)
            for child in children
        ]
        await store.commit([Change(tasks=tuple(ended))])
        async with stage(store) as on:
            await asyncio.sleep(0.1)
            assert (await on.task(parent)).status is TaskStatus.CANCELLED

    run_simulated(scene())


def test_two_masters_end_a_parent_once() -> None:
    async def scene() -> None:
        shared = SharedMemory(MemoryStore())
        async with stage(shared.seat(), name="a") as one, stage(shared.seat(), name="b") as other:
            parent = await other.submit(**fetches())
            node = await one.node(slots=9)
            node.turn_to(other)
            await finish(node)
            await asyncio.sleep(1.0)
            assert (await one.task(parent)).status is TaskStatus.COMPLETED
            events = await shared.store.events(after=0, limit=999, subject=parent.id)
            assert [event.kind for event in events] == ["task.waiting", "task.completed"]

    run_simulated(scene())


def test_tasks_that_are_whole_cost_no_further_reading() -> None:
    class Counting(MemoryStore):
        reads = 0

        async def shards(self, parent_id: str) -> Any:
            self.reads += 1
            return await super().shards(parent_id)

    async def scene() -> None:
        store = Counting()
        async with stage(store) as on:
            await on.submit()
            node = await on.node()
            await node.report(await node.take(), *DONE)
            await asyncio.sleep(1.0)
            assert store.reads == 0

    run_simulated(scene())


async def nothing(*_: object) -> bool:
    return False
