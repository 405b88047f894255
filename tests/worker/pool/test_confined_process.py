"""A process in a cell is ended as a cell, from the first byte that is heard of it."""

import asyncio
import os
from collections.abc import Callable
from typing import Any, cast

import pytest

from crawlfleet.errors import SandboxFailed
from crawlfleet.model.isolation import Isolation
from crawlfleet.ports.sandbox import Cell, CellOrder
from crawlfleet.worker.pool import protocol
from crawlfleet.worker.pool.process import ExecutorProcess, ProcessNotStarted


class FakeCell:
    """As much of a cell as is used before it is handed over."""

    def __init__(self) -> None:
        self.kills = 0

    def get_pid(self) -> int:
        return os.getpid()

    def kill(self) -> None:
        self.kills += 1


class HastySandbox:
    """Its cells speak while they are still being connected."""

    def __init__(self, said: bytes) -> None:
        self.said = said
        self.cell = FakeCell()

    @property
    def isolation(self) -> Isolation:
        return Isolation()

    async def open(self) -> None:
        return None

    async def start(
        self, order: CellOrder, make: Callable[[], Any], *, ahead: bool = True
    ) -> tuple[Cell, Any]:
        child = make()
        child.connection_made(self.cell)
        child.pipe_data_received(1, self.said)
        child.kill()
        raise SandboxFailed("the rest of it is of no interest")

    async def close(self) -> None:
        return None


@pytest.mark.parametrize("said", [b"", b"this is no message\n"])
def test_it_is_killed_as_a_cell_before_it_is_connected(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, _: groups.append(group))
    sandbox = HastySandbox(said)

    async def main() -> None:
        hello = cast("protocol.Hello", None)
        with pytest.raises(ProcessNotStarted):
            await ExecutorProcess.confine("python", CellOrder(), sandbox, hello, 1.0)

    asyncio.run(main())
    assert groups == []
    assert sandbox.cell.kills >= 1


class Remains(FakeCell):
    """A cell that nothing is left of."""

    is_made_ahead = False

    def get_returncode(self) -> int:
        return -9

    def get_pipe_transport(self, fd: int) -> None:
        return None

    def reason(self) -> str:
        return ""

    def close(self) -> None:
        return None

    async def clear(self) -> None:
        return None


class Mortuary(HastySandbox):
    """Its cells are dead when they are to say `ready`; those made on demand only if so told."""

    def __init__(self, *, dies_always: bool) -> None:
        super().__init__(b"")
        self.asked: list[bool] = []
        self._dies_always = dies_always

    async def start(
        self, order: CellOrder, make: Callable[[], Any], *, ahead: bool = True
    ) -> tuple[Cell, Any]:
        self.asked.append(ahead)
        cell = Remains()
        cell.is_made_ahead = ahead
        child = make()
        child.connection_made(cell)
        if ahead or self._dies_always:
            child.pipe_connection_lost(2, None)
            child.process_exited()
            child.pipe_connection_lost(1, None)
        else:
            child.pipe_data_received(1, protocol.encode(protocol.Ready(protocol=protocol.PROTOCOL)))
        return cast("Cell", cell), child


def test_work_gets_another_cell_if_the_one_made_ahead_died_before_it_began() -> None:
    sandbox = Mortuary(dies_always=False)
    child = asyncio.run(
        ExecutorProcess.confine("", CellOrder(), sandbox, protocol.Hello(ahead=0), 1.0)
    )
    assert child.is_confined
    assert sandbox.asked == [True, False]


def test_a_cell_made_on_demand_that_dies_is_not_tried_again() -> None:
    sandbox = Mortuary(dies_always=True)
    with pytest.raises(ProcessNotStarted, match="SIGKILL before it was ready"):
        asyncio.run(ExecutorProcess.confine("", CellOrder(), sandbox, protocol.Hello(ahead=0), 1.0))
    assert sandbox.asked == [True, False]
