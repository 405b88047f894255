"""Projects and clusters: checks of requests, and the changes that they make.

Every change of a cluster's settings is a new numbered version, which is written together with the
cluster: so the cluster and its history cannot disagree, and of two changes of one version only one
is made.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET

from crawlfleet.core.nodes.registration import labels_problems
from crawlfleet.core.text.names import description_problems, name_problems
from crawlfleet.errors import FieldProblem
from crawlfleet.model.admin_requests import (
    ClusterPatch,
    ClusterRequest,
    ClusterSettingsPatch,
    ProjectPatch,
    ProjectRequest,
    QuotaPatch,
)
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.project import (
    Cluster,
    ClusterConfiguration,
    ClusterSettings,
    ClusterStatus,
    Project,
    ProjectStatus,
    configuration_id,
)
from crawlfleet.model.settings import SessionSettings

DISPLAY_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]{0,255}\Z")


def text_problems(given: Any) -> Iterator[FieldProblem]:
    """Yield the problems of the id, name and description of a request; fields it lacks are
    skipped."""
    id = getattr(given, "id", None)
    if id is not None:
        yield from name_problems(id, "id")
    if given.name is not UNSET and not DISPLAY_NAME.match(given.name):
        yield _problem(
            "name", given.name, "is not a name", "use at most 255 characters that can be printed"
        )
    if given.description is not UNSET:
        yield from description_problems(given.description)


def settings_problems(
    settings: ClusterSettings, *, strategies: Collection[str], fleet: SessionSettings
) -> Iterator[FieldProblem]:
    """Yield the problems of cluster settings; values that are not set are those of the fleet."""
    if settings.default_strategy is not None and settings.default_strategy not in strategies:
        yield _problem(
            "configuration.default_strategy",
            settings.default_strategy,
            "is not a strategy of this fleet",
            f"use one of {', '.join(sorted(strategies))}, or null for the fleet's",
        )
    timeout, interval = timeout_of(settings, fleet), interval_of(settings, fleet)
    if timeout <= 2 * interval:
        yield _problem(
            "configuration.session_timeout_s",
            timeout,
            f"is not more than twice the heartbeat interval of {interval:g} s",
            "make it longer, or heartbeat_interval_s shorter",
        )


def timeout_of(settings: ClusterSettings, fleet: SessionSettings) -> float:
    """Return the session timeout of the cluster's nodes, in seconds."""
    given = settings.session_timeout_s
    return fleet.timeout_s if given is None else given


def interval_of(settings: ClusterSettings, fleet: SessionSettings) -> float:
    """Return the heartbeat interval of the cluster's nodes, in seconds."""
    given = settings.heartbeat_interval_s
    return fleet.heartbeat_interval_s if given is None else given


def merged(settings: ClusterSettings, patch: ClusterSettingsPatch) -> ClusterSettings:
    """Return the settings with the values that the patch sets."""
    given = msgspec.structs.asdict(patch)
    changes = {name: value for name, value in given.items() if value is not UNSET}
    return msgspec.structs.replace(settings, **changes)


def new_project(request: ProjectRequest, *, now: float, cause: str) -> Change:
    """Return the change that creates a project."""
    project = Project(
        id=request.id,
        name=request.name or request.id,
        description=request.description,
        created_at=now,
        updated_at=now,
    )
    event = _project_event("project.created", project.id, now, cause)
    return Change(rows=(project,), events=(event,))


def changed_project(
    project: Project, patch: ProjectPatch, *, now: float, cause: str
) -> Change | None:
    """Return the change that a patch makes; `None` when the project is like that already."""
    return _project(project, _given(patch), "project.changed", now, cause)


def moved_project(
    project: Project, status: ProjectStatus, *, now: float, cause: str
) -> Change | None:
    """Return the change that closes or opens a project; `None` when it has that status already."""
    return _project(project, {"status": status}, f"project.{status}", now, cause)


def with_quotas(project: Project, patch: QuotaPatch, *, now: float, cause: str) -> Change | None:
    """Return the change that sets quotas and shares; `None` when the project has them already."""
    fields = {name: getattr(patch, name) for name in patch.__struct_fields__}
    given = {name: value for name, value in fields.items() if value is not UNSET}
    if given.get("nodes", {}) is None:
        given["nodes"] = {}
    allowance = msgspec.structs.replace(project.allowance, **given)
    return _project(project, {"allowance": allowance}, "project.quotas_changed", now, cause)


def quota_problems(patch: QuotaPatch) -> Iterator[FieldProblem]:
    """Yield the problems of the labels of nodes that are to be reserved for a project."""
    if patch.nodes:
        for problem in labels_problems(patch.nodes):
            field = problem.field.replace("labels", "nodes", 1)
            yield msgspec.structs.replace(problem, field=field)


