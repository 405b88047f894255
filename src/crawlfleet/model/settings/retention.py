"""How long things are kept."""

from typing import Annotated

import msgspec
from msgspec import Meta

from crawlfleet.model.settings.ranges import Count, Days


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long finished things are kept, in days; zero keeps them for ever."""

    tasks_days: Annotated[
        Days, Meta(description="How long a finished task is kept; 0 for ever.")
    ] = 30.0
    events_days: Annotated[Days, Meta(description="How long an event is kept; 0 for ever.")] = 30.0
    logs_days: Annotated[
        Days, Meta(description="How long a line in the log of an execution is kept; 0 for ever.")
    ] = 7.0
    logs_mb: Annotated[
        float,
        Meta(
            ge=0,
            description="How large the logs of all executions together may become; then the "
            "oldest lines go first. 0 without limit.",
        ),
    ] = 2000.0
    history_days: Annotated[
        Days,
        Meta(
            description="How long a node's history is kept; each heartbeat for an hour, means "
            "of a minute for a day, means of an hour for so long. 0 for ever."
        ),
    ] = 31.0
    nodes_days: Annotated[
        Days,
        Meta(description="How long a node that is gone is listed, and then kept; 0 for ever."),
    ] = 30.0
    audit_days: Annotated[
        Days, Meta(description="How long an entry of the audit log is kept; 0 for ever.")
    ] = 365.0
    schedules_days: Annotated[
        Days,
        Meta(
            description="How long it is kept what a schedule did, and a schedule that was removed; "
            "0 for ever."
        ),
    ] = 90.0
    runs_days: Annotated[
        Days,
        Meta(description="How long a run of a workflow is kept after its end; 0 for ever."),
    ] = 90.0
    usage_days: Annotated[
        Days,
        Meta(description="How long it is kept what a project used in an hour; 0 for ever."),
    ] = 400.0
    quality_days: Annotated[
        Days,
        Meta(description="How long it is kept what was measured of a task's items; 0 for ever."),
    ] = 365.0
    quality_runs: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="Of how many runs of a series that is kept; those that are held stay.",
        ),
    ] = 100
    deliveries_days: Annotated[
        Days,
        Meta(
            description="How long a delivery is kept that has arrived or was given up, and a "
            "webhook that was removed; 0 for ever."
        ),
    ] = 7.0
    step: Annotated[
        Count,
        Meta(description="Remove at most so many at once, so that nobody waits for the broom."),
    ] = 500
