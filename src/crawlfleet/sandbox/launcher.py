"""The sandbox of a node: makes cells, hands them over, and sees to their end.

Cells are forked from the nursery, a process of its own that holds nothing worth stealing. Every
cell has an id; whatever is made for it carries that id and the node's key, so that what a killed
agent left can be found and removed by its next life, and by others once it is dead.
"""

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from typing import Final, TypeVar, cast

from crawlfleet.errors import SandboxFailed
from crawlfleet.model.isolation import Isolation, Layer, Limits
from crawlfleet.ports.sandbox import CellOrder
from crawlfleet.sandbox import spec
from crawlfleet.sandbox.cell.cell import LocalCell
from crawlfleet.sandbox.cell.forkserver import KEPT_VARIABLES, Nest
from crawlfleet.sandbox.cell.plan import PROXY_PORT, PROXY_URL, SCRATCH, Plans, WayOut, with_wardens
from crawlfleet.sandbox.cell.prepared_cells import Spares
from crawlfleet.sandbox.folder import Premises
from crawlfleet.sandbox.kernel.cgroups import Group, Groups, GroupsV1, GroupsV2, remove_all
from crawlfleet.sandbox.network.proxy import EgressProxy, Judge
from crawlfleet.sandbox.users import COMMON, Users
from crawlfleet.telemetry import Component, logger

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
        kept = {name: environ[name] for name in KEPT_VARIABLES if name in environ}
        self._users = Users(place.key) if Layer.OTHER_USER in self._layers else None
        is_first = self._users is not None and Layer.PID_NAMESPACE in self._layers
        self._nest = Nest(kept, is_first=is_first)
        self._groups = _groups(self._layers, place.key)
        self._plans = Plans(
            isolation.layers,
            base=str(place.base),
            hidden=(*hidden, str(place.folder)),
            kept=kept,
            environ=environ,
        )
        self._cells: set[LocalCell] = set()
        self._is_closed = False
        self._stuck: list[Group] = []
        """Groups of cells that are gone, in which something cannot end."""
        self._spares = Spares(self._ahead, self._end, most=spares)
        self._sweep()

    @property
    def isolation(self) -> Isolation:
        return self._isolation

    async def open(self) -> None:
        with contextlib.suppress(OSError):
            if not self._is_closed:
                self._nest.open()

    async def start(
        self, order: CellOrder, make: Callable[[], P], *, ahead: bool = True
    ) -> tuple[LocalCell, P]:
        try:
            spare = await self._spare(order) if ahead else None
            cell = spare or await self._fresh(order)
        except OSError as error:
            raise SandboxFailed(f"the cell cannot be made: {error}") from error
        try:
            if cell.proxy is not None and cell.proxy_socket is not None:
                await cell.proxy.open(cell.proxy_socket)
            listener = make()
            await cell.connect(cast("asyncio.SubprocessProtocol", listener))
        except OSError as error:
            await self._end(cell)
            raise SandboxFailed(f"the cell cannot be made: {error}") from error
        except BaseException:
            await self._end(cell)
            raise
        return cell, listener

    async def rest(self) -> None:
        """Let go of the cells that wait for work; more are made when there is some."""
        await self._spares.empty()

    async def close(self) -> None:
        self._is_closed = True
        await self._spares.close()
        for cell in list(self._cells):
            await self._end(cell)
        await self._nest.close()
        self._place.close()

    def _sweep(self) -> None:
        groups = list(self._groups.left()) if self._groups is not None else []
        stuck = remove_all(groups)
        forgotten = list(self._groups.forgotten()) if self._groups is not None else []
        dropped = sum(group.drop() for group in forgotten)
        folders = self._place.sweep()
        if groups or dropped or folders:
            log.info(
                "cells of an earlier life removed",
                groups=len(groups) - stuck + dropped,
                folders=folders,
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
        way = WayOut(PROXY_PORT, PROXY_URL) if order.egress is not None else WayOut()
        cell = await self._spares.take(
            spec.replace(self._plans.make(order, SCRATCH, way), waits=True)
        )
        if cell is None:
            return None
        try:
            if cell.group is not None:
                cell.group.limit(with_wardens(order.limits))
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
        cell.shares_folders = bool(order.writable)
        try:
            # It is forked while this goes on, and waits for it.
            if cell.uid is not None:
                for each in order.writable:
                    _hand_over(each, cell.uid)
            has_root = Layer.MOUNT_NAMESPACE in self._layers
            scratch = SCRATCH if has_root else self._make_scratch(id, cell)
            made = self._plans.make(order, scratch, self._way_out(order, cell), cell.uid)
            await self._begin(id, cell, made, order.limits)
        except BaseException:
            await self._end(cell)
            raise
        return cell

    async def _ahead(self, plan: spec.CellSpec) -> LocalCell:
        """A cell that waits for its work. Raises `SandboxFailed`."""
        try:
            cell = self._fork()
            try:
                await self._begin(secrets.token_hex(6), cell, plan, None)
            except BaseException:
                await self._end(cell)
                raise
        except OSError as error:
            raise SandboxFailed(f"the cell cannot be made: {error}") from error
        cell.is_made_ahead = True
        return cell

    def _fork(self, *, shares_folders: bool = False) -> LocalCell:
        """A process that waits to be told what it is to become. Each is another user, but for
        those that write to the same folders. Raises `OSError` and `SandboxFailed`."""
        if self._is_closed:
            raise SandboxFailed("the sandbox is closed: the worker is shutting down")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        cell = LocalCell(ours, has_namespace=Layer.PID_NAMESPACE in self._layers)
        self._cells.add(cell)
        cell.traces.append(lambda: self._forget(cell))
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
            group = cell.group = self._groups.make(id, limits and with_wardens(limits))
            made = spec.replace(made, groups=group.entrances)
        made = spec.replace(made, uid=cell.uid)
        cell.tell(spec.encode(made))
        await cell.begin()

    def _way_out(self, order: CellOrder, cell: LocalCell) -> WayOut:
        """Where the cell will find its proxy. With a network of its own it opens the door itself,
        and hands it over; else the agent does, and only lets in who knows the password."""
        if order.egress is None:
            return WayOut()
        if Layer.NET_NAMESPACE in self._layers:
            self._let_out(order, cell)
            return WayOut(PROXY_PORT, PROXY_URL)
        password = secrets.token_hex(16)
        cell.proxy = EgressProxy(order.egress, judge=self._judge, password=password)
        cell.proxy_socket = socket.create_server(("127.0.0.1", 0))
        port = cell.proxy_socket.getsockname()[1]
        return WayOut(port, f"http://cell:{password}@127.0.0.1:{port}")

    def _let_out(self, order: CellOrder, cell: LocalCell) -> None:
        """Give a cell with a network of its own somebody who answers at its doors."""
        if order.egress is not None:
            cell.proxy = EgressProxy(order.egress, judge=self._judge)

    def _make_scratch(self, id: str, cell: LocalCell) -> str:
        place = self._place
        made = place.scratch(id) if cell.uid is None else place.scratch_for(cell.uid, id)
        cell.traces.append(lambda: asyncio.to_thread(place.discard, made))
        return str(made)

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


_OF_SPARES: Final = frozenset(
    {*(Layer.MOUNT_NAMESPACE, Layer.PID_NAMESPACE, Layer.NET_NAMESPACE), Layer.USER_NAMESPACE}
)
"""With these a cell is the same whenever it is made: elsewhere its folder and its port are the
machine's, and its processes are counted with others."""


def _groups(layers: frozenset[Layer], key: str) -> Groups | None:
    if Layer.CGROUP_V2 in layers:
        return GroupsV2(key)
    return GroupsV1(key) if Layer.CGROUP_V1 in layers else None


def _hand_over(folder: str, uid: int) -> None:
    """Make a folder the cells', itself alone; never what a link in its place leads to."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchown(fd, uid, uid)
    finally:
        os.close(fd)
