"""The ports of execution: executors, the pool that runs them, and the node's link to the master."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, ClassVar, Protocol

import msgspec

from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.crawl.figures import CrawlFigures
from crawlfleet.model.log import LogLevel
from crawlfleet.model.task import JSON_NULL, ErrorClass, TaskError
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
from crawlfleet.model.wire.output import Segment, Stream
from crawlfleet.model.wire.services import ServiceRequest, ServiceResponse
from crawlfleet.ports.ledger import Ledger
from crawlfleet.ports.locks import Lock


class Context(Protocol):
    """The calls that an executor may make while it works."""

    task_id: str
    attempt: int
    secrets: Mapping[str, str]
    """Values of the secrets that the task declares, by name; code also finds them in
    `os.environ`.
    """

    async def log(self, message: str, *, level: str = "info", **fields: Any) -> None:
        """Write a line to the log of this execution, at `debug`, `info`, `warning` or `error`."""
        ...

    async def progress(self, done: float, total: float | None = None) -> None:
        """Report how much of the work is done, for people who watch."""
        ...

    def lock(self, name: str, *, lease_s: float = 30.0, wait_s: float | None = None) -> Lock:
        """Return a lock of the whole fleet, for `async with`; a name is one lock for all executions
        of the project. The lock is renewed while the block runs, and free when it ends, or
        `lease_s` after the process died. Entering raises `LockBusy` if the lock is not free within
        `wait_s`.
        """
        ...


class RunCutOff(CrawlfleetError):
    """The master takes no more output of this execution: it has settled which part counts. The next
    attempt goes on from there; this execution did nothing wrong.
    """

    error_class: ClassVar = ErrorClass.LOST


OrderHandler = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Carries out an order, given by its name and arguments; its return value, as JSON, is the
answer.
"""


class CrawlContext(Context, Protocol):
    """The further calls that a crawl may make, where its node and master offer them."""

    execution_id: str
    parent_id: str | None
    """The task that this one is a part of; all its parts work for one crawl."""
    stores_output: bool
    """Set if the node passes segments on to the master."""
    reaches_frontier: bool
    """Set if the node passes requests on to the frontier at the master."""
    ledger: Ledger | None
    """The fleet's politeness ledger; `None` where the node passes nothing on to it."""

    async def figures(self, figures: CrawlFigures) -> None:
        """Publish the newest figures of the crawl."""
        ...

    def handle_orders(self, handler: OrderHandler) -> None:
        """Have the handler carry out the orders that reach the work while it runs."""
        ...

    async def store_segment(self, stream: Stream, segment: Segment, data: bytes) -> None:
        """Send a segment of output to the master, however long that takes; the segment is durable
        there when this returns. Raises `SinkUnusable` when the master does not take it, and
        `RunCutOff` when the master takes nothing of this execution any more.
        """
        ...

    async def ask_frontier(self, data: bytes) -> bytes:
        """Send a request to this crawl's frontier at the master, and return the answer, however
        long that takes. Raises `FrontierRefused`.
        """
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
    """The end of an execution: exactly one of `data` and `error` is set."""

    data: msgspec.Raw | None = None
    error: TaskError | None = None
    metrics: dict[str, float] = {}


class Observer(Protocol):
    """Receives the reports of an execution while it runs. Its methods neither wait nor raise,
    except `request`: the work must not stall.
    """

    def started(self) -> None:
        """Note that the work begins; called once."""
        ...

    def progress(self, done: float, total: float | None) -> None:
        """Note the progress of the execution."""
        ...

    def log(self, message: str, level: LogLevel, fields: Mapping[str, Any]) -> None:
        """Take a log line. The last lines may come shortly after the end."""
        ...

    def figures(self, figures: dict[str, Any]) -> None:
        """Take the newest figures of a crawl."""
        ...

    def answer(self, answer: OrderAnswer) -> None:
        """Take the execution's answer to an order."""
        ...

    async def request(
        self, service: str, payload: msgspec.Raw = JSON_NULL, data: bytes = b""
    ) -> ServiceResponse:
        """Send a request to the master for the execution, however long that takes. A refusal is in
        the response, with its reason.
        """
        ...


