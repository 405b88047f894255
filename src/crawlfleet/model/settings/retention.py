"""Settings for how long the master keeps data."""

from typing import Annotated

import msgspec
from msgspec import Meta

from crawlfleet.model.settings.ranges import Count, Days


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Retention of finished work, in days; zero keeps it for ever."""

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
            description="The largest size of the logs of all executions together; beyond it "
            "the oldest lines are removed. 0 for no limit.",
        ),
    ] = 2000.0
    history_days: Annotated[
        Days,
        Meta(
            description="How long a node's history is kept: each heartbeat for an hour, means"
            " of a minute for a day, means of an hour for this time. 0 for ever."
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
            description="How long the history of a schedule is kept, and a removed schedule; "
            "0 for ever."
        ),
    ] = 90.0
    runs_days: Annotated[
        Days,
        Meta(description="How long a run of a workflow is kept after its end; 0 for ever."),
    ] = 90.0
    usage_days: Annotated[
        Days,
        Meta(description="How long the hourly usage of projects is kept; 0 for ever."),
    ] = 400.0
    quality_days: Annotated[
        Days,
        Meta(description="How long the measurement of a task's items is kept; 0 for ever."),
    ] = 365.0
    quality_runs: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="How many measured runs of a series are kept; held runs always stay.",
        ),
    ] = 100
    deliveries_days: Annotated[
        Days,
        Meta(
            description="How long a delivery is kept after it arrived or was given up, and a "
            "removed webhook; 0 for ever."
        ),
    ] = 7.0
    step: Annotated[
        Count,
        Meta(description="The most rows to remove at once, so that nothing waits for it."),
    ] = 500
