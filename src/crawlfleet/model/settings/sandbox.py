"""Settings for the isolation of foreign code on a node."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from crawlfleet.model.settings.ranges import Count, Megabytes


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The isolation of foreign code, and its resources."""

    level: Annotated[
        Literal["auto", "off", "L0", "L1", "L2", "L3", "L4"],
        Meta(
            description="The isolation level of foreign code: `auto` is the best of this "
            "machine, `L0` to `L4` exactly this level or the worker does not "
            "start, `off` none."
        ),
    ] = "auto"
    task_types: Annotated[
        tuple[str, ...],
        Meta(
            description="The task types whose executions each run in a cell; others do only "
            "if their task demands it."
        ),
    ] = ("command", "python", "scrapy_spider")
    readable: Annotated[
        tuple[str, ...],
        Meta(
            description="Files and folders that every cell may read, in addition to the "
            "system's programs and the installed packages."
        ),
    ] = ()
    writable: Annotated[
        tuple[str, ...],
        Meta(description="Folders that every cell may read and change; all cells share them."),
    ] = ()
    memory_mb: Annotated[
        Megabytes, Meta(description="The memory of a cell whose task has no allocation.")
    ] = 1024.0
    processes: Annotated[Count, Meta(description="The most processes and threads of a cell.")] = 256
    disk_mb: Annotated[
        Megabytes,
        Meta(description="The size of the scratch folder of a cell."),
    ] = 256.0
    files: Annotated[Count, Meta(description="The most open files of a process in a cell.")] = 1024
    network: Annotated[
        Literal["public", "none"],
        Meta(
            description="The network of a cell: `public` addresses through the agent's proxy,"
            " by the same rules as `http_fetch`, or `none`."
        ),
    ] = "public"
    spare_cells: Annotated[
        int,
        Meta(
            ge=0,
            le=64,
            description="The most cells that are prepared in a pause, for work that was "
            "requested more than once recently; dropped when unused for a minute.",
        ),
    ] = 2
    connections: Annotated[
        Count,
        Meta(
            description="The most connections of a cell at once; fewer if the worker may not "
            "open enough files for all its slots."
        ),
    ] = 256
    allow_domains: Annotated[
        tuple[str, ...],
        Meta(description="The only domains that a cell may reach, including subdomains."),
    ] = ()
    deny_domains: Annotated[
        tuple[str, ...],
        Meta(description="Domains that a cell may not reach, including subdomains."),
    ] = ()
    bandwidth_mbps: Annotated[
        float,
        Meta(
            ge=0,
            description="The bandwidth of a cell whose task has no allocation, in megabits "
            "per second for both directions together; 0 for no limit.",
        ),
    ] = 0.0
