"""The protocol state of the executions that a node has sent to one executor process.

A process works on the executions in the order in which they were sent, one at a time: only the
first may have begun, and it ends first. A reply out of turn is a breach of the protocol: such a
process cannot be trusted to report how the next execution went.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from crawlfleet.event_loop import report_failure
from crawlfleet.model.log import LogLevel
from crawlfleet.model.wire.node_protocol import OrderAnswer
from crawlfleet.model.wire.services import FOR_EXECUTORS, SERVICES, refused
from crawlfleet.ports.execution import Observer
from crawlfleet.worker.pool import protocol
from crawlfleet.worker.pool.output import Output

Send = Callable[[protocol.Response], object]
_LEVELS: Final = {str(level): level for level in LogLevel}


def fail_future(future: asyncio.Future[Any], error: Exception) -> None:
    """Fail a future, unless it is done or cancelled. It need not have a waiter."""
    if not future.done():
        future.set_exception(error)
        future.exception()  # or asyncio complains of an error that nobody asked for


class TimeLimitReached(Exception):
    """The execution has reached its time limit; it still has to be stopped."""


class SentExecution:
    """One execution that a process was sent."""

    __slots__ = (
        "_limit",
        "_limit_s",
        "_loop",
        "ended",
        "ending",
        "has_begun",
        "id",
        "must_stop",
        "observer",
        "pending_data",
        "requests",
        "took_s",
        "turn_at",
    )

    def __init__(
        self,
        execution_id: str,
        observer: Observer,
        limit_s: float | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.id = execution_id
        self.observer = observer
        self.has_begun = False
        self.ending: protocol.Ending | None = None
        self.must_stop = False
        self.pending_data = b""
        """The data of an incomplete request so far."""
        self.requests: set[asyncio.Task[None]] = set()
        """Requests to the master that are not answered."""
        self.turn_at = 0.0
        """Time at which the execution became the first of its process, by the loop's clock; its
        time limit counts from then."""
        self.took_s = 0.0
        self.ended: asyncio.Future[protocol.Ending] = loop.create_future()
        """Resolves to the ending of the execution. Fails with `TimeLimitReached` or with the error
        of the process."""
        self._loop = loop
        self._limit_s = limit_s
        self._limit: asyncio.TimerHandle | None = None

    def take_turn(self) -> None:
        """Start the time limit: the execution is now the first of its process."""
        self.turn_at = self._loop.time()
        if self._limit_s is not None:
            self._limit = self._loop.call_later(self._limit_s, self.fail, TimeLimitReached())

    def end(self, ending: protocol.Ending) -> None:
        self.ending = ending
        self._drop_requests()
        if self.has_begun:
            self.took_s = self._loop.time() - self.turn_at
        self._disarm()
        if not self.ended.done():
            self.ended.set_result(ending)

    def fail(self, error: Exception) -> None:
        """Fail the execution, because no ending will come from the process."""
        self._drop_requests()
        self._disarm()
        fail_future(self.ended, error)

    def listen_again(self) -> None:
        """Wait for the end again, after the waiter was cancelled or the time limit was reached."""
        self._disarm()
        self.ended = self._loop.create_future()

    def request(self, request: protocol.Request, data: bytes, send: Send) -> None:
        """Pass a request on to the master, and send the response to the process."""
        task = self._loop.create_task(self._pass_on(request, data, send), name="request")
        self.requests.add(task)
        task.add_done_callback(self._end_request)

    async def _pass_on(self, request: protocol.Request, data: bytes, send: Send) -> None:
        if request.service in FOR_EXECUTORS:
            response = await self.observer.request(request.service, request.payload, data)
        else:
            response = refused(f"there is no service {request.service!r} for executors")
        send(
            protocol.Response(
                execution_id=self.id,
                number=request.number,
                payload=response.payload,
                data=response.data,
                refusal=response.refusal,
                may_retry=response.may_retry,
            )
        )

    def _end_request(self, task: asyncio.Task[None]) -> None:
        self.requests.discard(task)
        report_failure(task)

    def _drop_requests(self) -> None:
        for task in self.requests:
            task.cancel()

    def _disarm(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


class Executions:
    """The executions that a process was sent and has not ended, in order."""

    def __init__(
        self,
        output: Output,
        *,
        on_end: Callable[[SentExecution], None],
        send: Send,
    ) -> None:
        """`send` sends the response to a request of the present execution."""
        self._open: dict[str, SentExecution] = {}
        self._output = output
        self._crossed: set[str] = set()
        """Executions that were ordered to stop but ended by themselves: the confirmation may still
        come."""
        self._on_end = on_end
        self._send = send

    def __len__(self) -> int:
        return len(self._open)

    @property
    def first(self) -> SentExecution | None:
        return next(iter(self._open.values()), None)

    def add(self, turn: SentExecution) -> None:
        self._open[turn.id] = turn
        if len(self._open) == 1:
            self._output.turn_to(turn.observer)
            turn.take_turn()

    def close(self) -> tuple[SentExecution | None, list[SentExecution]]:
        """Drop all executions. Returns the first, which may have begun, and the others, which have
        not."""
        first, *others = self._open.values() or (None,)
        self._open.clear()
        return first, [each for each in others if each is not None]

    def take(self, reply: protocol.AnyReply) -> None:
        """Handle a reply. Raises `pipe.Malformed` if it is out of turn."""
        match reply:
            case protocol.Started():
                self._begin(reply)
            case protocol.Result() | protocol.Error():
                self._end(self._the_first(reply), reply)
            case protocol.Stopped():
                self._stopped(reply)
            case protocol.Returned():
                turn = self._open.get(reply.execution_id)
                if turn is None or turn.has_begun:
                    raise _out_of_turn(reply)
                self._end(turn, reply)
            case protocol.Ready():
                raise _out_of_turn(reply)
            case _:
                self._take_note(reply)

    def _begin(self, reply: protocol.Started) -> None:
        first = self._the_first(reply)
        if first.has_begun:
            raise _out_of_turn(reply)
        first.has_begun = True
        self._output.turn_to(first.observer)
        first.observer.started()

    def _stopped(self, reply: protocol.Stopped) -> None:
        turn = self._open.get(reply.execution_id)
        if turn is not None and turn.must_stop:
            self._end(turn, reply)
        elif reply.execution_id in self._crossed:
            self._crossed.discard(reply.execution_id)
        else:
            raise _out_of_turn(reply)

    def _the_first(
        self, reply: protocol.Started | protocol.Result | protocol.Error
    ) -> SentExecution:
        first = self._open.get(reply.execution_id)
        if first is None or first is not self.first:
            raise _out_of_turn(reply)
        return first

    def _end(self, turn: SentExecution, ending: protocol.Ending) -> None:
        was_first = turn is self.first
        del self._open[turn.id]
        if turn.must_stop and not isinstance(ending, protocol.Stopped):
            self._crossed.add(turn.id)
        turn.end(ending)
        self._on_end(turn)
        if was_first and (first := self.first) is not None:
            first.take_turn()

    def _take_note(self, note: protocol.Note) -> None:
        # Late ones of an earlier execution are of no interest, and no breach.
        turn = self._open.get(note.execution_id)
        if turn is None:
            return
        match note:
            case protocol.Progress():
                turn.observer.progress(note.done, note.total)
            case protocol.Log():
                level = _LEVELS.get(note.level, LogLevel.INFO)
                turn.observer.log(note.message, level, note.fields)
            case protocol.Output():
                self._output.turn_to(turn.observer)
                self._output.take(note.text.encode())
            case protocol.Figures():
                turn.observer.figures(note.figures)
            case protocol.Answer():
                answer = OrderAnswer(number=note.number, data=note.data, error=note.error)
                turn.observer.answer(answer)
            case protocol.Request():
                self._take_request(turn, note)

    def _take_request(self, turn: SentExecution, request: protocol.Request) -> None:
        data, turn.pending_data = turn.pending_data + request.data, b""
        service = SERVICES.get(request.service)
        most = 0 if service is None else service.max_bytes
        if len(data) > max(most, protocol.MAX_DATA_BYTES):
            raise protocol.Malformed(f"a `request` with more than {most:,} bytes of data")
        if request.more:
            turn.pending_data = data
        else:
            turn.request(request, data, self._send)


def _out_of_turn(reply: protocol.AnyReply) -> protocol.Malformed:
    about = None if isinstance(reply, protocol.Ready) else reply.execution_id
    return protocol.Malformed(f"`{type(reply).__name__.lower()}` about {about} came out of turn")
