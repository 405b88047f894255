"""The sandbox of a node: starts cells, hands them over, and removes them completely.

`open_sandbox` checks what the machine offers and opens the sandbox at the level of the settings.
Cells are forked from the fork server, a process that holds no secrets. Every cell has an id; the
control groups and folders made for it carry that id and the node's key, so that the next run of
the worker, or another worker once this one is dead, can find and remove them.
"""

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar, cast

from crawlfleet.errors import ConfigError, SandboxFailed
from crawlfleet.model.isolation import Isolation, Layer, Limits
from crawlfleet.ports.sandbox import CellOrder
from crawlfleet.sandbox import probe, spec
from crawlfleet.sandbox.cell.cell import LocalCell
from crawlfleet.sandbox.cell.forkserver import KEPT_VARIABLES, ForkServer
from crawlfleet.sandbox.cell.plan import (
    PROXY_PORT,
    PROXY_URL,
    SCRATCH,
    CellPlanner,
    ProxyAddress,
    with_supervisors,
)
from crawlfleet.sandbox.cell.prepared_cells import PreparedCells
from crawlfleet.sandbox.folder import SandboxFolder
from crawlfleet.sandbox.kernel import landlock
from crawlfleet.sandbox.kernel.cgroups import Cgroup, Cgroups, CgroupsV1, CgroupsV2, remove_all
from crawlfleet.sandbox.network.proxy import EgressCheck, EgressProxy
from crawlfleet.sandbox.users import SHARED_UID, UserPool
from crawlfleet.telemetry import Component, logger

P = TypeVar("P")
log = logger(Component.WORKER)

Choose = Callable[[str, Isolation], tuple[Isolation, tuple[Layer, ...]]]
"""Chooses a level: returns what the machine offers there, and the layers that it lacks for it."""


async def open_sandbox(
    level: str,
    *,
    choose: Choose,
    check_egress: EgressCheck,
    folder: Path,
    hidden: tuple[str, ...],
    spare_cells: int = 0,
) -> "LocalSandbox | None":
    """Open the sandbox of a worker; `None` when the level is `off`.

    Raises `ConfigError` when the machine cannot confine foreign code as the settings demand.
    """
    if level == "off":
        return None
    found = await asyncio.to_thread(probe.detect)
    offer, lacking = choose(level, found)
    if lacking:
        why = "; ".join(f"{each} ({found.missing.get(each, 'missing')})" for each in lacking)
        raise ConfigError(
            f"worker.sandbox.level = {level!r}: this machine lacks {why}; choose a lower level, "
            "or `auto` for the best that it has"
        )
    if probe.runs_as_root(offer):
        why = found.missing.get(Layer.OTHER_USER, "missing")
        raise ConfigError(
            f"worker.sandbox.level = {level!r}: foreign code would run as root here, since this "
            f"worker is root and cannot become another user ({why}); run it as a plain user, or "
            "give it CAP_SETUID, CAP_SETGID and CAP_CHOWN"
        )
    if not _can_reach_proxy(offer):
        log.warning("cells have no network: Landlock restricts ports only from Linux 6.7 on")
    log.info("foreign code is confined", isolation=str(offer.level), layers=" ".join(offer.layers))
    return LocalSandbox(
        isolation=offer,
        folder=SandboxFolder(folder),
        check_egress=check_egress,
        hidden=hidden,
        spare_cells=spare_cells,
    )


def _can_reach_proxy(offer: Isolation) -> bool:
    """Return whether a cell can be allowed the proxy and no other address. L0 restricts nothing, so
    it can."""
    by_landlock = Layer.LANDLOCK in offer.layers and Layer.NET_NAMESPACE not in offer.layers
    return not by_landlock or landlock.restricts_ports()


