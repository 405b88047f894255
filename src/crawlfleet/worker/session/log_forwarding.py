"""Forwards the logs, progress and figures of executions: best effort, bounded, and never in their
way.

Taking a line costs a few microseconds and never waits. Lines go to the master in batches, one at a
time. While the master is slow or away, lines are buffered up to a limit; beyond it the middle of a
log is dropped. An execution that logs nothing costs no message.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from crawlfleet.core.logs.notebook import Notebook
from crawlfleet.errors import MasterUnreachable, Refused
from crawlfleet.model.log import LogLevel, Progress
from crawlfleet.model.task import JSON_NULL
from crawlfleet.model.wire.node_protocol import Assignment, Note, NoteBatch, OrderAnswer
from crawlfleet.model.wire.services import ServiceResponse, refused
from crawlfleet.ports.execution import ControlLink
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.WORKER)
LOG_BYTES: Final = 1_000_000
GATHER_S: Final = 0.1
"""Seconds for which lines are gathered before each batch."""
LINES_AT_ONCE: Final = 1_000
BYTES_AT_ONCE: Final = 250_000
FIGURES_BYTES: Final = 5_000
"""Approximate size of the figures of one crawl."""
EXECUTIONS_AT_ONCE: Final = 200
UNSENT_BYTES: Final = 16_000_000
"""Maximum size of all logs in memory: a master that is away for long must not cost this node its
memory."""
FIRST_PAUSE_S: Final = 0.5
MAX_PAUSE_S: Final = 10.0
LAST_WORDS_S: Final = 1.0


class RequestRelay(Protocol):
    """Relays requests of executions to the master."""

    async def request(
        self, observer: "ExecutionObserver", service: str, payload: msgspec.Raw, data: bytes
    ) -> ServiceResponse:
        """Return the master's response, however long it takes."""
        ...


class ExecutionObserver:
    """The `Observer` of one execution."""

    __slots__ = (
        "_begin",
        "_logs",
        "_relay",
        "answers",
        "assignment",
        "book",
        "closed",
        "execution_id",
        "last_figures",
        "newest",
    )

    def __init__(
        self,
        notes: "LogForwarder",
        assignment: Assignment,
        begin: Callable[[Assignment], None],
        relay: RequestRelay | None,
    ) -> None:
        self.assignment = assignment
        self.execution_id = assignment.execution_id
        self.book: Notebook | None = None
        self.newest: Progress | None = None
        self.last_figures: dict[str, Any] | None = None
        self.answers: list[OrderAnswer] = []
        """Answers that the master has not confirmed."""
        self.closed = False
        """True when the master takes no more of its log."""
        self._logs = notes
        self._begin = begin
        self._relay = relay

    def started(self) -> None:
        self._begin(self.assignment)

    def progress(self, done: float, total: float | None) -> None:
        self.newest = Progress(done=done, total=total, at=self._logs.now())
        self._logs.put(self, progress=True)

    def log(self, message: str, level: LogLevel, fields: Mapping[str, Any]) -> None:
        if self.closed:
            return
        if self.book is None:
            self.book = Notebook(self.execution_id, self._logs.cap_bytes)
        before = self.book.unsent_bytes
        self.book.write(message, level, fields, self._logs.now())
        self._logs.put(self, size=self.book.unsent_bytes - before)

    def figures(self, figures: dict[str, Any]) -> None:
        self.last_figures = figures
        self._logs.put(self, figures=True)

    def answer(self, answer: OrderAnswer) -> None:
        self.answers.append(answer)
        self._logs.put(self)

    async def request(
        self, service: str, payload: msgspec.Raw = JSON_NULL, data: bytes = b""
    ) -> ServiceResponse:
        if self._relay is None:
            return refused("no master can be asked here")
        return await self._relay.request(self, service, payload, data)

    def metrics(self) -> dict[str, float]:
        """Return the last progress as metrics, to be kept with the end of the execution."""
        if self.newest is None:
            return {}
        total = {} if self.newest.total is None else {"progress_total": self.newest.total}
        return {"progress_done": self.newest.done, **total}


