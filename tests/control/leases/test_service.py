"""The lease protocol, message by message."""

import asyncio

import msgspec
import pytest

from crawlfleet.core.tasks import assignments
from crawlfleet.core.tasks.orders import Verb
from crawlfleet.model.settings import RecoverySettings
from crawlfleet.model.task import ErrorClass, ExecutionStatus, RetryPolicy, TaskStatus
from crawlfleet.model.wire.node_protocol import Assignment, LeaseRequest, ReportKind, ReportOutcome
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import stage

STARTED, SUCCEEDED = ReportKind.STARTED, ReportKind.SUCCEEDED
RECORDED, STALE = ReportOutcome.RECORDED, ReportOutcome.STALE
AT_ONCE = RetryPolicy(initial_delay_s=0.0)


def test_a_task_runs_from_submission_to_its_result() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            task = await on.submit()
            assignment = await node.take()
            assert await node.report(assignment, STARTED) == [RECORDED]
            assert (await on.task(task)).status is TaskStatus.PROCESSING
            assert await node.report(assignment, SUCCEEDED, data=b'{"n":1}') == [RECORDED]
            done = await on.task(task)
            assert done.status is TaskStatus.COMPLETED
            assert b'"data":{"n":1}' in bytes(done.result)
            assert b'"success":true' in bytes(done.result)

    run_simulated(scene())


def test_start_and_end_in_one_message_are_one_change_with_both_events() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            task = await on.submit()
            assignment = await node.take()
            before = (await on.task(task)).version
            assert await node.report(assignment, STARTED, SUCCEEDED) == [RECORDED, RECORDED]
            after = await on.task(task)
            assert after.version == before + 1
            await asyncio.sleep(1)
            told = [event.kind for event in on.heard.events if event.subject == task.id]
            assert told == ["task.pending", "task.assigned", "task.processing", "task.completed"]

    run_simulated(scene())


def test_a_lost_lease_reply_is_delivered_again() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            await on.submit()
            first = await node.take()
            again = await node.take()
            assert again == first
            assert (await node.lease(first)).assignments == ()

    run_simulated(scene())


def test_a_repeated_report_changes_nothing_and_stops_nothing() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            task = await on.submit()
            assignment = await node.take()
            assert await node.report(assignment, STARTED) == [RECORDED]
            assert await node.report(assignment, STARTED) == [RECORDED]
            await node.report(assignment, SUCCEEDED)
            done = await on.task(task)
            assert await node.report(assignment, SUCCEEDED, data=b"2") == [STALE]
            assert await on.task(task) == done

    run_simulated(scene())


def test_a_report_under_an_old_token_is_refused() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            task = await on.submit(retry_policy=AT_ONCE)
            first = await node.take()
            await node.report(first, ReportKind.FAILED, error=ErrorClass.ERROR)
            second = await node.take()
            assert second.token > first.token
            assert await node.report(first, SUCCEEDED) == [STALE]
            assert await node.report(second, SUCCEEDED, token=first.token) == [STALE]
            assert (await on.task(task)).status is TaskStatus.ASSIGNED
            assert await node.report(second, SUCCEEDED) == [RECORDED]

    run_simulated(scene())


def test_one_node_cannot_report_for_another() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, other = await on.node(slots=1), await on.node("other", slots=1)
            await on.submit()
            replies = {each: (await each.lease()).assignments for each in (node, other)}
            owner = next(each for each, got in replies.items() if got)
            thief = other if owner is node else node
            assert await thief.report(replies[owner][0], SUCCEEDED) == [STALE]

    run_simulated(scene())


def test_a_node_that_registers_anew_loses_what_it_held() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            task = await on.submit()
            assignment = await node.take()
            on.control.nodes.get(node.id)
            await on.control.leases.end_session(node.session_id, cause="restarted")
            assert await node.report(assignment, SUCCEEDED) == [STALE]
            assert (await on.task(task)).status is TaskStatus.PENDING
            assert (await node.beat(task.id)).session_lost
            assert (await node.lease()).session_lost

    run_simulated(scene())


def test_a_cancelled_task_is_free_at_once_and_its_room_when_the_node_has_stopped() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=1)
            task = await on.submit()
            assignment = await node.take()
            await node.report(assignment, STARTED)
            await on.order(Verb.CANCEL, task)
            assert (await on.task(task)).status is TaskStatus.CANCELLED
            (order,) = (await node.lease(assignment)).stop
            assert order.execution_id == assignment.execution_id
            assert on.control.state.fleet.free(node.id).slots == 0
            assert await node.report(assignment, ReportKind.STOPPED) == [RECORDED]
            assert on.control.state.fleet.free(node.id).slots == 1
            (execution,) = await on.store.executions(task.id)
            assert execution.status is ExecutionStatus.CANCELLED

    run_simulated(scene())