class LocalSandbox:
    """A `Sandbox` on this machine."""

    def __init__(
        self,
        *,
        isolation: Isolation,
        folder: SandboxFolder,
        check_egress: EgressCheck,
        hidden: tuple[str, ...] = (),
        spare_cells: int = 0,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Remove what an earlier run left, and get ready.

        `check_egress` applies a cell's lists to the hosts that it wants to reach. No cell sees the
        paths in `hidden`, even below a folder that it sees. Up to `spare_cells` cells are prepared
        before there is work for them.
        """
        self._isolation = isolation
        self._layers = frozenset(isolation.layers)
        self._folder = folder
        self._check_egress = check_egress
        kept = {name: environ[name] for name in KEPT_VARIABLES if name in environ}
        self._users = UserPool(folder.key) if Layer.OTHER_USER in self._layers else None
        is_pid_one = self._users is not None and Layer.PID_NAMESPACE in self._layers
        self._forkserver = ForkServer(kept, is_pid_one=is_pid_one)
        self._groups = _cgroups(self._layers, folder.key)
        self._planner = CellPlanner(
            isolation.layers,
            base=str(folder.base),
            hidden=(*hidden, str(folder.path)),
            kept=kept,
            environ=environ,
        )
        self._cells: set[LocalCell] = set()
        self._is_closed = False
        self._stuck: list[Cgroup] = []
        """Control groups of removed cells with a process that the kernel cannot end yet."""
        self._prepared = PreparedCells(self._prepare, self._end, max_cells=spare_cells)
        self._sweep()

    @property
    def isolation(self) -> Isolation:
        return self._isolation

    async def open(self) -> None:
        with contextlib.suppress(OSError):
            if not self._is_closed:
                self._forkserver.open()

    async def start(
        self, order: CellOrder, make: Callable[[], P], *, ahead: bool = True
    ) -> tuple[LocalCell, P]:
        try:
            prepared = await self._take_prepared(order) if ahead else None
            cell = prepared or await self._start_new(order)
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

    async def drop_prepared(self) -> None:
        """End the cells that wait for work; the sandbox prepares more when there is work."""
        await self._prepared.empty()

    async def close(self) -> None:
        self._is_closed = True
        await self._prepared.close()
        for cell in list(self._cells):
            await self._end(cell)
        await self._forkserver.close()
        self._folder.close()

    def _sweep(self) -> None:
        groups = list(self._groups.leftovers()) if self._groups is not None else []
        stuck = remove_all(groups)
        abandoned = list(self._groups.abandoned()) if self._groups is not None else []
        dropped = sum(group.try_remove() for group in abandoned)
        folders = self._folder.sweep()
        if groups or dropped or folders:
            log.info(
                "cells of an earlier life removed",
                groups=len(groups) - stuck + dropped,
                folders=folders,
            )
        if stuck:
            log.warning("control groups of an earlier life cannot be removed", groups=stuck)

    async def _take_prepared(self, order: CellOrder) -> LocalCell | None:
        """Return a prepared cell, after putting on the limits and the proxy of this order.

        A cell runs its command immediately, and the sizes of writable folders are measured when the
        cell begins: such cells cannot be prepared.
        """
        if order.command or order.writable or not self._layers >= _PREPARABLE:
            return None
        proxy = ProxyAddress(PROXY_PORT, PROXY_URL) if order.egress is not None else ProxyAddress()
        cell = await self._prepared.take(
            spec.replace(self._planner.make(order, SCRATCH, proxy), waits=True)
        )
        if cell is None:
            return None
        try:
            if cell.group is not None:
                cell.group.limit(with_supervisors(order.limits))
            cell.send(spec.GO)
        except OSError:  # it has just died, or already holds more than this order allows
            await self._end(cell)
            return None
        self._add_proxy(order, cell)
        return cell

    async def _start_new(self, order: CellOrder) -> LocalCell:
        id = secrets.token_hex(6)
        cell = self._fork(shares_folders=bool(order.writable))
        cell.shares_folders = bool(order.writable)
        try:
            # The process is forked meanwhile, and waits for its specification.
            if cell.uid is not None:
                for each in order.writable:
                    _give_folder(each, cell.uid)
            has_root = Layer.MOUNT_NAMESPACE in self._layers
            scratch = SCRATCH if has_root else self._make_scratch(id, cell)
            made = self._planner.make(order, scratch, self._proxy_address(order, cell), cell.uid)
            await self._begin(id, cell, made, order.limits)
        except BaseException:
            await self._end(cell)
            raise
        return cell

    async def _prepare(self, plan: spec.CellSpec) -> LocalCell:
        """Start a cell that waits for its work. Raises `SandboxFailed`."""
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
        """Fork a process that waits for its specification. Each cell is another user, except cells
        that write to the same folders. Raises `OSError` and `SandboxFailed`."""
        if self._is_closed:
            raise SandboxFailed("the sandbox is closed: the worker is shutting down")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        cell = LocalCell(ours, has_namespace=Layer.PID_NAMESPACE in self._layers)
        self._cells.add(cell)
        cell.cleanups.append(lambda: self._release(cell))
        if self._users is not None:
            cell.uid = SHARED_UID if shares_folders else self._users.take()
        try:
            with theirs:
                cell.pipes = self._forkserver.fork(theirs, cell.uid)
        except OSError:
            cell.disconnect()
            self._drop(cell)
            raise
        return cell

    async def _begin(
        self, id: str, cell: LocalCell, made: spec.CellSpec, limits: Limits | None
    ) -> None:
        if self._groups is not None:
            group = cell.group = self._groups.make(id, limits and with_supervisors(limits))
            made = spec.replace(made, groups=group.procs_files)
        made = spec.replace(made, uid=cell.uid)
        cell.send(spec.encode(made))
        await cell.begin()

    def _proxy_address(self, order: CellOrder, cell: LocalCell) -> ProxyAddress:
        """Return the proxy address of a cell.

        A cell with a network of its own opens the listening socket and hands it over. Otherwise the
        agent opens it, and the proxy asks for a password.
        """
        if order.egress is None:
            return ProxyAddress()
        if Layer.NET_NAMESPACE in self._layers:
            self._add_proxy(order, cell)
            return ProxyAddress(PROXY_PORT, PROXY_URL)
        password = secrets.token_hex(16)
        cell.proxy = EgressProxy(order.egress, check_egress=self._check_egress, password=password)
        cell.proxy_socket = socket.create_server(("127.0.0.1", 0))
        port = cell.proxy_socket.getsockname()[1]
        return ProxyAddress(port, f"http://cell:{password}@127.0.0.1:{port}")

    def _add_proxy(self, order: CellOrder, cell: LocalCell) -> None:
        if order.egress is not None:
            cell.proxy = EgressProxy(order.egress, check_egress=self._check_egress)

    def _make_scratch(self, id: str, cell: LocalCell) -> str:
        folder = self._folder
        made = folder.scratch(id) if cell.uid is None else folder.scratch_for(cell.uid, id)
        cell.cleanups.append(lambda: asyncio.to_thread(folder.discard, made))
        return str(made)

    async def _end(self, cell: LocalCell) -> None:
        await cell.clear()
        self._drop(cell)

    async def _release(self, cell: LocalCell) -> None:
        self._drop(cell)

    def _drop(self, cell: LocalCell) -> None:
        """Forget a cleared cell; may be called twice.

        A control group in which something still runs is tried again with each further cell, and the
        user of that cell is not used again.
        """
        if cell not in self._cells:
            return
        self._cells.discard(cell)
        if cell.group is not None and cell.has_left_group:
            log.warning("the control group of a cell cannot be removed yet", pid=cell.get_pid())
            self._stuck.append(cell.group)
        elif self._users is not None and cell.uid is not None:
            self._users.give_back(cell.uid)
        self._stuck = [group for group in self._stuck if not group.try_remove(by_force=True)]


_PREPARABLE: Final = frozenset(
    {*(Layer.MOUNT_NAMESPACE, Layer.PID_NAMESPACE, Layer.NET_NAMESPACE), Layer.USER_NAMESPACE}
)
"""The layers with which a cell does not depend on when it was made. Without them its folder and
its port belong to the machine, and its processes are counted together with others."""


def _cgroups(layers: frozenset[Layer], key: str) -> Cgroups | None:
    if Layer.CGROUP_V2 in layers:
        return CgroupsV2(key)
    return CgroupsV1(key) if Layer.CGROUP_V1 in layers else None


def _give_folder(folder: str, uid: int) -> None:
    """Change the owner of a folder, not of its contents; a link in its place is refused."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchown(fd, uid, uid)
    finally:
        os.close(fd)
