"""A process in a cell is ended as a cell, from the first byte that is heard of it."""

import asyncio
import os
from collections.abc import Callable
from typing import Any, cast

import pytest

from crawlfleet.errors import SandboxFailed
from crawlfleet.model.isolation import Isolation
from crawlfleet.ports.sandbox import Cell, CellOrder
from crawlfleet.worker import pipe
from crawlfleet.worker.process import Child, FailedStart


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

    async def start(self, order: CellOrder, make: Callable[[], Any]) -> tuple[Cell, Any]:
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
        hello = cast("pipe.Hello", None)
        with pytest.raises(FailedStart):
            await Child.confine("python", CellOrder(), sandbox, hello, 1.0)

    asyncio.run(main())
    assert groups == []
    assert sandbox.cell.kills >= 1
