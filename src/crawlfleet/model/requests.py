"""What people and programs ask for, as it stands on the wire."""

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
"""Judged by admission, which tells all that is wrong at once; so only the schema has the range."""


class TaskRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task to be done. Ranges and names are judged by admission, not by the types here."""

    task_type: str
    """What to do, such as `http_fetch`."""
    project_id: str = DEFAULT_PROJECT
    """Made on first use."""
    cluster_id: str = DEFAULT_CLUSTER
    """Whose nodes may do it: a cluster of its project, or a shared one."""
    workflow_id: str | None = None
    """What it belongs to, for you to filter by."""
    # By factories, where a plain value would do: no schema can be made of a raw one.
    parameters: msgspec.Raw = msgspec.field(default_factory=EMPTY_OBJECT.copy)
    """For the executor; at most 1 MB and 100 levels deep."""
    bundle: str | None = None
    """The code to run, for `scrapy_spider`, `python` and `command`: `quotes`, or `quotes@3` for a
    version."""
    secrets: tuple[str, ...] = ()
    """Names of secrets of the project that the code is given, in variables of the same names; those
    that the parameters refer to are added."""
    priority: Priority = DEFAULT_PRIORITY
    """1 to 10; 10 is the most urgent."""
    min_resources: dict[str, float] = {}
    """Must be free on the node: `cpu_cores` (or `cpu`), `memory_mb`, `gpu`, `bandwidth_mbps`,
    `slots`."""
    capabilities: dict[str, Any] = {}
    """The node must have: a number is a minimum level, `true` a flag, a text or list must be
    contained."""
    content_features: dict[str, Any] = {}
    """For the strategy `content_based`."""
    categories: tuple[str, ...] = ()
    """The first takes turns with others of the same priority."""
    node_type: str | None = None
    """Only nodes of this type."""
    schedule_strategy: str | None = None
    """How nodes that fit are ranked; the fleet's default when not set."""
    target_region: str | None = None
    """For the strategy `geo_location`."""
    isolation: Annotated[Level | None, DEMANDED] = None
    """`L1` to `L4`: only nodes that can hold it so well, each attempt in a cell of its own."""
    max_retries: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": 100})] = 3
    """How many failures of the work itself are tried again, 0 to 100."""
    retry_policy: RetryPolicy = RetryPolicy()
    """How long to wait before each attempt, and after which errors there is another."""
    timeout: float | None = None
    """Seconds that one attempt may take."""
    deadline: float | None = None
    """Seconds after its submission by which it should be done: sooner ones of a priority go first,
    and no attempt is begun again after it."""
    idempotency_key: str | None = None
    """The same request: sent again, it gives the same task; with another body it is a 409."""
    dedup_key: str | None = None
    """The same work: while such a task lives, and for `dedup_window` after its end, no second one
    is made."""
    dedup_window: float = 3600.0
    """Seconds after its end in which a task still keeps its `dedup_key`."""
    expectations: Expectations | None = None
    """What its items should be like, and what follows when they are not; the verdict is `quality`
    in its result."""
    callback_url: str | None = None
    """Who is told of it: `:update` is added while it is under way, `:complete` at its end. The
    project needs a webhook of the format `callback`, whose secret signs what is sent."""
    target: str | None = None
    """The site that it depends on; the registered domain of its addresses when not set, if they
    have one in common. While a target is taken for down, tasks for it wait."""
    breaker: bool = True
    """Whether it waits then, and counts for others; `false` goes its way in any case."""


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Many tasks at once; each is judged on its own."""

    tasks: Annotated[
        list[
            Annotated[
                msgspec.Raw,
                msgspec.Meta(extra_json_schema={"$ref": "#/components/schemas/TaskRequest"}),
            ]
        ],
        msgspec.Meta(extra_json_schema={"minItems": 1, "maxItems": MAX_BATCH}),
    ]
    """Each as one that is submitted alone."""


class CloneRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same task once more; what is set here replaces what the original had."""

    parameters: msgspec.Raw = msgspec.field(default_factory=JSON_NULL.copy)
    """Those of the original when left out."""
    priority: Priority | None = None
    """That of the original when left out."""
    idempotency_key: str | None = None
    """The same request: sent again, it gives the same new task."""


class PriorityRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    priority: Priority
    """1 to 10; 10 is the most urgent."""


class NodeChangeRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator says about a node; what is left out stays as it is."""

    labels: dict[str, str | None] = {}
    """Labels to set; `null` removes one. They win over those that the node announces."""
    description: str | None = None
    """Wins over what the node says of itself."""


class TaskSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tasks are meant; something must be named."""

    status: TaskStatus | tuple[TaskStatus, ...] = ()
    """One state, or several."""
    project_id: str | None = None
    cluster_id: str | None = None
    task_type: str | None = None
    workflow_id: str | None = None
    assigned_node: str | None = None
    dead: bool | None = None
    """Only tasks in (or not in) the dead-letter list."""
    parent_id: str | None = None
    """Only the shards of this task."""


class BulkRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Many tasks by their `ids`, or all that a `filter` chooses: one of the two."""

    ids: Annotated[tuple[str, ...], msgspec.Meta(extra_json_schema={"maxItems": MAX_BATCH})] = ()
    """Up to 10,000 tasks, in place of a filter."""
    filter: TaskSelection | None = None
    """Which tasks are meant, in place of their ids."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_BATCH)] = MAX_BATCH
    """How many of the filter's tasks to go through in this request, oldest first."""
    cursor: str | None = None
    """The `next_cursor` of the request before, to go on where that ended."""


class BulkPriorityRequest(BulkRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As for the other orders, and the new priority."""

    priority: Priority
    """1 to 10; 10 is the most urgent."""


YEAR_S: Final = 366 * 86_400.0
Lifetime = Annotated[float, msgspec.Meta(gt=0, le=10 * YEAR_S)]


class KeyRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key for somebody."""

    name: str
    """Letters, digits, dot, dash and underscore, at most 64; no other living key has the same, and
    `admin` and `join` are the master's own."""
    role: Annotated[Role, msgspec.Meta(extra={"only": ("viewer", "operator", "admin")})]
    """`viewer`, `operator` or `admin`."""
    project_id: str | None = None
    """Bind it to one project; not for an admin."""
    expires_in_s: Lifetime | None = None
    """Seconds until it expires; never when not set."""


class RotateRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new secret for a key."""

    grace_s: Annotated[float, msgspec.Meta(ge=0, le=YEAR_S)] = 0.0
    """Seconds for which the old secret stays good beside the new one."""
    expires_in_s: Lifetime | None = None
    """Seconds until the key expires; as before when not set."""


class JoinTokenRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token with which new nodes may register."""

    name: str | None = None
    """For people to know it by, as for keys; its id when not set."""
    cluster_id: str = DEFAULT_CLUSTER
    """Where its nodes belong; they cannot choose another."""
    uses: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1
    """How many nodes may join with it."""
    expires_in_s: Annotated[float, msgspec.Meta(gt=0, le=YEAR_S)] = 86_400.0
    """Seconds until it expires."""