class LogForwarder:
    """Buffers the messages of a session's executions, and sends them for as long as it runs."""

    def __init__(
        self,
        *,
        link: ControlLink,
        system: System,
        node_id: str,
        session_id: str,
        cap_bytes: int = LOG_BYTES,
    ) -> None:
        self._link = link
        self.now = system.now
        self.node_id = node_id
        self.session_id = session_id
        self.cap_bytes = cap_bytes
        self._waiting: dict[str, ExecutionObserver] = {}
        """Observers of executions with unsent messages; the one that was served last comes last."""
        self._moved: set[str] = set()
        """Executions whose progress the master does not know."""
        self._counted: set[str] = set()
        """Executions whose newest figures the master does not know."""
        self._unsent_bytes = 0
        self._something = asyncio.Event()
        self._refused = False

    def observe(
        self,
        assignment: Assignment,
        begin: Callable[[Assignment], None],
        relay: RequestRelay | None = None,
    ) -> ExecutionObserver:
        """Return an observer of an execution; `begin` is called when its work begins."""
        return ExecutionObserver(self, assignment, begin, relay)

    def put(
        self,
        observer: ExecutionObserver,
        *,
        size: int = 0,
        progress: bool = False,
        figures: bool = False,
    ) -> None:
        """Queue unsent messages of an execution: `size` more bytes, its progress, its figures, or
        an answer."""
        if self._refused:
            observer.closed = True
            return
        if progress:
            self._moved.add(observer.execution_id)
        if figures:
            self._counted.add(observer.execution_id)
        self._unsent_bytes += size
        if observer.execution_id not in self._waiting:
            self._waiting[observer.execution_id] = observer
            self._something.set()
        while self._unsent_bytes > UNSENT_BYTES and len(self._waiting) > 1:
            self._forget(next(iter(self._waiting.values())))

    async def run(self) -> None:
        """Send messages until the master refuses them. While it is away, sending is retried."""
        pause_s = FIRST_PAUSE_S
        while not self._refused:
            await self._something.wait()
            await asyncio.sleep(GATHER_S)
            try:
                await self._send()
            except MasterUnreachable:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, MAX_PAUSE_S)
            else:
                pause_s = FIRST_PAUSE_S
            if not self._waiting:
                self._something.clear()

    async def finish(self) -> None:
        """Send the remaining messages, if that is quick."""
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                while self._waiting and not self._refused:
                    await self._send()
        except (MasterUnreachable, TimeoutError) as error:
            log.warning("the end of some logs was not sent", error=str(error) or "no answer")

    async def _send(self) -> None:
        sent = self._portion()
        batch = NoteBatch(session_id=self.session_id, notes=tuple(note for _, note in sent))
        try:
            reply = await self._link.note(self.node_id, batch)
        except Refused as error:
            # The work goes on without logs and progress.
            log.warning("logs and progress are not taken by the master", error=str(error))
            self._refused = True
            self._waiting.clear()
            self._moved.clear()
            self._counted.clear()
            return
        for observer, note in sent:
            self._confirm(observer, note, stale=observer.execution_id in reply.stale)

    def _portion(self) -> list[tuple[ExecutionObserver, Note]]:
        """Return the messages that fit into one request; executions that have waited longest come
        first."""
        sent: list[tuple[ExecutionObserver, Note]] = []
        lines, size = LINES_AT_ONCE, BYTES_AT_ONCE
        for observer in self._waiting.values():
            id = observer.execution_id
            figures = observer.last_figures if id in self._counted else None
            note = Note(
                execution_id=id,
                progress=observer.newest if id in self._moved else None,
                figures=figures,
                answers=tuple(observer.answers),
            )
            size -= 0 if figures is None else FIGURES_BYTES
            size -= sum(memoryview(answer.data).nbytes for answer in observer.answers)
            if observer.book is not None:
                part, taken = observer.book.news(most_lines=lines, most_bytes=max(size, 0))
                note = msgspec.structs.replace(note, lines=part.lines, left_out=part.left_out)
                lines -= len(part.lines)
                size -= taken
            sent.append((observer, note))
            if lines <= 0 or size <= 0 or len(sent) >= EXECUTIONS_AT_ONCE:
                break
        return sent

    def _confirm(self, observer: ExecutionObserver, note: Note, *, stale: bool) -> None:
        if stale:
            self._close(observer)
            return
        if note.progress is observer.newest:
            self._moved.discard(observer.execution_id)
        if note.figures is observer.last_figures:
            self._counted.discard(observer.execution_id)
        del observer.answers[: len(note.answers)]
        self._waiting.pop(observer.execution_id, None)
        more = bool(observer.answers) or observer.execution_id in self._moved | self._counted
        if observer.book is not None and not observer.closed:
            before = observer.book.unsent_bytes
            observer.book.confirm(note)
            self._unsent_bytes += observer.book.unsent_bytes - before
            more = more or observer.book.has_news
        if more:
            self._waiting[observer.execution_id] = observer

    def _close(self, observer: ExecutionObserver) -> None:
        """Drop the messages of an execution, and take no more of them."""
        self._waiting.pop(observer.execution_id, None)
        self._moved.discard(observer.execution_id)
        self._counted.discard(observer.execution_id)
        if observer.book is not None and not observer.closed:
            self._unsent_bytes -= observer.book.unsent_bytes
        observer.closed = True

    def _forget(self, observer: ExecutionObserver) -> None:
        self._close(observer)
        log.warning("a log waited too long and is cut short", execution_id=observer.execution_id)
