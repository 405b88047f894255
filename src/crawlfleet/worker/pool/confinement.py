"""Makes the order for the cell of an execution: limits from its allocation, its code, its network
access."""

import asyncio
import contextlib
import math
import os
import socket
import sys
import time
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from crawlfleet.core.isolation import egress_of, limits_of
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.model.wire.node_protocol import Assignment
from crawlfleet.ports.sandbox import CellOrder, Provide, Provision
from crawlfleet.worker.open_files import connections_of

LOOK_UP_AFTER_S: Final = 60.0
LOOK_UP_S: Final = 5.0


class Unprovided(CrawlfleetError):
    """An execution cannot have the cell that it needs here."""

    error_class = ErrorClass.ERROR


class Masters:
    """The known hosts of the masters, which no cell may reach by any name.

    An address that was known once stays closed: it is not free only because another came into use.
    """

    def __init__(self, urls: Iterable[str] = ()) -> None:
        self._hosts: dict[str, None] = {}
        self._addresses: dict[str, None] = {}
        self._ports: dict[int, None] = {}
        self._looked_at = -math.inf
        self.use(urls)

    def use(self, urls: Iterable[str]) -> None:
        """Add masters by their URLs."""
        for url in urls:
            parts = urlsplit(url)
            if parts.hostname and parts.hostname not in self._hosts:
                self._hosts[parts.hostname] = None
                self._looked_at = -math.inf
            if parts.hostname:
                usual = 443 if parts.scheme == "https" else 80
                with contextlib.suppress(ValueError):  # whoever connects will tell
                    self._ports[parts.port or usual] = None

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports on which the masters listen."""
        return tuple(self._ports)

    async def names(self) -> tuple[str, ...]:
        """Return the masters' names and addresses. Names are resolved again now and then."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK_UP_AFTER_S:
            for host in tuple(self._hosts):
                self._addresses |= dict.fromkeys(await _addresses_of(host))
            self._looked_at = now  # only then: who asks meanwhile looks, too
        return (*self._hosts, *self._addresses)


async def _addresses_of(host: str) -> list[str]:
    with contextlib.suppress(OSError):
        asking = asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        async with asyncio.timeout(LOOK_UP_S):  # a `TimeoutError` is an `OSError`
            return [str(each[4][0]) for each in await asking]
    return []


async def order_of(
    assignment: Assignment,
    settings: WorkerSettings,
    provide: Provide | None,
    masters: Masters,
) -> CellOrder:
    """Return the order for the cell of an execution. Raises `Unprovided`."""
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
        egress=egress_of(
            assignment.allocation,
            sandbox,
            allow_private=settings.allow_private,
            closed=await masters.names(),
            closed_ports=masters.ports,
            connections=connections_of(settings.slots, sandbox.connections, sandbox.spare_cells),
        ),
    )


def _import_path() -> list[str]:
    """Return the import path of the Python executors: first the folder in which their process
    starts."""
    told = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [str(Path.cwd()), *(each for each in told if each), *sys.path]


def modules_of(patterns: Iterable[str], path: list[str]) -> tuple[str, ...]:
    """Return the files and folders of the modules and packages in patterns such as `shop.jobs:*`.
    Imports nothing. Modules that cannot be found are left out: the execution will report them."""
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
