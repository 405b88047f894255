"""How a node keeps foreign code apart from itself."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from crawlfleet.model.settings.ranges import Count, Megabytes


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What foreign code is held by, and what it is given."""

    level: Annotated[
        Literal["auto", "off", "L0", "L1", "L2", "L3", "L4"],
        Meta(
            description="How foreign code is held: `auto` as well as this machine can, `L0` to "
            "`L4` exactly so or the worker does not start, `off` not at all."
        ),
    ] = "auto"
    task_types: Annotated[
        tuple[str, ...],
        Meta(
            description="Task types that run foreign code, each execution in a cell of its own; "
            "others only where a task demands it."
        ),
    ] = ("command", "python", "scrapy_spider")
    readable: Annotated[
        tuple[str, ...],
        Meta(
            description="Files and folders that every cell may read, beside the system's programs "
            "and the installed packages."
        ),
    ] = ()
    writable: Annotated[
        tuple[str, ...],
        Meta(description="Folders that every cell may read and change: all of them share these."),
    ] = ()
    memory_mb: Annotated[
        Megabytes, Meta(description="Memory of a cell whose task was allocated none.")
    ] = 1024.0
    processes: Annotated[
        Count, Meta(description="Processes and threads that a cell may have at once.")
    ] = 256
    disk_mb: Annotated[
        Megabytes,
        Meta(description="How much a cell may write to its scratch folder."),
    ] = 256.0
    files: Annotated[Count, Meta(description="Files that one of its processes may have open.")] = (
        1024
    )
    network: Annotated[
        Literal["public", "none"],
        Meta(
            description="Whom a cell may reach: `public` addresses, through the agent's proxy and "
            "by the same rules as `http_fetch`, or `none`."
        ),
    ] = "public"
    spare_cells: Annotated[
        int,
        Meta(
            ge=0,
            le=64,
            description="Cells that are made ahead, when there is a pause, for what was asked for "
            "more than once of late; given up when nobody takes them for a minute.",
        ),
    ] = 2
    connections: Annotated[
        Count,
        Meta(
            description="Connections that a cell may have at once; fewer where the worker may not "
            "open files enough for all its slots."
        ),
    ] = 256
    allow_domains: Annotated[
        tuple[str, ...],
        Meta(description="The only domains that a cell may reach, with all below them."),
    ] = ()
    deny_domains: Annotated[
        tuple[str, ...],
        Meta(description="Domains that a cell may not reach, with all below them."),
    ] = ()
    bandwidth_mbps: Annotated[
        float,
        Meta(
            ge=0,
            description="Megabits a second of a cell whose task was allocated none, both ways "
            "together; 0 for no limit.",
        ),
    ] = 0.0
