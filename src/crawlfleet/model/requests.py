"""Requests of the API about tasks, nodes and keys."""

from typing import Annotated, Any, Final

import msgspec

from crawlfleet.model.isolation import DEMANDED, Level
from crawlfleet.model.key import Role
from crawlfleet.model.project import DEFAULT_CLUSTER, DEFAULT_PROJECT
from crawlfleet.model.quality import Expectations
from crawlfleet.model.task import (
    DEFAULT_PRIORITY,
    EMPTY_OBJECT,
    JSON_NULL,
    MAX_PRIORITY,
    MIN_PRIORITY,
    RetryPolicy,
    TaskStatus,
)

MAX_BATCH: Final = 10_000

Priority = Annotated[
    int, msgspec.Meta(extra_json_schema={"minimum": MIN_PRIORITY, "maximum": MAX_PRIORITY})
]
"""Checked at admission, which reports all errors at once; so only the schema has the range."""


class TaskRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task to submit. Admission checks ranges and names, not the types here."""

    task_type: str
    """Type of the task, such as `http_fetch`."""
    project_id: str = DEFAULT_PROJECT
    """Project of the task; created on first use."""
    cluster_id: str = DEFAULT_CLUSTER
    """Cluster whose nodes may run the task: one of its project, or a shared one."""
    workflow_id: str | None = None
    """Name of a workflow to filter tasks by."""
    # By factories, where a plain value would do: no schema can be made of a raw one.
    parameters: msgspec.Raw = msgspec.field(default_factory=EMPTY_OBJECT.copy)
    """Parameters for the executor; at most 1 MB and 100 levels deep."""
    bundle: str | None = None
    """Code to run, for `scrapy_spider`, `python` and `command`: `quotes`, or `quotes@3` for one
    version."""
    secrets: tuple[str, ...] = ()
    """Names of the project's secrets that the code gets as environment variables of the same names;
    secrets that the parameters refer to are added."""
    priority: Priority = DEFAULT_PRIORITY
    """1 to 10; 10 is the most urgent."""
    min_resources: dict[str, float] = {}
    """Resources that must be free on the node: `cpu_cores` (or `cpu`), `memory_mb`, `gpu`,
    `bandwidth_mbps`, `slots`."""
    capabilities: dict[str, Any] = {}
    """Capabilities that the node must have: a number is a minimum level, `true` a flag, a text or
    list must be contained."""
    content_features: dict[str, Any] = {}
    """Features of the content, for the strategy `content_based`."""
    categories: tuple[str, ...] = ()
    """Categories of the task; tasks of equal priority take turns by their first category."""
    node_type: str | None = None
    """Type of node that the task requires."""
    schedule_strategy: str | None = None
    """Strategy that ranks the nodes that fit; the fleet's default when not set."""
    target_region: str | None = None
    """Region of the target, for the strategy `geo_location`."""
    isolation: Annotated[Level | None, DEMANDED] = None
    """Minimum isolation, `L1` to `L4`: only nodes that offer it take the task, and each attempt
    runs in its own cell."""
    max_retries: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": 100})] = 3
    """Maximum number of retries after failures of the work itself, 0 to 100."""
    retry_policy: RetryPolicy = RetryPolicy()
    """Delays before retries, and the errors that are retried."""
    timeout: float | None = None
    """Timeout of one attempt in seconds."""
    deadline: float | None = None
    """Seconds after submission by which the task should be done: within a priority, earlier
    deadlines go first, and no retry starts after it."""
    idempotency_key: str | None = None
    """Key of this request: sent again, it returns the same task; with another body it is answered
    409."""
    dedup_key: str | None = None
    """Key of this work: while a task with the key lives, and for `dedup_window` after its end, no
    second one is created."""
    dedup_window: float = 3600.0
    """Seconds after its end for which a task keeps its `dedup_key`."""
    expectations: Expectations | None = None
    """Expectations of the task's items, and the consequence when they are not met; `quality` in the
    result has the verdict."""
    callback_url: str | None = None
    """Receiver of call-backs: `:update` is added to the address while the task is live, `:complete`
    at its end. The project needs a webhook of the format `callback`, whose secret signs the
    requests."""
    target: str | None = None
    """Site that the task depends on; when not set, the registered domain that its addresses have in
    common, if any. Tasks wait while the target's circuit breaker is open."""
    breaker: bool = True
    """Apply the circuit breaker of the target: the task waits while it is open, and its failures
    count."""


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Many tasks at once; each is checked on its own."""

    tasks: Annotated[
        list[
            Annotated[
                msgspec.Raw,
                msgspec.Meta(extra_json_schema={"$ref": "#/components/schemas/TaskRequest"}),
            ]
        ],
        msgspec.Meta(extra_json_schema={"minItems": 1, "maxItems": MAX_BATCH}),
    ]
    """Each task as in a request for a single task."""


class CloneRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A copy of a task; fields that are set replace those of the original."""

    parameters: msgspec.Raw = msgspec.field(default_factory=JSON_NULL.copy)
    """Parameters; those of the original when left out."""
    priority: Priority | None = None
    """Priority; that of the original when left out."""
    idempotency_key: str | None = None
    """Key of this request: sent again, it returns the same new task."""


class PriorityRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    priority: Priority
    """1 to 10; 10 is the most urgent."""


class NodeChangeRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to a node by an operator; a field that is left out stays as it is."""

    labels: dict[str, str | None] = {}
    """Labels to set; `null` removes one. They take precedence over labels that the node reports."""
    description: str | None = None
    """Description that takes precedence over the one that the node reports."""


class TaskSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filter for tasks; at least one field must be set."""

    status: TaskStatus | tuple[TaskStatus, ...] = ()
    """One state, or several."""
    project_id: str | None = None
    cluster_id: str | None = None
    task_type: str | None = None
    workflow_id: str | None = None
    assigned_node: str | None = None
    dead: bool | None = None
    """Select tasks that are (or are not) dead letters."""
    parent_id: str | None = None
    """Id of a split task, to select its shards."""


class BulkRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks by their `ids` or by a `filter`; exactly one of them."""

    ids: Annotated[tuple[str, ...], msgspec.Meta(extra_json_schema={"maxItems": MAX_BATCH})] = ()
    """Ids of up to 10,000 tasks, instead of a filter."""
    filter: TaskSelection | None = None
    """Filter for tasks, instead of ids."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_BATCH)] = MAX_BATCH
    """Maximum number of matching tasks to process in this request, oldest first."""
    cursor: str | None = None
    """The `next_cursor` of the previous request, to continue where it ended."""


class BulkPriorityRequest(BulkRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks by `ids` or `filter`, as for other orders, and their new priority."""

    priority: Priority
    """1 to 10; 10 is the most urgent."""


YEAR_S: Final = 366 * 86_400.0
Lifetime = Annotated[float, msgspec.Meta(gt=0, le=10 * YEAR_S)]


class KeyRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to create."""

    name: str
    """Letters, digits, dot, dash and underscore, at most 64; unique among valid keys; `admin` and
    `join` are reserved."""
    role: Annotated[Role, msgspec.Meta(extra={"only": ("viewer", "operator", "admin")})]
    """`viewer`, `operator` or `admin`."""
    project_id: str | None = None
    """Project to bind the key to; not for an admin."""
    expires_in_s: Lifetime | None = None
    """Seconds until the key expires; never when not set."""


class RotateRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for a new secret of a key."""

    grace_s: Annotated[float, msgspec.Meta(ge=0, le=YEAR_S)] = 0.0
    """Seconds for which the old secret stays valid beside the new one."""
    expires_in_s: Lifetime | None = None
    """Seconds until the key expires; unchanged when not set."""


class JoinTokenRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A join token to create, with which new nodes register."""

    name: str | None = None
    """Name of the token, by the rules for keys; its id when not set."""
    cluster_id: str = DEFAULT_CLUSTER
    """Cluster of the nodes that join with the token; they cannot choose another."""
    uses: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1
    """Maximum number of nodes that may join with the token."""
    expires_in_s: Annotated[float, msgspec.Meta(gt=0, le=YEAR_S)] = 86_400.0
    """Seconds until the token expires."""
