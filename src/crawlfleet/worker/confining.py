"""What the cell of an execution is given: limits from its allocation, its code, a way out."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from crawlfleet.core.isolation import egress_of, limits_of
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.messages import Assignment
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.sandbox import CellOrder, Provide, Provision


class Unprovided(CrawlfleetError):
    """An execution cannot have the cell that it needs here."""

    error_class = ErrorClass.ERROR


async def order_of(
    assignment: Assignment, settings: WorkerSettings, provide: Provide | None
) -> CellOrder:
    """The order for the cell of an execution; raises `Unprovided`."""
    try:
        provision = await provide(assignment) if provide is not None else Provision()
    except CrawlfleetError as error:
        failed = Unprovided(str(error))
        failed.error_class = getattr(error, "error_class", ErrorClass.ERROR)
        raise failed from error
    sandbox = settings.sandbox
    command = provision.command or settings.commands.get(assignment.task_type, ())
    programs = [part for part in command if part.startswith("/")]
    modules = modules_of((*settings.python_modules, *settings.python_allow), _import_path())
    return CellOrder(
        command=tuple(command),
        limits=limits_of(assignment.allocation, sandbox),
        variables=provision.variables,
        readable=(*sandbox.readable, *provision.readable, *programs, *modules),
        writable=(*sandbox.writable, *provision.writable),
        folder=provision.folder,
        egress=egress_of(assignment.allocation, sandbox, allow_private=settings.allow_private),
    )


async def closed_to_cells(settings: WorkerSettings, master_url: str | None) -> WorkerSettings:
    """The settings with the masters among what a cell may not reach, by name and by address."""
    hosts = [host for url in (master_url or "").split(",") if (host := urlsplit(url).hostname)]
    addresses: set[str] = set()
    for host in hosts:
        with contextlib.suppress(OSError):
            asking = asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses |= {str(each[4][0]) for each in await asking}
    closed = (*settings.sandbox.deny_domains, *hosts, *sorted(addresses))
    sandbox = msgspec.structs.replace(settings.sandbox, deny_domains=closed)
    return msgspec.structs.replace(settings, sandbox=sandbox)


def _import_path() -> list[str]:
    """Where the host of the Python executors looks: first in the folder that it is started in."""
    told = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [str(Path.cwd()), *(each for each in told if each), *sys.path]


def modules_of(patterns: Iterable[str], path: list[str]) -> tuple[str, ...]:
    """Where the modules and packages are that patterns such as `shop.jobs:*` name; looks, but
    imports nothing. What cannot be found is left out: the work will tell."""
    found: dict[str, None] = {}
    for name in {pattern.partition(":")[0].partition(".")[0] for pattern in patterns}:
        spec = PathFinder.find_spec(name, path) if name.isidentifier() else None
        if spec is None:
            continue
        places = spec.submodule_search_locations or ([spec.origin] if spec.origin else [])
        for place in places:
            if Path(place).is_absolute():
                found[str(place)] = None
    return tuple(found)
