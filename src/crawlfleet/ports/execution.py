"""Doing the work: executors, the pool that runs them, and the node's link to the master."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, ClassVar, Protocol

import msgspec

from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.bundle import BundleCall, BundleReply
from crawlfleet.model.crawl.figures import CrawlFigures
from crawlfleet.model.log import LogLevel
from crawlfleet.model.secret import SecretCall, SecretReply
from crawlfleet.model.task import ErrorClass, TaskError
from crawlfleet.model.wire.execution_requests import Finding, Inquiry, InquiryCall
from crawlfleet.model.wire.frontier import FrontierCall, FrontierReply
from crawlfleet.model.wire.node_protocol import (
    Assignment,
    ExecutionOrder,
    Heartbeat,
    HeartbeatReply,
    LeaseReply,
    LeaseRequest,
    NoteBatch,
    NoteReply,
    OrderAnswer,
    Registered,
    Registration,
    ReportBatch,
    ReportReply,
)
from crawlfleet.model.wire.output import Segment, SegmentReply, SegmentUpload, Stream
from crawlfleet.ports.ledger import Ledger
from crawlfleet.ports.locks import Lock


class Context(Protocol):
    """What an executor may ask of its surroundings while it works."""

    task_id: str
    attempt: int
    secrets: Mapping[str, str]
    """Those that the task declares, by name; code also finds them in `os.environ`."""

    async def log(self, message: str, *, level: str = "info", **fields: Any) -> None:
        """A line in the log of this execution: `debug`, `info`, `warning` or `error`."""
        ...

    async def progress(self, done: float, total: float | None = None) -> None:
        """How far the work has got, for people who watch."""
        ...

    def lock(self, name: str, *, lease_s: float = 30.0, wait_s: float | None = None) -> Lock:
        """A lock of the whole fleet, to be entered with `async with`; one name for all executions
        of the project. It is renewed while the block runs, and free when it ends, or `lease_s`
        after the process died. Who will not wait longer than `wait_s` gets `LockBusy`."""
        ...


class RunCutOff(CrawlfleetError):
    """Others have settled what counts of this execution's output, and no more is taken: the next
    attempt goes on from there. That this one came to nothing is not its fault."""

    error_class: ClassVar = ErrorClass.LOST


Obey = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Does what an order says, by its name and arguments; what it returns is the answer, as JSON."""


class CrawlContext(Context, Protocol):
    """What a crawl may ask beyond that, where its node and master offer it."""

    execution_id: str
    parent_id: str | None
    """The task that this one is a part of; they work for one crawl."""
    keeps_output: bool
    """Whether the node takes segments; without it the others here do nothing either."""

    ledger: Ledger | None
    """Who is asked when a host may be visited; `None` where the node passes nothing on."""

    async def figures(self, figures: CrawlFigures) -> None:
        """The newest figures, for people who watch."""
        ...

    def obey(self, obey: Obey) -> None:
        """Whom to tell what people order while the work runs."""
        ...

    async def keep(self, stream: Stream, segment: Segment, data: bytes) -> None:
        """Have a piece of output kept by the master; durable there when this returns, however
        long that takes. Raises `SinkUnusable` when it is not taken, and `RunCutOff` when nothing
        of this execution is any more."""
        ...

    keeps_frontiers: bool
    """Whether the node passes on what is asked of a frontier."""

    async def ask_frontier(self, data: bytes) -> bytes:
        """What the master that keeps the frontier of this crawl answers, however long that takes.
        Raises `FrontierRefused` when it will not."""
        ...


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """A result with figures of the work, which appear among the metrics of the task's result."""

    data: Any = None
    metrics: Mapping[str, float] = {}


