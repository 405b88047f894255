"""Copies of rows that share nothing that can be changed, for a store that keeps structs."""

from collections.abc import Iterable
from copy import copy
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import force_setattr

from crawlfleet.features.alerts.model import AlertRule
from crawlfleet.features.schedules.model import Firing, Schedule
from crawlfleet.features.webhooks.model import Delivery, Webhook
from crawlfleet.features.workflows.model import Run, RunStep, Workflow, WorkflowVersion
from crawlfleet.model.bundle import Bundle
from crawlfleet.model.event import Event
from crawlfleet.model.key import ApiKey
from crawlfleet.model.node import Node, Session
from crawlfleet.model.project import Cluster, ClusterConfiguration, Project
from crawlfleet.model.quality import MeasuredRun
from crawlfleet.model.secret import Secret
from crawlfleet.model.task import Execution, Task

S = TypeVar("S", bound=msgspec.Struct)


def _fields_of(kind: type[msgspec.Struct], wanted: type) -> tuple[str, ...]:
    return tuple(
        field.name
        for field in msgspec.structs.fields(kind)
        if wanted in (field.type, get_origin(field.type), *get_args(field.type))
    )


STORED: Final = (
    Project,
    Cluster,
    Node,
    Session,
    Task,
    Execution,
    ApiKey,
    ClusterConfiguration,
    Schedule,
    Firing,
    Bundle,
    Secret,
    Workflow,
    WorkflowVersion,
    Run,
    RunStep,
    Webhook,
    Delivery,
    AlertRule,
    MeasuredRun,
    Event,
)
DICTS: Final[dict[type, tuple[str, ...]]] = {kind: _fields_of(kind, dict) for kind in STORED}
RAWS: Final[dict[type, tuple[str, ...]]] = {kind: _fields_of(kind, msgspec.Raw) for kind in STORED}


def _own_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _own_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_own_value(inner) for inner in value]
    return value


def share(row: S) -> S:
    """A copy of a stored row whose dictionaries the reader may change."""
    dicts = DICTS[type(row)]
    if not dicts:
        return row
    shared = copy(row)
    for name in dicts:
        force_setattr(shared, name, _own_value(getattr(row, name)))
    return shared


def own(row: S) -> S:
    """A copy of a row that depends on nothing of the writer's, not even its receive buffer."""
    owned = share(row)
    for name in RAWS[type(row)]:
        raw = getattr(owned, name)
        if raw is not None:
            force_setattr(owned, name, raw.copy())
    return owned


def share_all(rows: Iterable[S]) -> list[S]:
    """Such a copy of each row."""
    return [share(row) for row in rows]