def _project(
    project: Project, fields: dict[str, Any], kind: str, now: float, cause: str
) -> Change | None:
    changed = msgspec.structs.replace(project, **fields)
    if changed == project:
        return None
    changed = msgspec.structs.replace(changed, updated_at=now, version=project.version + 1)
    return Change(rows=(changed,), events=(_project_event(kind, project.id, now, cause),))


def new_cluster(request: ClusterRequest, *, now: float, cause: str) -> Change:
    """Return the change that creates a cluster, with its settings as version one."""
    cluster = Cluster(
        id=request.id,
        project_id=request.project_id,
        name=request.name or request.id,
        description=request.description,
        created_at=now,
        updated_at=now,
        version=0,
    )
    settings = _plain(request.configuration)
    change = _cluster(cluster, {}, settings, now, cause, created=True)
    assert change is not None, "a new cluster is a change"
    return change


def changed_cluster(
    cluster: Cluster, patch: ClusterPatch, *, now: float, cause: str
) -> Change | None:
    """Return the change that a patch makes; `None` when the cluster is like that already."""
    settings = merged(cluster.configuration, patch.configuration)
    return _cluster(cluster, _given(patch), settings, now, cause)


def moved_cluster(
    cluster: Cluster, status: ClusterStatus, *, now: float, cause: str
) -> Change | None:
    """Return the change that sets the status; `None` when the cluster has it already."""
    return _cluster(cluster, {"status": status}, cluster.configuration, now, cause)


def reconfigured(
    cluster: Cluster, settings: ClusterSettings, *, now: float, cause: str
) -> Change | None:
    """Return the change that sets the configuration; `None` when the cluster has it already."""
    return _cluster(cluster, {}, settings, now, cause)


def _cluster(
    cluster: Cluster,
    fields: dict[str, Any],
    settings: ClusterSettings,
    now: float,
    cause: str,
    *,
    created: bool = False,
) -> Change | None:
    changed = msgspec.structs.replace(cluster, configuration=settings, **fields)
    if changed == cluster and not created:
        return None
    events: list[Event] = []
    versions: tuple[ClusterConfiguration, ...] = ()
    number = cluster.configuration_version
    if created:
        events.append(_event("cluster.created", cluster.id, now, cause))
    if changed.status is not cluster.status:
        moved = (str(cluster.status), str(changed.status))
        events.append(_event(f"cluster.{changed.status}", cluster.id, now, cause, moved))
    if settings != cluster.configuration:
        number += 1
        versions = (_configuration(cluster.id, number, settings, now, cause),)
        details = {"version": number}
        events.append(_event("cluster.configured", cluster.id, now, cause, details=details))
    if not events:
        events.append(_event("cluster.changed", cluster.id, now, cause))
    changed = msgspec.structs.replace(
        changed, configuration_version=number, updated_at=now, version=cluster.version + 1
    )
    return Change(rows=(changed, *versions), events=tuple(events))


def _configuration(
    cluster_id: str, number: int, settings: ClusterSettings, now: float, cause: str
) -> ClusterConfiguration:
    return ClusterConfiguration(
        id=configuration_id(cluster_id, number),
        cluster_id=cluster_id,
        number=number,
        settings=settings,
        created_at=now,
        cause=cause,
    )


def _plain(settings: ClusterSettings) -> ClusterSettings:
    """Return the settings as they are stored, whatever type of request they came in."""
    return ClusterSettings(**msgspec.structs.asdict(settings))


def _given(patch: ProjectPatch | ClusterPatch) -> dict[str, Any]:
    """Return the fields of a patch that are written unchanged."""
    fields = {name: getattr(patch, name) for name in patch.__struct_fields__}
    return {
        name: value
        for name, value in fields.items()
        if value is not UNSET and name != "configuration"
    }


def _project_event(kind: str, project_id: str, now: float, cause: str) -> Event:
    return Event(kind=kind, subject=project_id, at=now, cause=cause, project_id=project_id)


def _event(
    kind: str,
    subject: str,
    now: float,
    cause: str,
    moved: tuple[str, str] | None = None,
    details: dict[str, Any] | None = None,
) -> Event:
    before, after = moved or (None, None)
    return Event(
        kind=kind,
        subject=subject,
        at=now,
        cause=cause,
        from_state=before,
        to_state=after,
        details=details or {},
    )


def _problem(field: str, value: Any, message: str, remedy: str) -> FieldProblem:
    return FieldProblem(field=field, value=value, message=message, remedy=remedy)
