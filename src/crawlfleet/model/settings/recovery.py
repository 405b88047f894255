"""What becomes of tasks that do not succeed, and when a site is taken for down."""

from typing import Annotated

import msgspec
from msgspec import Meta

from crawlfleet.model.settings.ranges import Count, Seconds
from crawlfleet.model.task import ErrorClass


class RecoverySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What bounds a task that does not succeed."""

    max_losses: Annotated[
        Count,
        Meta(description="A task that vanished with its node so often is taken for poison."),
    ] = 20
    retry_budget: Annotated[
        bool,
        Meta(description="Whether retries wait when there are too many beside first attempts."),
    ] = True
    retry_share: Annotated[
        float,
        Meta(
            ge=0,
            le=100,
            description="Retries of a project within the window, and of the fleet: so many for "
            "each first attempt in it,",
        ),
    ] = 0.5
    retry_floor: Annotated[
        Count, Meta(description="and so many of a project beside them, whatever happens.")
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
            description="How long the master waits for a node to enforce a task's time limit "
            "before it does."
        ),
    ] = 10.0


class BreakerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When tasks wait since their target is taken for down."""

    enabled: Annotated[
        bool, Meta(description="Whether tasks for a target that fails and fails wait.")
    ] = True
    failures: Annotated[
        Count,
        Meta(
            description="So many failures of tasks for one target, without a success in between, "
            "and it is taken for down."
        ),
    ] = 10
    tasks: Annotated[Count, Meta(description="So many different tasks must have failed, too.")] = 3
    window_s: Annotated[
        Seconds, Meta(description="Failures further apart than this do not count together.")
    ] = 600.0
    pause_s: Annotated[
        Seconds,
        Meta(
            description="How long tasks wait before one of them is let through to see; doubled "
            "each time that it fails."
        ),
    ] = 30.0
    max_pause_s: Annotated[Seconds, Meta(description="The longest such wait.")] = 900.0
    classes: Annotated[
        tuple[ErrorClass, ...],
        Meta(description="The classes of errors that speak against the target."),
    ] = (ErrorClass.NETWORK, ErrorClass.BLOCKED)
