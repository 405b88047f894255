"""Doing the work: executors, the pool that runs them, and the node's link to the master."""

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
    """Others settled what counts of this execution's output, and the master takes no more of it.
    The next attempt goes on from there; this execution did nothing wrong."""

    error_class: ClassVar = ErrorClass.LOST


OrderHandler = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Carries out an order, given by its name and arguments; the answer is what it returns, as JSON."""


class CrawlContext(Context, Protocol):
    """The further calls that a crawl may make, where its node and master offer them."""

    execution_id: str
    parent_id: str | None
    """The task that this one is a part of; all its parts work for one crawl."""
    stores_output: bool
    """Whether the node passes segments on to the master."""
    reaches_frontier: bool
    """Whether the node passes requests on to the frontier at the master."""
    ledger: Ledger | None
    """The fleet's politeness ledger; `None` where the node passes nothing on to it."""

    async def figures(self, figures: CrawlFigures) -> None:
        """Publish the newest figures of the crawl."""
        ...

    def handle_orders(self, handler: OrderHandler) -> None:
        """Have the handler carry out the orders that reach the work while it runs."""
        ...

    async def store_segment(self, stream: Stream, segment: Segment, data: bytes) -> None:
        """Hand a segment of output to the master; it is durable there when this returns, however
        long that takes. Raises `SinkUnusable` when the master does not take it, and `RunCutOff`
        when it takes nothing of this execution any more."""
        ...

    async def ask_frontier(self, data: bytes) -> bytes:
        """Send a request to the frontier that the master has of this crawl, and return the answer,
        however long that takes. Raises `FrontierRefused`."""
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

    async def request(
        self, service: str, payload: msgspec.Raw = JSON_NULL, data: bytes = b""
    ) -> ServiceResponse:
        """Request something of the master in the name of the execution, however long that takes.
        The response says why when it is not to be had."""
        ...


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
        """Pass on logs, progress, figures and answers of executions; may raise `Refused`."""
        ...

    async def request(self, node_id: str, service: str, request: ServiceRequest) -> ServiceResponse:
        """Send a request to a service of the master; raises `Refused` when it cannot be read."""
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
