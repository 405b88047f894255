"""The messages of one executor process: orders and replies as lines, for many executions at once.

Some executions are sent ahead to a process that can queue them and has been quick lately.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from crawlfleet.ports.execution import NotBegun, Observer
from crawlfleet.worker.pool import protocol
from crawlfleet.worker.pool.executions import Executions, SentExecution, fail_future
from crawlfleet.worker.pool.output import Output

AHEAD_S: Final = 0.01
"""Seconds of work that may be sent ahead to a process: enough that it need not wait for the
node."""
SHORTEST_S: Final = 1e-5
NEWEST_SHARE: Final = 0.2
"""The weight of the newest execution against all before it, in how long they take."""


class ProcessChannel:
    """Sends orders to an executor process, and passes its replies to the executions that wait for
    them."""

    def __init__(
        self, output: Output, write: Callable[[bytes], None], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.ready: asyncio.Future[protocol.Ready] = loop.create_future()
        self.ahead = 0
        """The number of executions that may be sent ahead: none unless they have been very
        short."""
        self._output = output
        self._write = write
        self._loop = loop
        self._executions = Executions(output, on_end=self._note_end, send=self.tell)
        self._lines = protocol.Lines(protocol.MAX_REPLY_BYTES)
        self._unsent: list[protocol.Order] = []
        self._queue = 0
        """The number of executions that the process can queue."""
        self._usual_s = AHEAD_S
        """The usual duration of an execution, in seconds."""

    @property
    def under_way(self) -> int:
        """The number of executions that were sent and have not ended."""
        return len(self._executions)

    def let_queue(self, executions: int) -> None:
        """Set the number of executions that the process offers to queue."""
        self._queue = min(max(executions, 0), protocol.MAX_AHEAD)

    def send(self, order: protocol.Order) -> None:
        """Send an order with all others of this turn of the loop, so that one write wakes the child
        once."""
        if not self._unsent:
            self._loop.call_soon(self._send_all)
        self._unsent.append(order)

    def _send_all(self) -> None:
        orders, self._unsent = self._unsent, []
        self._write(protocol.encode_all(orders))

    def begin(
        self, start: protocol.Start, observer: Observer, limit_s: float | None
    ) -> SentExecution:
        """Send an execution and return its state, whose `ended` resolves at its end."""
        turn = SentExecution(start.execution_id, observer, limit_s, self._loop)
        self._executions.add(turn)
        self.send(start)
        return turn

    def tell(self, order: protocol.WorkOrder | protocol.Response) -> bool:
        """Send an order or response to the execution that runs. Returns false, without sending, if
        that is not the one meant."""
        first = self._executions.first
        present = first is not None and first.has_begun and first.id == order.execution_id
        if present:
            self.send(order)
        return present

    def hear(self, data: bytes) -> None:
        """Handle data from the process's reply pipe. Raises `pipe.Malformed` and
        `pipe.LineTooLong`."""
        for line in self._lines.feed(data):
            reply = protocol.decode_reply(line)
            if isinstance(reply, protocol.Ready) and not self.ready.done():
                self.ready.set_result(reply)
            else:
                self._executions.take(reply)

    def hear_output(self, data: bytes) -> None:
        """Handle output that the process printed."""
        if len(self._executions) > 1:
            # It cannot be told which execution printed this, and nobody must see what is another's.
            self._queue = self.ahead = 0
            self._output.turn_to(None)
        self._output.take(data)
        if not self._executions:
            self._output.end_line()  # the work is over: nothing will end the line

    def break_off(self, why: Exception) -> None:
        """Fail all executions, because no more replies will come."""
        fail_future(self.ready, why)
        first, others = self._executions.close()
        if first is not None:
            first.fail(why)
        for other in others:
            other.fail(NotBegun("its executor process is gone"))

    def _note_end(self, turn: SentExecution) -> None:
        if isinstance(turn.ending, protocol.Returned):
            self._usual_s = AHEAD_S
        else:
            took_s = max(turn.took_s, SHORTEST_S)
            self._usual_s += NEWEST_SHARE * (took_s - self._usual_s)
        self.ahead = min(self._queue, max(int(AHEAD_S / self._usual_s) - 1, 0))
        if self._output.has_open_line:
            self._loop.call_soon(self._output.end_line)
