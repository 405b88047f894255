"""Conditions and effects of the health of nodes."""

from typing import Annotated

import msgspec
from msgspec import Meta

from crawlfleet.model.settings.ranges import Count, Delay, Seconds, Share


class HealthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Conditions and effects of the health of nodes."""

    cpu_limit: Annotated[
        Share,
        Meta(
            description="A node with a higher CPU usage is unhealthy: it gets no new work "
            "unless it has none; 1 for no limit."
        ),
    ] = 0.9
    memory_limit: Annotated[
        Share,
        Meta(
            description="A node with a higher memory usage is unhealthy: it gets no new work;"
            " 1 for no limit."
        ),
    ] = 0.95
    disk_free_mb: Annotated[
        float,
        Meta(
            ge=0,
            description="A node with less space on the disk of its data folder, and less than a "
            "twentieth of it, is unhealthy: it gets no new work; 0 for no limit.",
        ),
    ] = 200.0
    error_rate_limit: Annotated[
        Share,
        Meta(
            description="A node is degraded when a larger share of its executions fails; 1 "
            "for no limit."
        ),
    ] = 0.5
    latency_limit_s: Annotated[
        Seconds,
        Meta(
            description="A node is degraded when its executions start this long after their "
            "assignment."
        ),
    ] = 5.0
    clock_skew_limit_s: Annotated[
        Seconds,
        Meta(
            description="A node is degraded when its clock differs by this much from the master's."
        ),
    ] = 30.0
    sustain_s: Annotated[
        Delay, Meta(description="How long a limit must be exceeded before it counts.")
    ] = 15.0
    recover_s: Annotated[
        Delay,
        Meta(
            description="A node is healthy again when a value was inside its limit, by a "
            "tenth of it, for this time."
        ),
    ] = 10.0
    window_s: Annotated[
        Seconds, Meta(description="The time over which errors and latency are measured.")
    ] = 300.0
    least_ended: Annotated[
        Count,
        Meta(description="With fewer executions in that time, errors and latency do not count."),
    ] = 10
    probe_interval_s: Annotated[
        Seconds,
        Meta(description="The interval of probes of nodes that advertise a health endpoint."),
    ] = 10.0
    probe_timeout_s: Annotated[Seconds, Meta(description="The timeout of a probe.")] = 2.0
    probe_failures: Annotated[
        Count, Meta(description="A node is unreachable after this many failed probes in a row.")
    ] = 3
    probe_loopback: Annotated[
        bool | None,
        Meta(
            description="Whether nodes may advertise a loopback address; when not set, they may "
            "if the master itself listens on one."
        ),
    ] = None
    release_unreachable_s: Annotated[
        Delay,
        Meta(
            description="The work of a node that was unreachable for this time goes back to "
            "the queue; 0 for never."
        ),
    ] = 60.0
    release_unhealthy_s: Annotated[
        Delay,
        Meta(
            description="The work of a node that was unhealthy for this time goes back to the"
            " queue, unless CPU is the only condition; 0 for never."
        ),
    ] = 0.0
