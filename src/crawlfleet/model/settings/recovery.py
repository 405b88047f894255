"""Settings for retries, lost tasks and circuit breakers."""

from typing import Annotated

import msgspec
from msgspec import Meta

from crawlfleet.model.settings.ranges import Count, Seconds
from crawlfleet.model.task import ErrorClass


class RecoverySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits for losses and retries of tasks."""

    max_losses: Annotated[
        Count,
        Meta(
            description="A task that was lost with its node this many times ends: it may kill"
            " its nodes."
        ),
    ] = 20
    retry_budget: Annotated[
        bool,
        Meta(
            description="Whether retries wait when there are too many of them beside first "
            "attempts."
        ),
    ] = True
    retry_share: Annotated[
        float,
        Meta(
            ge=0,
            le=100,
            description="The retries that each first attempt within the window allows, for a "
            "project and for the fleet.",
        ),
    ] = 0.5
    retry_floor: Annotated[
        Count,
        Meta(
            description="The retries within the window that a project may always have, in "
            "addition to that share."
        ),
    ] = 200
    fleet_retry_floor: Annotated[Count, Meta(description="The same for all projects together.")] = (
        1000
    )
    retry_window_s: Annotated[
        Seconds, Meta(description="The window in which retries and first attempts are counted.")
    ] = 60.0
    timeout_grace_s: Annotated[
        Seconds,
        Meta(
            description="How long the master waits for a node to enforce the timeout of a "
            "task before the master enforces it."
        ),
    ] = 10.0


class BreakerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Circuit breakers: when tasks wait because their target seems to be down."""

    enabled: Annotated[
        bool, Meta(description="Whether tasks wait for a target that fails again and again.")
    ] = True
    failures: Annotated[
        Count,
        Meta(
            description="A breaker opens after this many failures of tasks for one target "
            "without a success in between."
        ),
    ] = 10
    tasks: Annotated[
        Count, Meta(description="This many different tasks must have failed, too.")
    ] = 3
    window_s: Annotated[
        Seconds, Meta(description="Failures further apart than this do not count together.")
    ] = 600.0
    pause_s: Annotated[
        Seconds,
        Meta(
            description="How long tasks wait before one of them tests the target; it doubles "
            "with each failed test."
        ),
    ] = 30.0
    max_pause_s: Annotated[Seconds, Meta(description="The longest such wait.")] = 900.0
    classes: Annotated[
        tuple[ErrorClass, ...],
        Meta(description="The error classes that count as failures of the target."),
    ] = (ErrorClass.NETWORK, ErrorClass.BLOCKED)
