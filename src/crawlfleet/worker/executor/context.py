"""Part of the executor process: the context that an executor uses while it works on one
execution."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from crawlfleet.errors import CrawlfleetError, FrontierRefused, SinkUnusable
from crawlfleet.model.crawl.figures import CrawlFigures
from crawlfleet.model.wire.locks import MAX_LEASE_S, SHORTEST_LEASE_S
from crawlfleet.model.wire.output import Segment, SegmentReply, SegmentUpload, Stream
from crawlfleet.model.wire.services import FRONTIER, LEDGER, OUTPUT, SERVICES
from crawlfleet.ports.execution import OrderHandler, RunCutOff
from crawlfleet.ports.ledger import Ledger
from crawlfleet.worker.executor.fleet_requests import FleetLedger, FleetLocks, ServiceClient
from crawlfleet.worker.executor.locks import HeldLock
from crawlfleet.worker.executor.replies import Replies
from crawlfleet.worker.pool import protocol

PROGRESS_INTERVAL_S: Final = 0.1
"""Minimum seconds between two progress messages. People cannot read faster, and a loop that reports
each step must not flood the pipe."""


class ExecutionContext:
    """The `Context` of one execution."""

    def __init__(
        self, start: protocol.Start, replies: Replies, *, takes: Sequence[str] = ()
    ) -> None:
        """`takes` names the services to which the node passes requests on."""
        self.services = ServiceClient(start.execution_id, replies, takes)
        self.stores_output = self.services.reaches(OUTPUT)
        self.reaches_frontier = self.services.reaches(FRONTIER)
        self.ledger: Ledger | None = (
            FleetLedger(self.services) if self.services.reaches(LEDGER) else None
        )
        self.task_id = start.task_id
        self.parent_id = start.parent_id
        self.attempt = start.attempt
        self.secrets: Mapping[str, str] = start.secrets
        self.execution_id = self._execution_id = start.execution_id
        self._replies = replies
        self._reported_at = float("-inf")
        self._handle_order: OrderHandler = _refuse_orders
        self._carried_out: set[int] = set()

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
        if not self.stores_output:
            return
        told = msgspec.to_builtins(figures)
        self._replies.send(protocol.Figures(execution_id=self._execution_id, figures=told))

    def handle_orders(self, handler: OrderHandler) -> None:
        self._handle_order = handler

    def lock(self, name: str, *, lease_s: float = 30.0, wait_s: float | None = None) -> HeldLock:
        if not name or not SHORTEST_LEASE_S <= lease_s <= MAX_LEASE_S:
            raise ValueError(
                f"a lock has a name, and a lease of {SHORTEST_LEASE_S:g} to {MAX_LEASE_S:g} s"
            )
        number = str(self.services.number())
        locks = FleetLocks(self.services)
        return HeldLock(locks, name, holder=number, lease_s=lease_s, wait_s=wait_s)

    async def store_segment(self, stream: Stream, segment: Segment, data: bytes) -> None:
        upload = SegmentUpload(stream=stream, segment=segment)
        response = await self.services.request(OUTPUT, upload, data)
        if response.refusal:
            reply = msgspec.json.decode(response.payload, type=SegmentReply | None)
            is_ended = reply is not None and reply.is_ended
            raise (RunCutOff if is_ended else SinkUnusable)(response.refusal)

    async def ask_frontier(self, data: bytes) -> bytes:
        most = SERVICES[FRONTIER].max_bytes
        if len(data) > most:
            raise FrontierRefused(
                f"{len(data):,} bytes are too many for one request; {most:,} "
                "are allowed. Use `frontier: node`, or fewer links a page (`limits.max_body_bytes`)"
            )
        response = await self.services.request(FRONTIER, data=data)
        if response.refusal:
            raise FrontierRefused(response.refusal)
        return response.data

    async def carry_out(self, order: protocol.WorkOrder) -> None:
        """Carry out an order of the master once, and answer it."""
        if order.number in self._carried_out:
            return
        self._carried_out.add(order.number)
        data, error = b"null", ""
        try:
            data = msgspec.json.encode(await self._handle_order(order.name, order.arguments))
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
