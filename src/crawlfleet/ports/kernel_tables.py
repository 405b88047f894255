"""Tables of the kernel's rows beside nodes and tasks: projects, clusters, keys, usage, and
others.
"""

from collections.abc import Sequence
from typing import Final

from crawlfleet.model.bundle import Bundle
from crawlfleet.model.key import ApiKey
from crawlfleet.model.project import Cluster, ClusterConfiguration, Project
from crawlfleet.model.quality import Decision, MeasuredRun
from crawlfleet.model.usage import ADDED, LARGEST, LATEST, UsageHour
from crawlfleet.ports.tables import (
    Index,
    Joint,
    Query,
    Table,
    above,
    after_all,
    among,
    at_least,
    below,
    equal,
    unequal,
)

PROJECTS: Final = Table(
    Project,
    "projects",
    columns=(
        "id",
        "name",
        "created_at",
        "updated_at",
        "version",
        "description",
        "status",
        "allowance",
    ),
)
CLUSTERS: Final = Table(
    Cluster,
    "crawler_clusters",
    columns=(
        "id",
        "project_id",
        "name",
        "description",
        "configuration",
        "status",
        "created_at",
        "updated_at",
        "version",
        "configuration_version",
    ),
)
CONFIGURATIONS: Final = Table(
    ClusterConfiguration,
    "crawler_cluster_configurations",
    columns=("id", "cluster_id", "number", "settings", "created_at", "cause", "version"),
    indexes=(Index("ix_configurations_cluster", ("cluster_id", "number")),),
)
BUNDLES: Final = Table(
    Bundle,
    "crawler_bundles",
    columns=(
        "id",
        "project_id",
        "name",
        "current",
        "last",
        "versions",
        "created_at",
        "updated_at",
        "version",
    ),
)
"""Bundles stay when all their versions are gone: numbers are never given twice."""
KEYS: Final = Table(
    ApiKey,
    "crawler_keys",
    columns=(
        "id",
        "name",
        "role",
        "secret_hash",
        "created_at",
        "expires_at",
        "revoked_at",
        "version",
    ),
)
MEASURED_RUNS: Final = Table(
    MeasuredRun,
    "crawler_measured_runs",
    columns=(
        "id",
        "series",
        "project_id",
        "task_id",
        "at",
        "verdict",
        "decision",
        "version",
    ),
    indexes=(
        Index("ix_measured_runs_series", ("series", "id")),
        Index("ix_measured_runs_task", ("task_id", "id")),
        Index("ix_measured_runs_at", ("at", "id")),
    ),
)
USAGE: Final = Table(
    UsageHour,
    "crawler_usage",
    columns=UsageHour.__struct_fields__,
    key=("project_id", "at"),
    indexes=(Index("ix_usage_at", ("at",)),),
    joined={
        **dict.fromkeys(ADDED, Joint.SUM),
        **dict.fromkeys(LARGEST, Joint.LARGEST),
        **dict.fromkeys(LATEST, Joint.LATEST),
    },
)
"""A row for each hour in which a project used something. Commits add to it by `Change.usage`."""


def configurations_of(
    cluster_id: str, *, before: int | None, limit: int
) -> Query[ClusterConfiguration]:
    """Versions of a cluster's configuration, newest first."""
    return CONFIGURATIONS.where(
        equal("cluster_id", cluster_id),
        below("number", before),
        order=("number",),
        newest_first=True,
        limit=limit,
    )


def measured_runs_in(series: str, *, after: str | None, limit: int) -> Query[MeasuredRun]:
    """Runs of a series with an id below `after`, newest first; `series` is the whole name, as
    `crawlfleet.model.quality.series_key` makes it."""
    return MEASURED_RUNS.where(
        equal("series", series), below("id", after), newest_first=True, limit=limit
    )


def measured_runs_of(task_ids: Sequence[str]) -> Query[MeasuredRun]:
    """All runs of these tasks, oldest first; a task that ended again has several."""
    return MEASURED_RUNS.where(among("task_id", task_ids))


def newest_of_series(
    *, project_id: str | None, after: str | None, limit: int
) -> Query[MeasuredRun]:
    """The newest run of each series beyond the whole name `after`, in order of the names."""
    prefix = "" if project_id is None else f"{project_id}/"
    return MEASURED_RUNS.where(
        above("series", max(prefix, after or "")),
        below("series", after_all(prefix) if prefix else None),
        newest_of="series",
        limit=limit,
    )


def old_measured_runs(*, before: float, limit: int) -> Query[MeasuredRun]:
    """Runs from before then, the oldest first; those that are held stay."""
    return MEASURED_RUNS.where(
        below("at", before), unequal("decision", Decision.HELD), order=("at", "id"), limit=limit
    )


def surplus_measured_runs(*, keep: int, limit: int) -> Query[MeasuredRun]:
    """Runs that are not among the newest `keep` of their series; those that are held stay."""
    return MEASURED_RUNS.where(
        unequal("decision", Decision.HELD), newest_of="series", beyond=keep, limit=limit
    )


def usage_between(*, since: float, until: float, project_id: str | None = None) -> Query[UsageHour]:
    """The hours that begin at `since` or later, and before `until`, in order of the hours, then of
    the projects. Hours in which a project did nothing are left out."""
    return USAGE.where(
        at_least("at", since),
        below("at", until),
        equal("project_id", project_id),
        order=("at", "project_id"),
    )


def old_usage(*, before: float, limit: int) -> Query[UsageHour]:
    """The hours that began before then, the oldest first."""
    return USAGE.where(below("at", before), order=("at", "project_id"), limit=limit)
