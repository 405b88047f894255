"""In an executor process: what an executor can do and ask while it works on one execution."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from crawlfleet.errors import CrawlfleetError, FrontierRefused, SinkUnusable
from crawlfleet.model.crawl.figures import CrawlFigures
from crawlfleet.model.wire.locks import LONGEST_LEASE_S, SHORTEST_LEASE_S
from crawlfleet.model.wire.output import Segment, Stream
from crawlfleet.ports.execution import Obey, RunCutOff
from crawlfleet.ports.ledger import Ledger
from crawlfleet.worker.executor.fleet_requests import Inquirer, ServedLedger, ServedLocks
from crawlfleet.worker.executor.locks import HeldLock
from crawlfleet.worker.executor.replies import Replies
from crawlfleet.worker.pool import protocol

PROGRESS_INTERVAL_S: Final = 0.1
"""People cannot read faster, and a loop that reports each step must not flood the pipe."""


class ChildContext:
    """The `Context` of one execution."""

    def __init__(
        self, start: protocol.Start, replies: Replies, *, takes: Sequence[str] = ()
    ) -> None:
        """`takes` names what the node understands beyond the first messages."""
        self.keeps_output = protocol.SEGMENTS in takes
        self.keeps_frontiers = protocol.FRONTIER in takes
        self.task_id = start.task_id
        self.parent_id = start.parent_id
        self.attempt = start.attempt
        self.secrets: Mapping[str, str] = start.secrets
        self.execution_id = self._execution_id = start.execution_id
        self._replies = replies
        self._reported_at = float("-inf")
        self._obey: Obey = _refuse_orders
        self._obeyed: set[int] = set()
        self._kept: dict[tuple[Stream, int], asyncio.Future[protocol.Kept]] = {}
        self._asked: dict[int, asyncio.Future[protocol.Told]] = {}
        self._questions = 0
        self._takes = takes
        self._inquirer: Inquirer | None = None
        self._ledger: Ledger | None = None

    @property
    def inquirer(self) -> Inquirer:
        if self._inquirer is None:
            self._inquirer = Inquirer(self._execution_id, self._replies, self._takes)
        return self._inquirer

    @property
    def ledger(self) -> Ledger | None:
        if self._ledger is None and self.inquirer.is_heard:
            self._ledger = ServedLedger(self.inquirer)
        return self._ledger

    async def log(self, message: object, *, level: object = "info", **fields: Any) -> None:
        self._replies.send(
            protocol.Log(
                execution_id=self._execution_id,
                message=protocol.clean(message),
                level=str(level),
                fields={name: _plain(value) for name, value in fields.items()},
            )
        )

    async def progress(self, done: float, total: float | None = None) -> None:
        now = time.monotonic()
        if done == total or now - self._reported_at >= PROGRESS_INTERVAL_S:
            self._reported_at = now
            self._replies.send(
                protocol.Progress(execution_id=self._execution_id, done=done, total=total)
            )

    async def figures(self, figures: CrawlFigures) -> None:
        if not self.keeps_output:
            return
        told = msgspec.to_builtins(figures)
        self._replies.send(protocol.Figures(execution_id=self._execution_id, figures=told))

    def obey(self, obey: Obey) -> None:
        self._obey = obey

    def lock(self, name: str, *, lease_s: float = 30.0, wait_s: float | None = None) -> HeldLock:
        if not name or not SHORTEST_LEASE_S <= lease_s <= LONGEST_LEASE_S:
            raise ValueError(
                f"a lock has a name, and a lease of {SHORTEST_LEASE_S:g} to {LONGEST_LEASE_S:g} s"
            )
        number = str(self.inquirer.number())
        locks = ServedLocks(self.inquirer)
        return HeldLock(locks, name, holder=number, lease_s=lease_s, wait_s=wait_s)

    async def keep(self, stream: Stream, segment: Segment, data: bytes) -> None:
        if not self.keeps_output:
            raise SinkUnusable("the node does not take output; install a newer crawlfleet there")
        key = stream, segment.sequence
        answer = self._kept[key] = asyncio.get_running_loop().create_future()
        try:
            self._replies.send(
                protocol.Segment(
                    execution_id=self._execution_id, stream=stream, segment=segment, data=data
                )
            )
            kept = await answer
        finally:
            del self._kept[key]
        if kept.refusal:
            raise (RunCutOff if kept.is_ended else SinkUnusable)(kept.refusal)

    def hear(self, kept: protocol.Kept) -> None:
        """What became of a segment."""
        answer = self._kept.get((kept.stream, kept.sequence))
        if answer is not None and not answer.done():
            answer.set_result(kept)

    async def ask_frontier(self, data: bytes) -> bytes:
        if not self.keeps_frontiers:
            raise FrontierRefused("the node passes nothing on; install a newer crawlfleet there")
        if len(data) > protocol.MAX_ASKED_BYTES:
            raise FrontierRefused(
                f"{len(data):,} bytes are too many for one request; {protocol.MAX_ASKED_BYTES:,} "
                "are allowed. Use `frontier: node`, or fewer links a page (`limits.max_body_bytes`)"
            )
        self._questions += 1
        number = self._questions
        answer: asyncio.Future[protocol.Told] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            for start in range(0, len(data) or 1, protocol.MAX_QUERY_BYTES):
                end = start + protocol.MAX_QUERY_BYTES
                self._replies.send(
                    protocol.Query(
                        execution_id=self._execution_id,
                        number=number,
                        data=data[start:end],
                        more=end < len(data),
                    )
                )
            told = await answer
        finally:
            del self._asked[number]
        if told.refusal:
            raise FrontierRefused(told.refusal)
        return told.data

    def hear_told(self, told: protocol.Told) -> None:
        """What came of something that was asked of the frontier."""
        answer = self._asked.get(told.number)
        if answer is not None and not answer.done():
            answer.set_result(told)

    async def carry_out(self, order: protocol.Obey) -> None:
        """Obey, once, and answer."""
        if order.number in self._obeyed:
            return
        self._obeyed.add(order.number)
        data, error = b"null", ""
        try:
            data = msgspec.json.encode(await self._obey(order.name, order.arguments))
            if len(data) > protocol.MAX_RESULT_BYTES:
                data, error = b"null", protocol.too_large(len(data))
        except Exception as trouble:
            error = protocol.clean(str(trouble)) or type(trouble).__name__
        self._replies.send(
            protocol.Answer(
                execution_id=self._execution_id,
                number=order.number,
                data=msgspec.Raw(data),
                error=error,
            )
        )


async def _refuse_orders(name: str, arguments: Mapping[str, Any]) -> Any:
    raise CrawlfleetError("this work takes no orders while it runs")


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | None) else protocol.clean(value)