class Executor(Protocol):
    """Runs one task type. A class with a `Parameters` struct and an async `run`.

    `run` returns any JSON-encodable value, or one with figures (`Measured`), raises to fail, and
    lets `CancelledError` pass.
    """

    Parameters: ClassVar[type[msgspec.Struct]]

    async def run(self, parameters: Any, context: Context) -> Any: ...


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution ended: exactly one of `data` and `error` is set."""

    data: msgspec.Raw | None = None
    error: TaskError | None = None
    metrics: dict[str, float] = {}


class Observer(Protocol):
    """Hears what an execution says of itself while it runs."""

    def started(self) -> None:
        """The work begins; called once. Neither waits nor raises."""
        ...

    def progress(self, done: float, total: float | None) -> None:
        """How far it has got. Neither waits nor raises, like all of these: the work must not
        stall."""
        ...

    def log(self, message: str, level: LogLevel, fields: Mapping[str, Any]) -> None:
        """A line. The last ones may come shortly after the end."""
        ...

    def figures(self, figures: dict[str, Any]) -> None:
        """The newest figures of a crawl."""
        ...

    def answer(self, answer: OrderAnswer) -> None:
        """What it answered to an order."""
        ...

    def asks(self, number: int, data: bytes) -> bool:
        """Something is asked of the frontier that the master keeps; whether it is on its way
        there. The answer is told by `ExecutorPool.answer`."""
        ...

    def segment(self, stream: Stream, segment: Segment, data: bytes) -> bool:
        """A piece of output that the master is to keep; whether it is on its way there. What
        became of it is told by `ExecutorPool.confirm`."""
        ...

    def inquire(self, number: int, inquiry: Inquiry) -> bool:
        """Something that the fleet is asked; whether it is on its way there. The answer is told
        by `ExecutorPool.inform`."""
        ...

    async def code(self) -> bytes:
        """The archive of its bundle, however long that takes; raises `NoCode`."""
        ...

    async def secrets(self) -> Mapping[str, str]:
        """The values that its task declares, by name, however long that takes; raises
        `NoSecrets`."""
        ...


class NoSecrets(Exception):
    """The secrets of an execution are not to be had; the message says why."""


class NoCode(Exception):
    """The code of an execution is not to be had; the message says why."""


class NotBegun(Exception):
    """An execution was sent ahead and handed back: nothing of it was done."""


class ExecutorPool(Protocol):
    """Runs assignments somewhere apart from the agent."""

    @property
    def task_types(self) -> tuple[str, ...]:
        """The types it has executors for."""
        ...

    @property
    def ahead(self) -> int:
        """How many executions beyond its slots it can take now, to begin them within milliseconds.

        None unless those of late have been that short.
        """
        ...

    async def run(
        self, assignment: Assignment, observer: Observer, *, ahead: bool = False
    ) -> Attempt:
        """Run it to its end; a failing or dying executor is an `Attempt` with an error.

        Tells the observer what it hears. When the caller cancels this call, the executor is
        stopped, by force if need be, before the cancellation comes through. What is sent `ahead`
        is not waited for: raises `NotBegun` when it turns out that it cannot begin soon.
        """
        ...

    def order(self, order: ExecutionOrder) -> bool:
        """Pass on an order to what runs; whether there is anybody who could obey."""
        ...

    def confirm(
        self,
        execution_id: str,
        stream: Stream,
        sequence: int,
        refusal: str = "",
        *,
        is_ended: bool = False,
    ) -> None:
        """Say that a segment is kept, or why it is not taken: for this once, or since the run
        `is_ended`. Nobody may be there to hear it."""
        ...

    def answer(self, execution_id: str, number: int, data: bytes, refusal: str = "") -> None:
        """What came of something that was asked of a frontier; nobody may be there to hear it."""
        ...

    def inform(self, execution_id: str, number: int, finding: Finding) -> None:
        """What came of something that the fleet was asked; nobody may be there to hear it."""
        ...

    async def close(self) -> None:
        """Stop all executors, by force if need be. May be called twice."""
        ...


class ControlLink(Protocol):
    """A node's way to the master; the control plane itself, or HTTP.

    Every method may raise `MasterUnreachable` with the outcome unknown; calling again is safe.
    """

    async def register(self, registration: Registration, node_token: str | None) -> Registered:
        """Introduce the node; a node that comes back shows its token.

        Raises `Refused` when the master does not know it any more, or will not have it, and
        `Conflict` when it is registering twice at once.
        """
        ...

    async def heartbeat(self, node_id: str, heartbeat: Heartbeat) -> HeartbeatReply: ...

    async def lease(self, node_id: str, request: LeaseRequest) -> LeaseReply:
        """Waits up to `wait_s` for work or orders; an empty lease when there were none."""
        ...

    async def report(self, node_id: str, batch: ReportBatch) -> ReportReply:
        """Say what became of executions; also for a session of an earlier life, before the
        registration that ends it."""
        ...

    async def note(self, node_id: str, batch: NoteBatch) -> NoteReply:
        """Pass on what executions said; a master that is older raises `Refused`."""
        ...

    async def keep(self, node_id: str, upload: SegmentUpload) -> SegmentReply:
        """Hand over output; a master that is older raises `Refused`."""
        ...

    async def frontier(self, node_id: str, call: FrontierCall) -> FrontierReply:
        """Ask the frontier that the master keeps of a crawl; an older master raises `Refused`."""
        ...

    async def inquire(self, node_id: str, call: InquiryCall) -> Finding:
        """Ask for a lock, or when a host may be visited; an older master raises `Refused`."""
        ...

    async def bundle(self, node_id: str, call: BundleCall) -> BundleReply:
        """Fetch the code of an execution; a master that is older raises `Refused`."""
        ...

    async def secrets(self, node_id: str, call: SecretCall) -> SecretReply:
        """Fetch the secrets of an execution; a master that is older raises `Refused`."""
        ...

    async def drain(self, node_id: str, deadline_s: float) -> None:
        """Ask for nothing new, and to be let go when what runs has ended, or after so long."""
        ...

    async def leave(self, node_id: str, session_id: str) -> None:
        """Say good-bye: the session ends now and not by silence; a newer one stays."""
        ...


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who a node is; with it, it comes back as the same node after a restart."""

    node_id: str
    node_token: str
    master_pin: str = ""
    """Fingerprint of the master's public key, where the join token told it."""


class IdentityKeeper(Protocol):
    """Where a node keeps its identity between its lives."""

    def load(self) -> Identity | None:
        """The identity that was adopted last, or `None`."""
        ...

    def adopt(self, identity: Identity) -> None:
        """Be this one from now on; durable when this returns, or as soon as the disk takes it."""
        ...


class ReportKeeper(Protocol):
    """Where finished work waits while no master answers, also between a node's lives."""

    @property
    def is_full(self) -> bool:
        """Whether the node should take no more work for now."""
        ...

    def waiting(self) -> list[tuple[str, ReportBatch]]:
        """All that was kept and not forgotten: for each node and session its reports in order."""
        ...

    async def keep(self, node_id: str, batch: ReportBatch) -> None:
        """Remember reports; durable when this returns, if that is possible at all.

        Never raises: a node with a full disk works on.
        """
        ...

    async def forget(self, execution_ids: Collection[str]) -> None:
        """These were answered. Unknown ones are no error."""
        ...
