"""Workflows: documents of steps that depend on each other, and their runs.

A *workflow* is a named document of *steps*, in versions. A *run* is one execution of a version. A
step is done by one task, or, with `for_each`, by one for each element of a list: its *instances*.
"""

from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from crawlfleet.model.isolation import DEMANDED, Level
from crawlfleet.model.project import DEFAULT_PROJECT
from crawlfleet.model.quality import Expectations
from crawlfleet.model.requests import Priority
from crawlfleet.model.task import EMPTY_OBJECT, Callback, RetryPolicy

MAX_STEPS: Final = 10_000
MAX_INSTANCES: Final = 10_000


class On(StrEnum):
    """What must have become of a step for another to follow it."""

    SUCCESS = "success"
    FAILURE = "failure"
    """The step failed; a skipped one does not count."""
    ALWAYS = "always"
    """The step has ended, in any state."""


class Kind(StrEnum):
    """What a parameter of a workflow is."""

    ANY = "any"
    TEXT = "text"
    NUMBER = "number"
    INTEGER = "integer"
    FLAG = "flag"
    LIST = "list"
    OBJECT = "object"


class Dependency(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step that comes before."""

    step: str
    on: On = On.SUCCESS
    """Only after its success, its failure, or always."""


class TaskOptions(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """How tasks are done: as for `POST /api/v1/tasks`."""

    cluster_id: str | UnsetType = UNSET
    bundle: str | UnsetType | None = UNSET
    secrets: tuple[str, ...] | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    """1 to 10; 10 is the most urgent."""
    min_resources: dict[str, float] | UnsetType = UNSET
    capabilities: dict[str, Any] | UnsetType = UNSET
    content_features: dict[str, Any] | UnsetType = UNSET
    categories: tuple[str, ...] | UnsetType = UNSET
    node_type: str | UnsetType | None = UNSET
    schedule_strategy: str | UnsetType | None = UNSET
    target_region: str | UnsetType | None = UNSET
    isolation: Annotated[Level | UnsetType | None, DEMANDED] = UNSET
    max_retries: int | UnsetType = UNSET
    """How many failures of the work itself are tried again; 3 when not set."""
    retry_policy: RetryPolicy | UnsetType = UNSET
    timeout: float | UnsetType | None = UNSET
    """Seconds that one attempt may take."""


class Step(TaskOptions, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One step: what is done, after which others, and under which condition."""

    task_type: str
    """What to do, such as `http_fetch`."""
    parameters: dict[str, Any] = {}
    """For the executor; `${…}` in a text is replaced by a value."""
    depends_on: tuple[str | Dependency, ...] = ()
    """Names of steps, or `{step: fetch, on: failure}`."""
    when: str | None = None
    """An expression that must be true, or the step is skipped."""
    for_each: str | list[Any] | None = None
    """A list, or an expression that gives one: an instance for each element, its `item`."""
    optional: bool = False
    """Its failure does not make the run fail."""
    expectations: Expectations | None = None
    """What its items should be like; with `on_drift: hold` the steps after it wait for somebody who
    accepts those that are not."""
    description: str = ""


class Parameter(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What is given to a run."""

    type: Kind = Kind.ANY
    default: Any = UNSET
    """Must be given when there is none."""
    description: str = ""


class WorkflowDocument(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Steps that depend on each other, and what they have in common."""

    name: str
    """Letters, digits, dot, dash and underscore, at most 64; no other of the project has it."""
    steps: Annotated[
        dict[str, Step],
        msgspec.Meta(extra_json_schema={"minProperties": 1, "maxProperties": MAX_STEPS}),
    ]
    """By name: letters, digits and underscore, at most 64."""
    project_id: str = DEFAULT_PROJECT
    description: str = ""
    parameters: dict[str, Parameter] = {}
    defaults: TaskOptions = TaskOptions()
    """For all steps that do not say otherwise."""


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow by its name, with the number of its newest version."""

    id: str
    project_id: str
    name: str
    created_at: float
    updated_at: float
    description: str = ""
    latest: int = 1
    """Number of the newest version."""
    steps: int = 0
    """Number of steps in the newest version."""
    digest: str = ""
    """SHA-256 digest of the newest document."""
    version: int = 1


class WorkflowVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it was at one time; it never changes."""

    id: str
    workflow_id: str
    number: int
    created_at: float
    document: msgspec.Raw = EMPTY_OBJECT
    made_by: str = ""
    version: int = 1


class RunStatus(StrEnum):
    RUNNING = "running"
    CANCELLING = "cancelling"
    """No further step begins, and running ones are being stopped."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


LIVE_RUN: Final = frozenset({RunStatus.RUNNING, RunStatus.CANCELLING})


class StepStatus(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    HELD = "held"
    """The tasks of the step have completed, and a user has to accept their items."""
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


SETTLED: Final = frozenset(
    {StepStatus.COMPLETED, StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED}
)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a version of a workflow."""

    id: str
    project_id: str
    workflow_id: str
    name: str
    """Name of the workflow."""
    number: int
    """Number of the workflow's version that is executed."""
    created_at: float
    updated_at: float
    status: RunStatus = RunStatus.RUNNING
    ended_at: float | None = None
    parameters: msgspec.Raw = EMPTY_OBJECT
    steps: int = 0
    """Number of steps in the run."""
    counts: dict[str, int] = {}
    """Number of steps by state, once the run has ended."""
    attempt: int = 1
    """Number of the attempt; it grows each time the run is repeated."""
    cause: str = ""
    """User or process that started the run, or brought it into its state."""
    error: str = ""
    idempotency_key: str | None = None
    callback: Callback | None = None
    """Call-back that reports the run to its submitter; `None` if there is none."""
    version: int = 1


class RunStep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The state of a step of a run. A waiting step may have no row."""

    id: str
    run_id: str
    step: str
    status: StepStatus
    updated_at: float
    attempt: int = 1
    count: int = 0
    """Number of instances that were started."""
    started_at: float | None = None
    ended_at: float | None = None
    reason: str = ""
    """Reason why the step failed, was skipped or was cancelled."""
    version: int = 1


def step_row_id(run_id: str, step: str) -> str:
    """Return the id of the row of a step in a run."""
    return f"{run_id}.{step}"


def version_row_id(workflow_id: str, number: int) -> str:
    """Return the id of the row of a workflow's version; these ids sort by number."""
    return f"{workflow_id}.{number:08}"
