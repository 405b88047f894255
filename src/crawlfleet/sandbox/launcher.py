"""The sandbox of a node: makes cells, and knows what each of them needs on this machine.

Cells are forked from the nursery, a process of its own that holds nothing worth stealing. Every
cell has an id; whatever is made for it carries that id and the node's key, so that what a killed
agent left can be found and removed by its next life, and by nobody else's.
"""

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar, cast

from crawlfleet.errors import SandboxFailed
from crawlfleet.model.isolation import Isolation, Layer, Limits
from crawlfleet.ports.sandbox import WAY_OUT, CellOrder
from crawlfleet.sandbox import sights, spec, world
from crawlfleet.sandbox.cell import LocalCell
from crawlfleet.sandbox.cgroups import Group, Groups, GroupsV1, GroupsV2
from crawlfleet.sandbox.egress import EgressProxy, Judge
from crawlfleet.sandbox.nest import HOST_MODULE, KEPT_VARIABLES, Nest
from crawlfleet.sandbox.premises import Premises
from crawlfleet.sandbox.raw_tcp import RawTcp
from crawlfleet.sandbox.spares import Spares
from crawlfleet.sandbox.users import COMMON, Users
from crawlfleet.telemetry import Component, logger

PROXY_PORT: Final = 3128
PROXY_URL: Final = f"http://127.0.0.1:{PROXY_PORT}"
PROXY_VARIABLES: Final = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy"),
)
SCRATCH: Final = world.TEMPORARY + "/cell"
USUAL_FILES: Final = 1024
WARDENS: Final = 2
"""Processes of a cell that are not its work's."""
MEGABYTE: Final = 1 << 20

P = TypeVar("P")
log = logger(Component.WORKER)


