"""A cell as the agent holds it; its other end is played by hand."""

import asyncio
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from crawlfleet.core.network.egress import refused_by_lists
from crawlfleet.errors import SandboxFailed
from crawlfleet.model.isolation import Isolation, Layer
from crawlfleet.ports.sandbox import CellOrder
from crawlfleet.sandbox.cell.cell import LocalCell
from crawlfleet.sandbox.cell.plan import SCRATCH, CellPlanner, ProxyAddress
from crawlfleet.sandbox.folder import SandboxFolder
from crawlfleet.sandbox.kernel.cgroups import Cgroup
from crawlfleet.sandbox.launcher import LocalSandbox
from crawlfleet.sandbox.spec import CellSpec, CellStatus, encode

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")


def number_of_an_ended_process() -> int:
    """As far as can be told by polling it."""
    ours, theirs = os.pipe()
    os.close(theirs)
    return ours


def open_files() -> set[tuple[str, str]]:
    """Each by its number and what it is. They are not counted: what other tests have left may be
    closed meanwhile."""
    found = set()
    for file in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing itself
            found.add((file.name, str(file.readlink())))
    return found


def test_a_proxy_socket_that_comes_after_the_end_are_closed() -> None:
    async def scenario() -> None:
        before = open_files()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        cell = LocalCell(ours, has_namespace=False)
        # Whoever started it has given up, and it is ended before it says that it began.
        clearing = asyncio.create_task(cell.clear())
        await asyncio.sleep(0)
        number, door = number_of_an_ended_process(), socket.create_server(("127.0.0.1", 0))
        where = door.getsockname()
        socket.send_fds(theirs, [encode(CellStatus(begun=1))], [number, door.fileno()])
        os.close(number)
        door.close()
        theirs.close()
        await clearing
        assert not open_files() - before
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(where)

    asyncio.run(scenario())


def test_files_that_nobody_asked_for_are_closed() -> None:
    async def scenario() -> None:
        before = open_files()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        cell = LocalCell(ours, has_namespace=False)
        number = number_of_an_ended_process()
        for data in (encode(CellStatus(begun=1)), encode(CellStatus(begun=1)), b"nonsense"):
            socket.send_fds(theirs, [data], [number])
        os.close(number)
        theirs.close()
        await cell.clear()
        assert not open_files() - before

    asyncio.run(scenario())


class Stuck(Cgroup):
    """A control group in which something cannot end, until it can."""

    def __init__(self) -> None:
        super().__init__([])
        self.is_free = False
        self.tries = 0

    async def remove(self) -> bool:
        return self.is_free

    def try_remove(self, *, by_force: bool = False) -> bool:
        self.tries += 1
        return self.is_free


def test_a_group_that_cannot_be_removed_yet_is_tried_again_with_the_next_cells(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        sandbox = LocalSandbox(
            isolation=Isolation(), folder=SandboxFolder(tmp_path), check_egress=refused_by_lists
        )
        stuck = Stuck()
        tries = []
        for group, is_free in ((stuck, False), (None, False), (None, True), (None, True)):
            stuck.is_free = is_free
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            theirs.close()
            cell = LocalCell(ours, has_namespace=False)
            cell.group = group
            sandbox._cells.add(cell)
            await sandbox._end(cell)
            tries.append(stuck.tries)
        assert tries == [1, 2, 3, 3]
        await sandbox.close()

    asyncio.run(scenario())


def test_its_end_goes_on_though_whoever_waits_for_it_is_cancelled() -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.close()
        cell = LocalCell(ours, has_namespace=False)
        may_go_on, removed = asyncio.Event(), []

        async def remove(what: str) -> None:
            await may_go_on.wait()
            removed.append(what)

        cell.cleanups += [lambda: remove("first"), lambda: remove("second")]
        first, second = (asyncio.create_task(cell.clear()) for _ in range(2))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        assert not second.done()
        may_go_on.set()
        await second
        await cell.clear()
        assert removed == ["second", "first"]

    asyncio.run(scenario())


def test_no_cell_is_made_once_the_sandbox_is_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        sandbox = LocalSandbox(
            isolation=Isolation(), folder=SandboxFolder(tmp_path), check_egress=refused_by_lists
        )
        await sandbox.close()
        await sandbox.open()
        with pytest.raises(SandboxFailed, match="shutting down"):
            await sandbox.start(CellOrder(command=("true",)), asyncio.SubprocessProtocol)
        assert sandbox._forkserver._process is None
        assert sandbox._cells == set()

    asyncio.run(scenario())


def test_a_hidden_file_in_a_folder_that_cells_see_is_refused(tmp_path: Path) -> None:
    """Whatever is put over it would be gone when it is renewed; over a folder it stays."""
    shop, data = tmp_path / "shop", tmp_path / "shop" / "data"
    data.mkdir(parents=True)
    secret = shop / "node.json"

    def plan(*hidden: Path) -> CellSpec:
        plans = CellPlanner(
            (Layer.MOUNT_NAMESPACE,),
            base=str(tmp_path / "base"),
            hidden=tuple(map(str, hidden)),
            kept={},
            environ={},
        )
        return plans.make(CellOrder(readable=(str(shop),)), SCRATCH, ProxyAddress())

    for _ in range(2):
        with pytest.raises(SandboxFailed, match="must not be seen"):
            plan(data, secret)
        secret.touch()
    assert str(data) in plan(data, data / "node.json").hidden
