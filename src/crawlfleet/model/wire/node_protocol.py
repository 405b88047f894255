"""Messages between a node and the master.

All of them are idempotent: a message that is lost, repeated or late changes nothing that the
fencing token and the session do not allow.
"""

from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from crawlfleet.model.bundle import MAX_TOLD, BundleRef
from crawlfleet.model.isolation import Level
from crawlfleet.model.log import LogPart, Progress
from crawlfleet.model.project import DEFAULT_CLUSTER, NodeTerms
from crawlfleet.model.resources import NOTHING, Resources, Usage
from crawlfleet.model.task import JSON_NULL, TaskError

PROTOCOL: Final = 1
"""Version of the node protocol. A master registers only nodes with the same version."""
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Registration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node's request to register; with `node_id` and its own token it registers as the same
    node."""

    name: str
    """1 to 255 printable characters."""
    description: str = ""
    """Description for people."""
    ip_address: str = ""
    """Address for people, and of the health endpoint."""
    port: int = 0
    """The port of the health endpoint."""
    node_type: str = "standard"
    region: str | None = None
    cluster_id: str = DEFAULT_CLUSTER
    labels: dict[str, str] = {}
    """Labels: texts by name."""
    capabilities: dict[str, Any] = {}
    """Capabilities: flags, levels, texts or lists of texts by name."""
    resources: dict[str, float] = {}
    """Capacity: `cpu` (or `cpu_cores`), `memory_mb`, `gpu`, `network_bandwidth_mbps` (or
    `bandwidth_mbps`), `slots`; 4 slots when not given."""
    task_types: tuple[str, ...] = ()
    """Task types that the node has executors for; any when empty."""
    node_id: str | None = None
    """The id of a node that returns."""
    protocol: int = PROTOCOL
    """The version of the node protocol that the node speaks."""
    probe: bool = False
    """True if the master may probe `http://ip_address:port/healthz`; `ip_address` must then be an
    IP address."""


class Registered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    node_id: str
    registration_time: float
    initial_status: str
    session_id: str
    session_timeout_s: float
    heartbeat_interval_s: float
    node_token: str | None = None
    """The node's token, shown once, when the node is new."""
    terms: NodeTerms | None = None
    """Settings of its cluster."""
    protocol: int = PROTOCOL
    """The version of the node protocol that the master speaks."""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    resources: Usage = Usage()
    load: float = 0.0
    active_tasks: tuple[str, ...] = ()
    session_id: str | None = None
    """Session to renew; the newest of the node when not set."""
    configuration_version: int | None = None
    """The version of its cluster's configuration that the node runs."""
    session_timeout_s: float | None = None
    """Seconds of silence after which the node stops its work by itself, as last received."""
    number: int | None = None
    """Number that increases with each heartbeat of a session: a late copy of an earlier one, which
    may have another timeout, renews nothing."""
    sent_at: float | None = None
    """Time of the node's clock at sending, in seconds since 1970."""
    environments: (
        Annotated[tuple[Digest, ...], msgspec.Meta(max_length=MAX_TOLD)] | msgspec.UnsetType
    ) = msgspec.UNSET
    """Digests of all bundles whose environments the node has; sent after a change and from time to
    time."""


class StopOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An order to stop this execution and report it, even if the node does not know it."""

    execution_id: str
    task_id: str
    token: int


class HeartbeatReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    node_id: str
    timestamp: float
    status: str
    session_lost: bool = False
    """The session has ended: the node must stop all executors and register again."""
    lost_tasks: tuple[str, ...] = ()
    """Tasks of `active_tasks` that the node does not own any more."""
    stop: tuple[StopOrder, ...] = ()
    terms: NodeTerms | None = None
    """New settings of its cluster: the node applies them and reports their version with its next
    heartbeat."""
    renew_token: bool = False
    """True if the node must fetch a new token with `:renew-token`, store it, and use it from then
    on."""


class NodeToken(msgspec.Struct, frozen=True, kw_only=True):
    """A node's new token, shown once."""

    node_id: str
    node_token: str
    old_valid_until: float
    """Time until which the previous token is valid, unless the new one is used earlier."""


class LeaseRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A long poll for work. Assignments of the session that are not in `held` are sent (again)."""

    session_id: str
    held: tuple[str, ...] = ()
    wait_s: float = 0.0
    backlog: int = 0
    """Maximum number of executions that may wait at the node in addition to its slots."""
    keeps_connection: bool = False
    """True if the node polls all the time, so that it has a connection while its process lives;
    without one, the master considers it dead."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An assignment of a task to a node, under a fencing token."""

    execution_id: str
    task_id: str
    token: int
    task_type: str
    parameters: msgspec.Raw
    timeout_s: float | None = None
    allocation: Resources = NOTHING
    attempt: int = 1
    parent_id: str | None = None
    """Task that this task is a shard of."""
    isolation: Level | None = None
    """Minimum isolation; the node decides when not set."""
    bundle: BundleRef | None = None
    """Code that the task runs; the node fetches it with `:bundle` if it does not have it."""
    secrets: tuple[str, ...] = ()
    """Names of the secrets that the task gets; the node fetches their values with `:secrets`."""


class ExecutionOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An order to a running execution; its answer comes with a note.

    May come again until it is answered: a number is obeyed once.
    """

    execution_id: str
    number: int
    name: str
    arguments: dict[str, Any] = {}


class OrderAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An execution's answer to an order."""

    number: int
    data: msgspec.Raw = msgspec.field(default_factory=JSON_NULL.copy)
    error: str = ""
    """Reason why the execution did not carry out the order."""


class LeaseReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    assignments: tuple[Assignment, ...] = ()
    stop: tuple[StopOrder, ...] = ()
    orders: tuple[ExecutionOrder, ...] = ()
    draining: bool = False
    session_lost: bool = False
    warm: tuple[BundleRef, ...] = ()
    """Bundles whose environments the node should prepare when it has time; failures do no harm.
    Each bundle is sent once."""


class ReportKind(StrEnum):
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """The executor was stopped as ordered and holds no resources any more."""
    RELEASED = "released"
    """The assignment was given back without being started."""


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The result of an execution; it may be sent again until it is answered."""

    execution_id: str
    task_id: str
    token: int
    kind: ReportKind
    at: float
    # By a factory, where a plain value would do: no schema can be made of a raw one.
    data: msgspec.Raw = msgspec.field(default_factory=JSON_NULL.copy)
    """Result for `succeeded`: any JSON of at most 1 MB."""
    error: TaskError | None = None
    metrics: dict[str, float] = {}
    ran_s: float | None = None
    """Duration of the execution, when its start was not reported before its end."""


class ReportBatch(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    session_id: str
    reports: tuple[Report, ...]
    knows_later: bool = False
    """True if the node understands the answer `later`. Other nodes get no answer to the whole batch
    (503) while a report in it has to be sent again."""


class ReportOutcome(StrEnum):
    RECORDED = "recorded"
    """The report is durable, or was known already: the node may forget it."""
    STALE = "stale"
    """The execution is over, or another node owns the task: the node must stop the executor and
    forget the report."""
    LATER = "later"
    """The items are still being measured: the node must send the report again in about a second."""


class ReportReply(msgspec.Struct, frozen=True, kw_only=True):
    outcomes: tuple[ReportOutcome, ...]


class Note(LogPart, frozen=True, kw_only=True, omit_defaults=True):
    """New lines and progress of an execution since its last note."""

    progress: Progress | None = None
    figures: dict[str, Any] | None = None
    """Newest figures of a crawl, as `CrawlFigures`; unreadable figures are ignored."""
    answers: tuple[OrderAnswer, ...] = ()


class NoteBatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Notes of several executions; best effort, and only sent when there are any."""

    session_id: str
    notes: tuple[Note, ...]


class NoteReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a batch of notes: all notes except those of `stale` executions are durable."""

    stale: tuple[str, ...] = ()
    """Executions whose lines are not stored (any more): the node must send no more of them."""


class DrainOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An order to drain a node: it takes no new work and leaves when its work is done."""

    deadline_s: Annotated[float, msgspec.Meta(ge=0, le=2_592_000)] | None = None
    """Seconds after which running work is stopped and returned to the queue; `null` waits for all
    of it."""


class Departure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node leaves or is removed; if `session_id` is not its present session, nothing happens."""

    session_id: str | None = None