class LocalSandbox:
    """A `Sandbox` on this machine."""

    def __init__(
        self,
        *,
        isolation: Isolation,
        place: Premises,
        judge: Judge,
        hidden: tuple[str, ...] = (),
        spares: int = 0,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`judge` says whom a cell may reach, by its lists. `hidden` is what no cell may see, even
        where it lies in something that it may. At most so many `spares` wait for work. Removes
        what an earlier life left."""
        self._isolation = isolation
        self._layers = frozenset(isolation.layers)
        self._place = place
        self._judge = judge
        self._kept = {name: environ[name] for name in KEPT_VARIABLES if name in environ}
        self._users = Users(place.key) if Layer.OTHER_USER in self._layers else None
        is_first = self._users is not None and Layer.PID_NAMESPACE in self._layers
        self._nest = Nest(self._kept, is_first=is_first)
        self._groups = _groups(self._layers, place.key)
        self._hidden = tuple({str(Path(each).resolve()) for each in (*hidden, str(place.folder))})
        self._seen = (
            *sights.system(),
            *sights.packages(environ, by_others=self._users is not None),
        )
        self._links = sights.links_of()
        self._cells: set[LocalCell] = set()
        self._stuck: list[Group] = []
        """Groups of cells that are gone, in which something cannot end."""
        self._spares = Spares(self._ahead, self._end, most=spares)
        self._sweep()

    @property
    def isolation(self) -> Isolation:
        return self._isolation

    async def open(self) -> None:
        with contextlib.suppress(OSError):
            self._nest.open()

    async def start(self, order: CellOrder, make: Callable[[], P]) -> tuple[LocalCell, P]:
        try:
            cell = await self._spare(order) or await self._fresh(order)
        except OSError as error:
            raise SandboxFailed(f"the cell cannot be made: {error}") from error
        try:
            if cell.proxy is not None:
                await cell.proxy.open(cell.doors[0])
            if cell.raw_tcp is not None:
                await cell.raw_tcp.open(cell.doors[1:])
            listener = make()
            await cell.connect(cast("asyncio.SubprocessProtocol", listener))
        except OSError as error:
            await self._end(cell)
            raise SandboxFailed(f"the cell cannot be made: {error}") from error
        except BaseException:
            await self._end(cell)
            raise
        cell.traces.append(lambda: self._forget(cell))
        return cell, listener

    async def rest(self) -> None:
        """Let go of the cells that wait for work; more are made when there is some."""
        await self._spares.empty()

    async def close(self) -> None:
        await self.rest()
        for cell in list(self._cells):
            await self._end(cell)
        await self._nest.close()
        self._place.close()

    def _sweep(self) -> None:
        groups = list(self._groups.left()) if self._groups is not None else []
        stuck = sum(not group.remove_now() for group in groups)
        forgotten = list(self._groups.forgotten()) if self._groups is not None else []
        dropped = sum(group.drop() for group in forgotten)
        folders = self._place.sweep()
        if groups or dropped or folders:
            log.info(
                "cells of an earlier life removed", groups=len(groups) + dropped, folders=folders
            )
        if stuck:
            log.warning("control groups of an earlier life cannot be removed", groups=stuck)

    async def _spare(self, order: CellOrder) -> LocalCell | None:
        """A cell that was made ahead, with what this order asks for and it could not have before.

        A command is run by its cell at once, and what is in folders that others write to is
        measured when a cell begins: neither can be made ahead.
        """
        if order.command or order.writable or not self._layers >= _OF_SPARES:
            return None
        way = _WayOut(PROXY_PORT, PROXY_URL) if order.egress is not None else _WayOut()
        cell = await self._spares.take(spec.replace(self._specify(order, SCRATCH, way), waits=True))
        if cell is None:
            return None
        try:
            if cell.group is not None:
                cell.group.limit(_with_wardens(order.limits))
            cell.tell(spec.GO)
        except OSError:  # it has just died, or waits with more than it is to have
            await self._end(cell)
            return None
        self._let_out(order, cell)
        return cell

    async def _fresh(self, order: CellOrder) -> LocalCell:
        """A cell that is made now."""
        id = secrets.token_hex(6)
        cell = self._fork(shares_folders=bool(order.writable))
        try:
            # It is forked while this goes on, and waits for it.
            if cell.uid is not None:
                for each in order.writable:
                    _hand_over(each, cell.uid)
            has_root = Layer.MOUNT_NAMESPACE in self._layers
            scratch = SCRATCH if has_root else self._make_scratch(id, cell)
            made = self._specify(order, scratch, self._way_out(order, cell), cell.uid)
            await self._begin(id, cell, made, order.limits)
        except BaseException:
            await self._end(cell)
            raise
        return cell

    async def _ahead(self, plan: spec.CellSpec) -> LocalCell:
        """A cell that waits for its work."""
        cell = self._fork()
        try:
            await self._begin(secrets.token_hex(6), cell, plan, None)
        except OSError as error:
            await self._end(cell)
            raise SandboxFailed(f"the cell cannot be made: {error}") from error
        except BaseException:
            await self._end(cell)
            raise
        return cell

    def _fork(self, *, shares_folders: bool = False) -> LocalCell:
        """A process that waits to be told what it is to become. Each is another user, but for
        those that write to the same folders."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        cell = LocalCell(ours, has_namespace=Layer.PID_NAMESPACE in self._layers)
        self._cells.add(cell)
        if self._users is not None:
            cell.uid = COMMON if shares_folders else self._users.take()
        try:
            with theirs:
                cell.pipes = self._nest.fork(theirs, cell.uid)
        except OSError:
            cell.hang_up()
            self._drop(cell)
            raise
        return cell

    async def _begin(
        self, id: str, cell: LocalCell, made: spec.CellSpec, limits: Limits | None
    ) -> None:
        if self._groups is not None:
            group = cell.group = self._groups.make(id, limits and _with_wardens(limits))
            made = spec.replace(made, groups=group.entrances)
        made = spec.replace(made, uid=cell.uid)
        cell.tell(spec.encode(made))
        await cell.begin()

    def _way_out(self, order: CellOrder, cell: LocalCell) -> "_WayOut":
        """Where the cell will find its proxy. With a network of its own it opens the door itself,
        and hands it over; else the agent does, and only lets in who knows the password."""
        if order.egress is None:
            return _WayOut()
        if Layer.NET_NAMESPACE in self._layers:
            self._let_out(order, cell)
            return _WayOut(PROXY_PORT, PROXY_URL)
        if order.egress.raw_tcp:
            raise SandboxFailed(
                "raw TCP is demanded, but cells have no network of their own at this level"
            )
        password = secrets.token_hex(16)
        cell.proxy = EgressProxy(order.egress, judge=self._judge, password=password)
        door = socket.create_server(("127.0.0.1", 0))
        cell.doors.append(door)
        port = door.getsockname()[1]
        return _WayOut(port, f"http://cell:{password}@127.0.0.1:{port}")

    def _let_out(self, order: CellOrder, cell: LocalCell) -> None:
        """Give a cell with a network of its own somebody who answers at its doors."""
        if order.egress is not None:
            cell.proxy = EgressProxy(order.egress, judge=self._judge)
            if order.egress.raw_tcp:
                cell.raw_tcp = RawTcp(cell.proxy)

    def _specify(
        self, order: CellOrder, scratch: str, way: "_WayOut", uid: int | None = None
    ) -> spec.CellSpec:
        """A cell as it is ordered, but for its control groups and the user that it is; where that
        is known, its processes are counted by it."""
        limits = order.limits
        has_root = Layer.MOUNT_NAMESPACE in self._layers
        made = spec.CellSpec(
            layers=self._isolation.layers,
            module="" if order.command else HOST_MODULE,
            command=order.command,
            variables=self._variables(order, scratch, way),
            proxy_port=way.port,
            raw_tcp=order.egress is not None and order.egress.raw_tcp,
            scratch=scratch,
            folder=order.folder,
            measured=order.writable if has_root else (scratch, *order.writable),
            rlimits=self._rlimits(limits, uid),
            # Where there is a control group, it counts.
            memory_bytes=_bytes(limits.memory_mb) if self._groups is None else None,
            disk_bytes=_bytes(limits.disk_mb),
        )
        return self._with_sights(made, order) if self._layers & _OF_FILES else made

    def _with_sights(self, made: spec.CellSpec, order: CellOrder) -> spec.CellSpec:
        binds = sights.binds(
            self._seen,
            order.readable,
            order.writable,
            own=self._users is not None,
            hidden=self._hidden,
        )
        if Layer.MOUNT_NAMESPACE in self._layers:
            return spec.replace(
                made,
                base=str(self._place.base),
                binds=binds,
                links=self._links,
                hidden=self._hidden,
                readable=("/",),
                writable=(world.TEMPORARY, world.SHARED_MEMORY, *order.writable),
            )
        apart = (*order.readable, *order.writable)
        listed = (each.path for each in binds if each.path not in apart)
        readable = (*sights.carved(listed, self._hidden), *apart)
        return spec.replace(
            made,
            readable=(*readable, *self._links, *sights.PROC_FILES, "/proc/self"),
            writable=(made.scratch, *order.writable),
        )

    def _make_scratch(self, id: str, cell: LocalCell) -> str:
        place = self._place
        made = place.scratch(id) if cell.uid is None else place.scratch_for(cell.uid, id)
        cell.traces.append(lambda: asyncio.to_thread(place.discard, made))
        return str(made)

    def _rlimits(self, limits: Limits, uid: int | None) -> dict[str, int]:
        found = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": limits.files or USUAL_FILES}
        if (disk := _bytes(limits.disk_mb)) is not None:
            found["RLIMIT_FSIZE"] = disk
        if self._groups is None and (memory := _bytes(limits.memory_mb)) is not None:
            found["RLIMIT_DATA"] = memory
        if limits.pids is not None:
            # Where a cell is a user of its own, or has a namespace of users, only its processes
            # count; elsewhere all of the same user do.
            others = 0 if Layer.USER_NAMESPACE in self._layers else _tasks_of(uid or os.getuid())
            found["RLIMIT_NPROC"] = others + limits.pids + WARDENS
        return found

    def _variables(self, order: CellOrder, scratch: str, way: "_WayOut") -> dict[str, str]:
        usual = {"PATH": os.defpath, "LANG": "C.UTF-8"}
        own = {"HOME": scratch, "TMPDIR": scratch}
        if way.url:
            own |= dict.fromkeys((*PROXY_VARIABLES, WAY_OUT), way.url)
            own |= dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1")
        return usual | self._kept | own | order.variables

    async def _end(self, cell: LocalCell) -> None:
        await cell.clear()
        self._drop(cell)

    async def _forget(self, cell: LocalCell) -> None:
        self._drop(cell)

    def _drop(self, cell: LocalCell) -> None:
        """It was cleared; may be called twice. What something still runs in is tried again with
        the next ones, and its user is not used again."""
        if cell not in self._cells:
            return
        self._cells.discard(cell)
        if cell.group is not None and cell.has_left_group:
            log.warning("the control group of a cell cannot be removed yet", pid=cell.get_pid())
            self._stuck.append(cell.group)
        elif self._users is not None and cell.uid is not None:
            self._users.give_back(cell.uid)
        self._stuck = [group for group in self._stuck if not group.drop(by_force=True)]


class _WayOut(NamedTuple):
    """Where a cell finds its proxy; nowhere when the port is 0."""

    port: int = 0
    url: str = ""


_OF_FILES: Final = frozenset({Layer.MOUNT_NAMESPACE, Layer.LANDLOCK})
_OF_SPARES: Final = frozenset(
    {*(Layer.MOUNT_NAMESPACE, Layer.PID_NAMESPACE, Layer.NET_NAMESPACE), Layer.USER_NAMESPACE}
)
"""With these a cell is the same whenever it is made: elsewhere its folder and its port are the
machine's, and its processes are counted with others."""


def _groups(layers: frozenset[Layer], key: str) -> Groups | None:
    if Layer.CGROUP_V2 in layers:
        return GroupsV2(key)
    return GroupsV1(key) if Layer.CGROUP_V1 in layers else None


def _with_wardens(limits: Limits) -> Limits:
    if limits.pids is None:
        return limits
    return spec.replace(limits, pids=limits.pids + WARDENS)


def _hand_over(folder: str, uid: int) -> None:
    """Make a folder the cells', itself alone; never what a link in its place leads to."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchown(fd, uid, uid)
    finally:
        os.close(fd)


def _bytes(megabytes: float | None) -> int | None:
    return None if megabytes is None else int(megabytes * MEGABYTE)


def _tasks_of(uid: int) -> int:
    """Processes and threads of a user."""
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == uid:
                    count += len(list(Path(entry.path, "task").iterdir()))
    return count
