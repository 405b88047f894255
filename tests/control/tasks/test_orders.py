"""Orders about many tasks: few commits, decided anew where somebody was faster, once for each."""

import asyncio
from collections.abc import Sequence

import msgspec

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.tasks.orders import PORTION
from crawlfleet.core.tasks.orders import TaskOrder, Verb
from crawlfleet.model.change import Change
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.task import ExecutionStatus, Task, TaskStatus
from crawlfleet.model.wire.node_protocol import ReportKind
from crawlfleet.ports.store import Committed, TaskFilter
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import Stage, stage

CANCEL = TaskOrder(verb=Verb.CANCEL, by="people")


class CountingStore(MemoryStore):
    """Knows how large the commits were, and can have somebody else go first."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.first: Change | None = None

    async def commit(self, changes: Sequence[Change]) -> Committed:
        if self.first is not None:
            faster, self.first = self.first, None
            await super().commit([faster])
        self.sizes.append(len(changes))
        return await super().commit(changes)


async def submit(on: Stage, count: int) -> list[Task]:
    outcomes = await on.control.tasks.submit_batch(
        [TaskRequest(task_type="work")] * count, by="people"
    )
    return [outcome.task for outcome in outcomes if outcome.task]


def test_thousands_take_a_few_commits() -> None:
    async def scene() -> None:
        store = CountingStore()
        async with stage(store) as on:
            tasks = await submit(on, 2 * PORTION + 1)
            store.sizes.clear()
            outcomes = await on.control.orders.carry_out(CANCEL, [task.id for task in tasks])
            assert all(outcome.changed for outcome in outcomes)
            assert [outcome.task_id for outcome in outcomes] == [task.id for task in tasks]
            assert store.sizes == [PORTION, PORTION, 1]
            assert not on.control.state.queue

    run_simulated(scene())


def test_an_order_about_a_filter_goes_on_where_it_ended() -> None:
    async def scene() -> None:
        async with stage() as on:
            tasks = await submit(on, 7)
            everything = TaskFilter(status=(TaskStatus.PENDING,))
            first, cursor = await on.control.orders.carry_out_where(
                CANCEL, everything, after=None, limit=5
            )
            rest, end = await on.control.orders.carry_out_where(
                CANCEL, everything, after=cursor, limit=5
            )
            assert [each.task_id for each in first + rest] == sorted(task.id for task in tasks)
            assert end is None

    run_simulated(scene())


def test_what_somebody_else_changed_meanwhile_is_decided_anew() -> None:
    async def scene() -> None:
        store = CountingStore()
        async with stage(store) as on:
            one, other = await submit(on, 2)
            paused = await on.order(Verb.PAUSE, one)
            await on.order(Verb.RESUME, one)
            newer = (await on.task(one)).version + 1
            gone = msgspec.structs.replace(paused, version=newer, status=TaskStatus.CANCELLED)
            store.first = Change(tasks=(gone,))
            outcomes = await on.control.orders.carry_out(
                TaskOrder(verb=Verb.PAUSE, by="people"), [one.id, other.id]
            )
            assert [outcome.changed for outcome in outcomes] == [False, True]
            assert str(outcomes[0].refusal) == f"cannot pause {one.id}: it is cancelled"

    run_simulated(scene())


def test_an_id_that_is_named_twice_is_one_task() -> None:
    async def scene() -> None:
        async with stage() as on:
            (task,) = await submit(on, 1)
            outcomes = await on.control.orders.carry_out(CANCEL, [task.id, task.id])
            assert len(outcomes) == 1

    run_simulated(scene())


def test_running_work_is_ordered_to_stop_in_bulk() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=4)
            tasks = await submit(on, 3)
            await asyncio.sleep(1)
            reply = await node.lease()
            for assignment in reply.assignments:
                await node.report(assignment, ReportKind.STARTED)
            await on.control.orders.carry_out(CANCEL, [task.id for task in tasks])
            stopping = {each.execution.status for each in on.control.state.leases.values()}
            assert stopping == {ExecutionStatus.STOPPING}
            assert len((await node.lease(*reply.assignments)).stop) == 3

    run_simulated(scene())