def test_a_result_that_comes_after_the_cancellation_does_not_count() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            task = await on.submit()
            assignment = await node.take()
            await on.order(Verb.CANCEL, task)
            await node.report(assignment, SUCCEEDED, data=b"1")
            cancelled = await on.task(task)
            assert cancelled.status is TaskStatus.CANCELLED
            assert cancelled.result is None

    run_simulated(scene())


def test_a_paused_task_leaves_its_node_and_costs_no_attempt() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            task = await on.submit()
            assignment = await node.take()
            await on.order(Verb.PAUSE, task)
            await node.report(assignment, ReportKind.STOPPED)
            assert (await on.task(task)).status is TaskStatus.PAUSED
            await on.order(Verb.RESUME, task)
            again = await node.take()
            assert again.task_id == task.id
            assert (await on.task(task)).retry_count == 0

    run_simulated(scene())


def test_a_poison_task_ends_in_the_dead_letter_list_with_its_history() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            task = await on.submit(max_retries=2, retry_policy=AT_ONCE)
            for _ in range(3):
                assignment = await node.take()
                await node.report(assignment, STARTED)
                await node.report(assignment, ReportKind.FAILED, error=ErrorClass.CRASH)
            dead = await on.task(task)
            assert dead.status is TaskStatus.FAILED
            assert dead.dead_reason == "failed 3 times (max_retries 2)"
            history = await on.store.executions(task.id)
            assert [each.error.error_class for each in history] == [ErrorClass.CRASH] * 3
            await on.order(Verb.RETRY, task)
            assert (await node.take()).task_id == task.id
            assert (await on.task(task)).dead_reason is None

    run_simulated(scene())


def test_a_task_that_kills_its_nodes_is_given_up() -> None:
    async def scene() -> None:
        async with stage(recovery=RecoverySettings(max_losses=2)) as on:
            task = await on.submit(retry_policy=AT_ONCE)
            for number in range(3):
                node = await on.node(f"n{number}")
                await node.take()
                await on.control.leases.end_session(node.session_id, cause="it died")
            dead = await on.task(task)
            assert dead.status is TaskStatus.FAILED
            assert "vanished with its node 3 times" in dead.dead_reason

    run_simulated(scene())


def test_a_drained_node_finishes_its_work_takes_no_more_and_goes() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            await on.submit()
            assignment = await node.take()
            await on.control.node_orders.drain(node.id, by="people")
            waiting = await on.submit()
            assert (await node.lease(assignment)).assignments == ()
            await node.report(assignment, SUCCEEDED)
            last = await node.lease()
            assert last.session_lost
            assert last.draining
            assert on.control.nodes.get(node.id).status == "offline"
            assert (await on.task(waiting)).status is TaskStatus.PENDING

    run_simulated(scene())


def test_a_node_is_given_no_more_than_it_has_room_for_and_asked_for() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            slots = int(on.control.nodes.get(node.id).resources.slots)
            for _ in range(100):
                await on.submit(min_resources={"cpu": 0, "memory_mb": 0})
            await asyncio.sleep(1)
            taken = list((await node.lease()).assignments)
            assert len(taken) == slots
            # None of them is confirmed as ended: there is no more room, however often it asks.
            assert (await node.lease(*taken)).assignments == ()
            request = LeaseRequest(
                session_id=node.session_id,
                held=tuple(each.execution_id for each in taken),
                wait_s=1.0,
                backlog=5,
            )
            more = (await on.control.leases.lease(node.id, request)).assignments
            assert len(more) == 5
            await node.report(taken[0], ReportKind.SUCCEEDED)
            held = (*taken[1:], *more)
            request = msgspec.structs.replace(
                request, held=tuple(each.execution_id for each in held)
            )
            assert len((await on.control.leases.lease(node.id, request)).assignments) == 1

    run_simulated(scene())


