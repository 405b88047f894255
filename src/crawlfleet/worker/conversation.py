"""Between the master and what runs here: orders go in, and the output of crawls goes out.

An execution has one piece of a stream under way, and hears when it is durable at the master: so
a slow master slows the crawl down, and the node holds little in memory. While the master is away,
or has no room, a piece is sent again and again; nothing is lost, and people are told.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from crawlfleet.errors import MasterUnreachable, Refused
from crawlfleet.model.log import LogLevel
from crawlfleet.model.messages import Assignment, ExecutionOrder, OrderAnswer
from crawlfleet.model.output import Segment, SegmentUpload, Stream, Verdict
from crawlfleet.ports.execution import ControlLink, ExecutorPool
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.notes import Heard, Notes

log = logger(Component.WORKER)
FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 10.0
TELL_EVERY_S: Final = 60.0


class Conversation:
    """With the executions of one session."""

    def __init__(self, notes: Notes, *, link: ControlLink, pool: ExecutorPool) -> None:
        self._notes = notes
        self._link = link
        self._pool = pool
        self._ears: dict[str, Heard] = {}
        self._under_way: dict[str, set[asyncio.Task[None]]] = {}

    def listen(self, to: Assignment, begin: Callable[[], None]) -> Heard:
        """Who hears an execution; `begin` is called when its work begins."""
        ship = partial(self._ship, to)
        heard = self._ears[to.execution_id] = self._notes.observe(to.execution_id, begin, ship)
        return heard

    def end(self, execution_id: str) -> None:
        """The execution has ended: nobody waits for its pieces of output any more."""
        self._ears.pop(execution_id, None)
        for trip in self._under_way.pop(execution_id, ()):
            trip.cancel()

    def pass_on(self, orders: tuple[ExecutionOrder, ...]) -> None:
        """Tell those that run what is ordered; who cannot obey is answered for."""
        for order in orders:
            heard = self._ears.get(order.execution_id)
            if heard is not None and not self._pool.order(order):
                why = f"{order.execution_id} takes no orders"
                heard.answer(OrderAnswer(number=order.number, error=why))

    def _ship(
        self, about: Assignment, heard: Heard, stream: Stream, segment: Segment, data: bytes
    ) -> None:
        upload = SegmentUpload(
            session_id=self._notes.session_id,
            execution_id=about.execution_id,
            token=about.token,
            stream=stream,
            segment=segment,
            data=data,
        )
        trip = asyncio.create_task(self._deliver(upload, heard), name="segment")
        trips = self._under_way.setdefault(about.execution_id, set())
        trips.add(trip)
        trip.add_done_callback(trips.discard)

    async def _deliver(self, upload: SegmentUpload, heard: Heard) -> None:
        refusal = await self._refusal(upload, heard)
        sequence = upload.segment.sequence
        self._pool.confirm(upload.execution_id, upload.stream, sequence, refusal)

    async def _refusal(self, upload: SegmentUpload, heard: Heard) -> str:
        """Send it until it is kept; why it is not taken, if that is so."""
        loop = asyncio.get_running_loop()
        pause_s, told_at = FIRST_PAUSE_S, float("-inf")
        while True:
            try:
                reply = await self._link.keep(self._notes.node_id, upload)
            except Refused as error:
                return f"the master does not take output: {error}"
            except MasterUnreachable as error:
                trouble = str(error)
            else:
                if reply.verdict is Verdict.KEPT:
                    return ""
                if reply.verdict is Verdict.STALE:
                    return f"the master does not take output: {reply.message}"
                trouble = reply.message
            if loop.time() - told_at >= TELL_EVERY_S:
                told_at = loop.time()
                log.warning("output waits", execution_id=upload.execution_id, error=trouble)
                fields = {"why": trouble}
                heard.log("the crawl waits to hand over its output", LogLevel.WARNING, fields)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
