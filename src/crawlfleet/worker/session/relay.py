"""Between the master and what runs here: orders go in, the output of crawls goes out, and what they
ask of their frontiers goes there and back.

An execution has one piece of a stream under way, and hears when it is durable at the master: so
a slow master slows the crawl down, and the node holds little in memory. While the master is away,
or has no room, a piece is sent again and again; nothing is lost, and people are told. What is asked
of a frontier is treated in the same way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from crawlfleet.errors import MasterUnreachable, Refused
from crawlfleet.model.bundle import BundleCall
from crawlfleet.model.log import LogLevel
from crawlfleet.model.secret import SecretCall
from crawlfleet.model.wire.execution_requests import Finding, Inquiry, InquiryCall
from crawlfleet.model.wire.frontier import FrontierCall, Standing
from crawlfleet.model.wire.node_protocol import Assignment, ExecutionOrder, OrderAnswer
from crawlfleet.model.wire.output import Segment, SegmentUpload, Stream, Verdict
from crawlfleet.ports.execution import ControlLink, ExecutorPool, NoCode, NoSecrets
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.session.log_forwarding import Heard, Notes

log = logger(Component.WORKER)
FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 10.0
TELL_EVERY_S: Final = 60.0


class Conversation:
    """With the executions of one session. Implements
    `crawlfleet.worker.session.log_forwarding.Errands`."""

    def __init__(self, notes: Notes, *, link: ControlLink, pool: ExecutorPool) -> None:
        self._notes = notes
        self._link = link
        self._pool = pool
        self._ears: dict[str, Heard] = {}
        self._under_way: dict[str, set[asyncio.Task[None]]] = {}

    def listen(self, to: Assignment, begin: Callable[[Assignment], None]) -> Heard:
        """Who hears an execution; `begin` is called when its work begins."""
        heard = self._ears[to.execution_id] = self._notes.observe(to, begin, self)
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

    def ship(self, heard: Heard, stream: Stream, segment: Segment, data: bytes) -> None:
        about = heard.about
        upload = SegmentUpload(
            session_id=self._notes.session_id,
            execution_id=about.execution_id,
            token=about.token,
            stream=stream,
            segment=segment,
            data=data,
        )
        self._send(about.execution_id, self._deliver(upload, heard))

    def inquire(self, heard: Heard, number: int, data: bytes) -> None:
        about = heard.about
        call = FrontierCall(
            session_id=self._notes.session_id,
            execution_id=about.execution_id,
            token=about.token,
            data=data,
        )
        self._send(about.execution_id, self._ask(call, heard, number))

    async def fetch(self, heard: Heard) -> bytes:
        about = heard.about
        call = BundleCall(
            session_id=self._notes.session_id,
            execution_id=about.execution_id,
            token=about.token,
        )
        answer = await self._insist(partial(self._bundle, call), heard, "the code is waited for")
        if answer.refusal:
            raise NoCode(answer.refusal)
        return answer.data

    async def _bundle(self, call: BundleCall) -> "_Answer | str":
        reply = await self._link.bundle(self._notes.node_id, call)
        return _Answer(data=reply.archive, refusal=reply.refusal)

    async def confide(self, heard: Heard) -> Mapping[str, str]:
        about = heard.about
        call = SecretCall(
            session_id=self._notes.session_id,
            execution_id=about.execution_id,
            token=about.token,
        )
        given: dict[str, str] = {}

        async def ask() -> "_Answer | str":
            reply = await self._link.secrets(self._notes.node_id, call)
            given.update(reply.values)
            return _Answer(refusal=reply.refusal)

        answer = await self._insist(ask, heard, "the secrets are waited for")
        if answer.refusal or given.keys() != {*about.secrets}:
            raise NoSecrets(answer.refusal or "the master gave others than were declared")
        return given

    def consult(self, heard: Heard, number: int, inquiry: Inquiry) -> None:
        about = heard.about
        call = InquiryCall(
            session_id=self._notes.session_id,
            execution_id=about.execution_id,
            token=about.token,
            lock=inquiry.lock,
            ledger=inquiry.ledger,
        )
        self._send(about.execution_id, self._pass_inquiry(number, call))

    async def _pass_inquiry(self, number: int, call: InquiryCall) -> None:
        """Once: who asks has a deadline of its own, and knows whether asking again makes sense."""
        try:
            finding = await self._link.inquire(self._notes.node_id, call)
        except Refused as error:
            finding = Finding(refusal=f"the master does not do this: {error}")
        except MasterUnreachable as error:
            finding = Finding(refusal=str(error), is_passing=True)
        self._pool.inform(call.execution_id, number, finding)

    def _send(self, execution_id: str, errand: Coroutine[Any, Any, None]) -> None:
        trip = asyncio.create_task(errand, name="errand to the master")
        trips = self._under_way.setdefault(execution_id, set())
        trips.add(trip)
        trip.add_done_callback(trips.discard)

    async def _deliver(self, upload: SegmentUpload, heard: Heard) -> None:
        answer = await self._insist(
            partial(self._keep, upload), heard, "the crawl waits to hand over its output"
        )
        sequence = upload.segment.sequence
        self._pool.confirm(
            upload.execution_id,
            upload.stream,
            sequence,
            answer.refusal,
            is_ended=answer.is_ended,
        )

    async def _ask(self, call: FrontierCall, heard: Heard, number: int) -> None:
        answer = await self._insist(
            partial(self._frontier, call), heard, "the crawl waits for its frontier"
        )
        self._pool.answer(call.execution_id, number, answer.data, answer.refusal)

    async def _keep(self, upload: SegmentUpload) -> "_Answer | str":
        reply = await self._link.keep(self._notes.node_id, upload)
        if reply.verdict is Verdict.KEPT:
            return _Answer()
        if reply.verdict is Verdict.STALE:
            refusal = f"the master does not take output: {reply.message}"
            return _Answer(refusal=refusal, is_ended=reply.is_ended)
        return reply.message

    async def _frontier(self, call: FrontierCall) -> "_Answer | str":
        reply = await self._link.frontier(self._notes.node_id, call)
        if reply.standing is Standing.DONE:
            return _Answer(data=reply.data)
        return _Answer(refusal=f"the master does not do this: {reply.message}")

    async def _insist(
        self, try_it: Callable[[], Awaitable["_Answer | str"]], heard: Heard, waiting: str
    ) -> "_Answer":
        """Try until there is an answer; a text is trouble that may pass."""
        loop = asyncio.get_running_loop()
        pause_s, told_at = FIRST_PAUSE_S, float("-inf")
        while True:
            try:
                answer = await try_it()
            except Refused as error:
                return _Answer(refusal=f"the master does not do this: {error}")
            except MasterUnreachable as error:
                trouble = str(error)
            else:
                if isinstance(answer, _Answer):
                    return answer
                trouble = answer
            if loop.time() - told_at >= TELL_EVERY_S:
                told_at = loop.time()
                log.warning("a crawl waits", execution_id=heard.execution_id, error=trouble)
                heard.log(waiting, LogLevel.WARNING, {"why": trouble})
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


class _Answer(NamedTuple):
    """What the master said at last."""

    data: bytes = b""
    refusal: str = ""
    is_ended: bool = False