class NotBegun(Exception):
    """Raised for an execution that was sent ahead and handed back: it did not begin."""


class ExecutorPool(Protocol):
    """Runs assignments in processes apart from the agent."""

    @property
    def task_types(self) -> tuple[str, ...]:
        """The task types for which the pool has executors."""
        ...

    @property
    def ahead(self) -> int:
        """Number of executions beyond its slots that the pool can begin within milliseconds.

        It is 0 unless recent executions were that short.
        """
        ...

    async def run(
        self, assignment: Assignment, observer: Observer, *, ahead: bool = False
    ) -> Attempt:
        """Run an assignment to its end; a failing or dying executor is an `Attempt` with an error.

        Reports of the execution go to the observer. When the caller cancels this call, the executor
        is stopped, by force if need be, before the cancellation comes through. With `ahead`,
        nothing waits for the execution: raises `NotBegun` when it cannot begin soon.
        """
        ...

    def order(self, order: ExecutionOrder) -> bool:
        """Pass an order on to its execution; returns `False` if nothing here could carry it out."""
        ...

    async def close(self) -> None:
        """Stop all executors, by force if need be. May be called twice."""
        ...


class ControlLink(Protocol):
    """A node's connection to the master: the control plane in the same process, or HTTP.

    Every method may raise `MasterUnreachable` with the outcome unknown; calling again is safe.
    """

    async def register(self, registration: Registration, node_token: str | None) -> Registered:
        """Register the node; a node that comes back shows its token.

        Raises `Refused` when the master does not know the node any more, or does not accept it, and
        `Conflict` when the node registers twice at once.
        """
        ...

    async def heartbeat(self, node_id: str, heartbeat: Heartbeat) -> HeartbeatReply: ...

    async def lease(self, node_id: str, request: LeaseRequest) -> LeaseReply:
        """Wait up to `wait_s` for work or orders; returns an empty reply when there were none."""
        ...

    async def report(self, node_id: str, batch: ReportBatch) -> ReportReply:
        """Report the outcomes of executions; also for an earlier session, before the registration
        that ends it.
        """
        ...

    async def note(self, node_id: str, batch: NoteBatch) -> NoteReply:
        """Send logs, progress, figures and answers of executions; may raise `Refused`."""
        ...

    async def request(self, node_id: str, service: str, request: ServiceRequest) -> ServiceResponse:
        """Send a request to a service of the master; raises `Refused` when it cannot be read."""
        ...

    async def drain(self, node_id: str, deadline_s: float) -> None:
        """Ask the master for no new work, and to end the session when running work has ended, or
        after `deadline_s`.
        """
        ...

    async def leave(self, node_id: str, session_id: str) -> None:
        """End the session now rather than by its timeout; a newer session stays."""
        ...


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a node; with it the node comes back as the same after a restart."""

    node_id: str
    node_token: str
    master_pin: str = ""
    """Fingerprint of the master's public key, if the join token has it."""


class IdentityKeeper(Protocol):
    """Stores a node's identity across restarts."""

    def load(self) -> Identity | None:
        """Return the identity that was adopted last, or `None`."""
        ...

    def adopt(self, identity: Identity) -> None:
        """Use this identity from now on; durable when this returns, or as soon as the disk takes
        it.
        """
        ...


class ReportKeeper(Protocol):
    """Stores reports while no master answers, also across restarts of the node."""

    @property
    def is_full(self) -> bool:
        """True while the node should take no more work."""
        ...

    def waiting(self) -> list[tuple[str, ReportBatch]]:
        """Return all kept reports that were not forgotten: in order for each node and session."""
        ...

    async def keep(self, node_id: str, batch: ReportBatch) -> None:
        """Keep reports; durable when this returns, if that is possible at all.

        Never raises: a node with a full disk works on.
        """
        ...

    async def forget(self, execution_ids: Collection[str]) -> None:
        """Drop the reports of these executions, which were answered. Unknown ids are no error."""
        ...
