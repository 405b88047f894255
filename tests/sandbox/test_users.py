"""Cells of a worker that is root are each another user, and so cannot hurt each other."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.core.isolation import level_of
from crawlfleet.model.isolation import Level
from crawlfleet.ports.sandbox import CellOrder
from crawlfleet.sandbox import probe
from crawlfleet.sandbox.users import SHARED_UID, UserPool
from tests.support.cells import Ear, offer_of, run_in_cell, sandbox_in, script

slow = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="Linux only"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a plain user can become nobody else"),
]
HOLDER = """
import ctypes, json, os, time
held = 0
while ctypes.CDLL(None).inotify_init1(0) >= 0: held += 1
print(json.dumps({"uid": os.getuid(), "held": held}), flush=True)
time.sleep(300)
"""
LATER = """
import ctypes, json, os
print(json.dumps({"uid": os.getuid(), "watches": ctypes.CDLL(None).inotify_init1(0) >= 0}))
"""
VICTIM = """
echo secret > note
echo "{\\"uid\\": $(id -u), \\"pid\\": $$, \\"cwd\\": \\"$PWD\\"}"
sleep 300
"""
MURDERER = """
tried() { if "$@" > /dev/null 2>&1; then echo true; else echo false; fi; }
kills=$(tried kill -9 $1) hears=$(tried cat /proc/$1/environ) reads=$(tried cat $2/note)
echo "{\\"uid\\": $(id -u), \\"did\\": [$kills, $hears, $reads]}"
"""


def side_by_side(
    folder: Path, level: Level, first: CellOrder, then: Callable[[dict[str, Any]], CellOrder]
) -> list[dict[str, Any]]:
    """What one cell says, and what another that is made by that and runs at the same time."""

    async def main() -> list[dict[str, Any]]:
        async with sandbox_in(folder, offer_of(level)) as sandbox, asyncio.timeout(60):
            cell, ear = await sandbox.start(first, Ear)
            while b"\n" not in ear.output[1]:
                assert not ear.exited.is_set(), ear.output
                await asyncio.sleep(0.01)
            said = json.loads(ear.output[1])
            run = await run_in_cell(sandbox, then(said))
            assert run.lines, run
            assert cell.get_returncode() is None
            return [said, run.lines[0]]

    found = asyncio.run(main())
    uids = {each["uid"] for each in found}
    assert len(uids) == 2
    assert min(uids) > SHARED_UID
    return found


class TestInCells:
    pytestmark = slow

    def test_what_the_kernel_counts_by_user_is_not_taken_from_others(self, tmp_path: Path) -> None:
        level = level_of(frozenset(probe.detect().layers))
        if level < Level.L3:
            pytest.skip(f"only {level} here")
        hold = script(HOLDER, files=1024)
        holder, later = side_by_side(tmp_path / "s", level, hold, lambda _: script(LATER))
        assert holder["held"] > 16
        assert later["watches"]

    def test_they_are_strangers_where_nothing_else_is_between_them(self, tmp_path: Path) -> None:
        def then(victim: dict[str, Any]) -> CellOrder:
            arguments = (MURDERER, "sh", str(victim["pid"]), victim["cwd"])
            return CellOrder(command=("/bin/sh", "-c", *arguments))

        first = CellOrder(command=("/bin/sh", "-c", VICTIM))
        _, said = side_by_side(tmp_path / "s", Level.L0, first, then)
        assert said["did"] == [False, False, False]

    def test_those_that_write_to_the_same_folder_are_the_same_user(self, tmp_path: Path) -> None:
        shared = tmp_path / "shared"
        shared.mkdir(mode=0o700)

        async def main() -> list[int]:
            async with sandbox_in(tmp_path / "sandbox", offer_of()) as sandbox:
                for number in range(2):
                    text = f"import os; open('{shared}/{number}', 'w'); os.listdir('{shared}')"
                    command = (sys.executable, "-I", "-c", text)
                    run = await run_in_cell(
                        sandbox, CellOrder(command=command, writable=(str(shared),))
                    )
                    assert run.code == 0, run
            return [path.stat().st_uid for path in shared.iterdir()]

        assert asyncio.run(main()) == [SHARED_UID, SHARED_UID]


def test_a_user_is_free_again_when_its_cell_is_gone() -> None:
    users = UserPool("k1")
    first, second = users.take(), users.take()
    assert first != second
    users.give_back(first)
    assert users.take() == first


def test_when_all_are_taken_the_common_one_is_left() -> None:
    users = UserPool("k1")
    taken = [users.take() for _ in range(306)]
    assert len({*taken, SHARED_UID}) == 307
    assert users.take() == users.take() == SHARED_UID
    users.give_back(SHARED_UID)
    users.give_back(taken[0])
    assert users.take() == taken[0]
    assert users.take() == SHARED_UID
