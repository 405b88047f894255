"""Messages between a node and the master.

All of them are idempotent: a message that is lost, repeated or late changes nothing that the
fencing token and the session do not allow.
"""

from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from crawlfleet.model.bundle import MOST_TOLD, BundleRef
from crawlfleet.model.isolation import Level
from crawlfleet.model.log import LogPart, Progress
from crawlfleet.model.project import DEFAULT_CLUSTER, NodeTerms
from crawlfleet.model.resources import NOTHING, Resources, Usage
from crawlfleet.model.task import JSON_NULL, TaskError

PROTOCOL: Final = 1
"""The version of the node protocol. A master registers only nodes that speak the same one."""
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Registration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node introduces itself; with `node_id` and its own token it comes back as the same node."""

    name: str
    """1 to 255 printable characters."""
    description: str = ""
    """For people."""
    ip_address: str = ""
    """For people, and where the health endpoint is."""
    port: int = 0
    """The port of the health endpoint."""
    node_type: str = "standard"
    region: str | None = None
    cluster_id: str = DEFAULT_CLUSTER
    labels: dict[str, str] = {}
    """Texts by name."""
    capabilities: dict[str, Any] = {}
    """Flags, levels, texts or lists of texts by name."""
    resources: dict[str, float] = {}
    """Capacity: `cpu` (or `cpu_cores`), `memory_mb`, `gpu`, `network_bandwidth_mbps` (or
    `bandwidth_mbps`), `slots`; 4 slots when it names none."""
    task_types: tuple[str, ...] = ()
    """The types that the node has executors for; any when empty."""
    node_id: str | None = None
    """The id of a node that returns."""
    protocol: int = PROTOCOL
    """The version of the node protocol that the node speaks."""
    probe: bool = False
    """Whether the master may ask `http://ip_address:port/healthz` how the node is; then
    `ip_address` is an IP address."""


class Registered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    node_id: str
    registration_time: float
    initial_status: str
    session_id: str
    session_timeout_s: float
    heartbeat_interval_s: float
    node_token: str | None = None
    """Shown once, when the node is new."""
    terms: NodeTerms | None = None
    """The settings of its cluster to begin with."""
    protocol: int = PROTOCOL
    """The version of the node protocol that the master speaks."""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    resources: Usage = Usage()
    load: float = 0.0
    active_tasks: tuple[str, ...] = ()
    session_id: str | None = None
    """The session to renew; the newest of the node when it does not say."""
    configuration_version: int | None = None
    """The version of its cluster's configuration that the node runs."""
    session_timeout_s: float | None = None
    """After how much silence it stops by itself; as it was told last."""
    number: int | None = None
    """Grows from one heartbeat of a session to the next: a late copy of an earlier one, which may
    speak of another time-out, renews nothing."""
    sent_at: float | None = None
    """What the node's clock said when it sent this, in seconds since 1970."""
    environments: (
        Annotated[tuple[Digest, ...], msgspec.Meta(max_length=MOST_TOLD)] | msgspec.UnsetType
    ) = msgspec.UNSET
    """The digests of the bundles whose environments the node has, when they have changed or were
    not told for a while; all of them, each time."""


class StopOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Stop this execution and say so, even if it was never heard of."""

    execution_id: str
    task_id: str
    token: int


class HeartbeatReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    node_id: str
    timestamp: float
    status: str
    session_lost: bool = False
    """The session has ended: stop all executors and register again."""
    lost_tasks: tuple[str, ...] = ()
    """Tasks among those listed that the node no longer owns."""
    stop: tuple[StopOrder, ...] = ()
    terms: NodeTerms | None = None
    """New settings of its cluster: apply them, and name their version in the next heartbeat."""
    renew_token: bool = False
    """Fetch a new token with `:renew-token`, keep it, and use it from then on."""


class NodeToken(msgspec.Struct, frozen=True, kw_only=True):
    """A node's new token, shown once."""

    node_id: str
    node_token: str
    old_valid_until: float
    """The token before is good until then, or until the new one is used."""


class LeaseRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Long poll for work. What is assigned to the session and not in `held` is (re)delivered."""

    session_id: str
    held: tuple[str, ...] = ()
    wait_s: float = 0.0
    backlog: int = 0
    """How many executions beyond its slots may lie ready at the node."""
    keeps_connection: bool = False
    """Whether the node polls all the time, and has a connection to the master for as long as its
    process lives: once it has none, it is taken for dead."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The right and the duty to attempt a task, under its fencing token."""

    execution_id: str
    task_id: str
    token: int
    task_type: str
    parameters: msgspec.Raw
    timeout_s: float | None = None
    allocation: Resources = NOTHING
    attempt: int = 1
    parent_id: str | None = None
    """The task that it is a part of."""
    isolation: Level | None = None
    """The lowest level of isolation that it may run in; as the node sees fit when not set."""
    bundle: BundleRef | None = None
    """The code that it runs, which the node fetches with `:bundle` where it does not have it."""
    secrets: tuple[str, ...] = ()
    """The names of those that it is given; the node fetches their values with `:secrets`."""


class ExecutionOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a running execution is told or asked; its answer comes with a note.

    May come again until it is answered: a number is obeyed once.
    """

    execution_id: str
    number: int
    name: str
    arguments: dict[str, Any] = {}


class OrderAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an execution answered to an order."""

    number: int
    data: msgspec.Raw = msgspec.field(default_factory=JSON_NULL.copy)
    error: str = ""
    """Why it did not obey."""


class LeaseReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    assignments: tuple[Assignment, ...] = ()
    stop: tuple[StopOrder, ...] = ()
    orders: tuple[ExecutionOrder, ...] = ()
    draining: bool = False
    session_lost: bool = False
    warm: tuple[BundleRef, ...] = ()
    """Make the environments of these bundles ready, when there is time; what cannot be made is
    nobody's loss. Each is said once."""


class ReportKind(StrEnum):
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """The executor was stopped as ordered; it holds nothing any more."""
    RELEASED = "released"
    """Given back without being started."""


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What became of an execution; may be sent again until it is answered."""

    execution_id: str
    task_id: str
    token: int
    kind: ReportKind
    at: float
    # By a factory, where a plain value would do: no schema can be made of a raw one.
    data: msgspec.Raw = msgspec.field(default_factory=JSON_NULL.copy)
    """What was found, for `succeeded`: any JSON of at most 1 MB."""
    error: TaskError | None = None
    metrics: dict[str, float] = {}
    ran_s: float | None = None
    """For how long it ran, when its start was not reported before its end."""


class ReportBatch(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    session_id: str
    reports: tuple[Report, ...]
    knows_later: bool = False
    """Whether the node understands the answer `later`. One that does not gets no answer to its
    batch (503) while something in it has to be said again."""


class ReportOutcome(StrEnum):
    RECORDED = "recorded"
    """Durable now, or known and nothing new: forget it."""
    STALE = "stale"
    """The execution is over, or another owns the task: stop the executor and forget it."""
    LATER = "later"
    """What was found is still being measured: say it again in a second or so."""


class ReportReply(msgspec.Struct, frozen=True, kw_only=True):
    outcomes: tuple[ReportOutcome, ...]


class Note(LogPart, frozen=True, kw_only=True, omit_defaults=True):
    """What an execution said since the last note: lines, and how far it has got."""

    progress: Progress | None = None
    figures: dict[str, Any] | None = None
    """Of a crawl: the newest, as `CrawlFigures`; what cannot be read is passed over."""
    answers: tuple[OrderAnswer, ...] = ()


class NoteBatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Notes of several executions; best effort, and only sent when there is something to say."""

    session_id: str
    notes: tuple[Note, ...]


class NoteReply(msgspec.Struct, frozen=True, kw_only=True):
    """Everything else is durable now."""

    stale: tuple[str, ...] = ()
    """Executions whose lines are not taken (any more): say nothing more about them."""


class DrainOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node takes nothing new and leaves when it is empty."""

    deadline_s: Annotated[float, msgspec.Meta(ge=0, le=2_592_000)] | None = None
    """What still runs then is stopped, and goes back to the queue; `null` waits for all of it."""


class Departure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node leaves, or is made to; a session that is not the present one ends nothing."""

    session_id: str | None = None