def test_large_parameters_come_in_portions_one_right_after_the_other() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=1)
            large = msgspec.Raw(b'{"text":"%s"}' % (b"x" * 900_000))
            tasks = [await on.submit(parameters=large) for _ in range(7)]
            await node.lease(backlog=8)
            await asyncio.sleep(1)
            begun = asyncio.get_running_loop().time()
            held: list[Assignment] = []
            while len(held) < len(tasks):
                news = (await node.lease(*held, backlog=8)).assignments
                assert news
                assert len(news) == 1 or sum(len(bytes(e.parameters)) for e in news) <= 2_000_000
                # A reply that got lost comes again.
                assert (await node.lease(*held, backlog=8)).assignments == news
                held += news
            assert {each.task_id for each in held} == {task.id for task in tasks}
            assert asyncio.get_running_loop().time() == begun

    run_simulated(scene())


def test_what_is_too_large_for_a_portion_comes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignments, "BYTES_AT_ONCE", 10)

    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=3)
            for text in (b'"a long text"', b"1", b'"another long text"'):
                await on.submit(parameters=msgspec.Raw(b'{"text":%s}' % text))
            await asyncio.sleep(1)
            held: list[Assignment] = []
            for _ in range(3):
                (news,) = (await node.lease(*held)).assignments
                held.append(news)
            # What must stop is told all the same.
            tasks = [await on.control.tasks.get(each.task_id) for each in held]
            await on.order(Verb.CANCEL, tasks[2])
            reply = await node.lease()
            assert [each.execution_id for each in reply.assignments] == [held[0].execution_id]
            assert [each.execution_id for each in reply.stop] == [held[2].execution_id]

    run_simulated(scene())


def test_what_a_node_gives_back_does_not_lie_ready_there_again_at_once() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=1)
            tasks = [await on.submit() for _ in range(300)]
            (first,) = (await node.lease(backlog=256)).assignments
            await asyncio.sleep(1)
            ready = (await node.lease(first, backlog=256)).assignments
            assert len(ready) == 256
            # It asks for as much again, and finds only then that what it does takes long.
            poll = asyncio.create_task(node.lease(first, *ready, wait_s=3.0, backlog=256))
            await node.report(first, STARTED)
            for each in ready:
                assert await node.report(each, ReportKind.RELEASED) == [RECORDED]
            await asyncio.sleep(2)
            waiting = [(await on.task(task)).status for task in tasks]
            assert waiting.count(TaskStatus.PENDING) == 299
            other = await on.node("other", slots=2)
            assert len((await other.lease()).assignments) == 2
            assert (await poll).assignments == ()
            await node.beat(first.task_id)
            assert (await node.lease(first)).assignments == ()
            # As soon as it has room, or asks for it, it has work again.
            again = (await node.lease(first, backlog=4, wait_s=5.0)).assignments
            assert len(again) == 4
            assert {(await on.control.tasks.get(each.task_id)).loss_count for each in again} == {0}

    run_simulated(scene())


def test_a_node_that_dies_with_a_full_backlog_costs_each_task_one_loss_and_no_more() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=1)
            tasks = [await on.submit(retry_policy=AT_ONCE, max_retries=0) for _ in range(64)]
            policy = RetryPolicy(initial_delay_s=0.0, on=(ErrorClass.ERROR,))
            once = await on.submit(retry_policy=policy)
            (first,) = (await node.lease(backlog=64)).assignments
            await asyncio.sleep(1)
            assert len((await node.lease(first, backlog=64)).assignments) == 64
            await node.report(first, STARTED)
            await on.control.leases.end_session(node.session_id, cause="it died")
            # Whether it had begun nobody knows: a task that must not be done twice is not.
            ended = await on.task(once)
            assert ended.status is TaskStatus.FAILED
            assert "errors of class lost are not retried" in ended.dead_reason
            back = [await on.task(task) for task in tasks]
            assert {each.status for each in back} == {TaskStatus.PENDING}
            assert {(each.loss_count, each.retry_count) for each in back} == {(1, 0)}
            other = await on.node("other", slots=64)
            await asyncio.sleep(1)
            assert len((await other.lease()).assignments) == 64

    run_simulated(scene())


def test_what_a_node_gives_back_before_it_goes_costs_nothing() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=1)
            tasks = [await on.submit() for _ in range(33)]
            (first,) = (await node.lease(backlog=32)).assignments
            await asyncio.sleep(1)
            ready = (await node.lease(first, backlog=32)).assignments
            assert len(ready) == 32
            for each in ready:
                await node.report(each, ReportKind.RELEASED)
            await on.control.leases.end_session(node.session_id, cause="it died")
            losses = {task.id: (await on.task(task)).loss_count for task in tasks}
            assert losses.pop(first.task_id) == 1
            assert {*losses.values()} == {0}

    run_simulated(scene())
