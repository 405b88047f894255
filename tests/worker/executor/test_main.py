"""The program of an executor process: orders that come close together lose nothing."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawlfleet.errors import SinkUnusable
from crawlfleet.model.task import ErrorClass
from crawlfleet.model.wire.output import Segment, SegmentReply
from crawlfleet.model.wire.services import OUTPUT
from crawlfleet.ports.execution import RunCutOff
from crawlfleet.worker.executor.context import ExecutionContext
from crawlfleet.worker.executor.loop import Host
from crawlfleet.worker.executor.replies import Replies
from crawlfleet.worker.pool import protocol

USER_CODE = """
import asyncio, os
from contextvars import ContextVar

mark = ContextVar("mark", default="nothing")

async def number(given): return given

async def leave(given): mark.set(given)

async def find(): return mark.get()

async def end_when_ordered(fd, orders):
    # The loop finds the orders in the very turn in which this ends.
    os.write(fd, orders.encode())
    await asyncio.sleep(0)
    return "finished"
"""


@pytest.fixture(autouse=True)
def user_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "childcode.py").write_text(USER_CODE)
    monkeypatch.syspath_prepend(tmp_path)


def start(id: str, function: str, *args: object) -> protocol.Start:
    parameters = {"function": f"childcode:{function}", "args": args}
    return protocol.Start(
        execution_id=id,
        task_id=f"task-of-{id}",
        attempt=1,
        task_type="python",
        parameters=msgspec.Raw(msgspec.json.encode(parameters)),
    )


def lines(*orders: protocol.Order) -> bytes:
    return b"".join(protocol.encode(order) for order in orders)


class Process:
    """The program of a process, in this one."""

    def __init__(self, orders_fd: int, replies: asyncio.StreamReader) -> None:
        self.orders_fd = orders_fd
        self._replies = replies

    def order(self, *orders: protocol.Order) -> None:
        """All in one write, so that they are read in one go."""
        os.write(self.orders_fd, lines(*orders))

    async def replies(self, count: int) -> list[Any]:
        """The next ones."""
        async with asyncio.timeout(5):
            return [protocol.decode_reply(await self._replies.readline()) for _ in range(count)]

    async def said(self, count: int) -> list[str]:
        """The next replies, as `type id`."""
        replies = await self.replies(count)
        return [f"{type(reply).__name__.lower()} {reply.execution_id}" for reply in replies]


def with_process(scene: Callable[[Process], Awaitable[None]]) -> None:
    async def main() -> None:
        orders_fd, order_fd = os.pipe()
        replies_fd, reply_fd = os.pipe()
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(replies_fd, "rb")
        )
        # What waits behind slow work is handed back; a busy machine makes all work slow.
        host = Host(orders_fd, Replies(reply_fd), patience_s=10.0)
        serving = asyncio.create_task(host.serve())
        try:
            process = Process(order_fd, reader)
            process.order(protocol.Hello(python_allow=("childcode:*",), ahead=8))
            assert isinstance(protocol.decode_reply(await reader.readline()), protocol.Ready)
            await scene(process)
        finally:
            loop.remove_reader(orders_fd)
            serving.cancel()
            await asyncio.wait([serving])
            transport.close()
            for fd in (orders_fd, order_fd, reply_fd):
                os.close(fd)

    asyncio.run(main())


def test_what_is_cancelled_before_its_first_step_is_stopped_and_the_next_begins() -> None:
    async def scene(process: Process) -> None:
        process.order(start("a", "number", 1), protocol.Cancel(execution_id="a"))
        assert await process.said(1) == ["stopped a"]
        process.order(start("b", "number", 2))
        assert await process.said(2) == ["started b", "result b"]

    with_process(scene)


def test_what_was_sent_behind_one_that_is_cancelled_at_once_begins() -> None:
    async def scene(process: Process) -> None:
        process.order(
            start("a", "number", 1), start("b", "number", 2), protocol.Cancel(execution_id="a")
        )
        assert await process.said(3) == ["stopped a", "started b", "result b"]

    with_process(scene)


def test_a_result_is_sent_though_the_one_behind_it_is_cancelled_before_its_first_step() -> None:
    async def scene(process: Process) -> None:
        cancel = lines(protocol.Cancel(execution_id="b")).decode()
        first = start("a", "end_when_ordered", process.orders_fd, cancel)
        process.order(first, start("b", "number", 2))
        assert await process.said(3) == ["started a", "result a", "stopped b"]
        process.order(start("c", "number", 3))
        assert await process.said(2) == ["started c", "result c"]

    with_process(scene)


def test_what_an_execution_leaves_in_its_context_is_not_found_by_the_next() -> None:
    async def scene(process: Process) -> None:
        process.order(start("a", "leave", "something"), start("b", "find"))
        *_, found = await process.replies(4)
        assert (found.execution_id, msgspec.json.decode(found.data)) == ("b", "nothing")

    with_process(scene)


def test_a_log_takes_what_can_be_written() -> None:
    """Also where this is compiled, and stricter with types than people are."""
    read_fd, write_fd = os.pipe()
    with os.fdopen(read_fd, "rb") as said:
        context = ExecutionContext(start("e", "number"), Replies(write_fd))

        async def log() -> None:
            await context.log(ValueError("it broke"), level=30, where=Path("here"))

        asyncio.run(log())
        os.close(write_fd)
        logged = protocol.decode_reply(said.read().rstrip())
    assert logged == protocol.Log(
        execution_id="e", message="it broke", level="30", fields={"where": "here"}
    )


@pytest.mark.parametrize(("is_ended", "error"), [(False, SinkUnusable), (True, RunCutOff)])
def test_who_writes_to_a_run_that_others_ended_is_lost(
    is_ended: bool, error: type[Exception]
) -> None:
    async def scene() -> None:
        context = ExecutionContext(start("e", "number"), replies, takes=[OUTPUT])
        keeping = asyncio.create_task(
            context.store_segment("items", Segment(sequence=1, first=1), b"")
        )
        await asyncio.sleep(0)
        payload = msgspec.Raw(msgspec.json.encode(SegmentReply(is_ended=is_ended)))
        context.services.receive(
            protocol.Response(execution_id="e", number=1, refusal="no", payload=payload)
        )
        with pytest.raises(error, match="no"):
            await keeping

    with Path(os.devnull).open("wb") as nowhere:
        replies = Replies(nowhere.fileno())
        asyncio.run(scene())
    assert RunCutOff.error_class is ErrorClass.LOST
