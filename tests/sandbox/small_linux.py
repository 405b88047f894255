"""A Linux of its own as a plain process (user-mode-linux), with this machine's files to read.

Where the machine has no controllers of control groups version 2, this has: so that what L4 writes
can be seen to be obeyed. `python -m tests.sandbox.small_linux` is what runs within it: cells are
measured, once where the worker is in the topmost group and once in one that was delegated to it.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from crawlfleet.core.isolation import choose
from crawlfleet.model.isolation import Isolation
from crawlfleet.sandbox import probe
from tests.sandbox.escapes import outcomes_as
from tests.support.cells import (
    CpuShare,
    MemoryDeath,
    cpu_shares,
    memory_at_death,
    sandbox_in,
    tree_gone_s,
)
from tests.support.confined_pool import measure_residue

KERNELS: Final = ("linux.uml", "linux")
SAYS: Final = "SEEN "
PLACE: Final = "/mnt"
ROOT: Final = Path(__file__).parents[2]
POWER_OFF: Final = 0x4321FEDC
BOOT: Final = """#!/bin/sh
export HOME={place} TMPDIR={place}/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp {place}
mount -t cgroup2 none /sys/fs/cgroup
mkdir {place}/tmp /dev/shm
mount -t tmpfs shm /dev/shm
ip link set lo up
chmod 1777 {place}/tmp
export PYTHONDONTWRITEBYTECODE=1 LANG=C.UTF-8
cd {root}
{python} -m tests.sandbox.small_linux
{python} -c 'import ctypes; ctypes.CDLL(None).reboot({power_off})'
"""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of cells within."""

    group: str
    isolation: Isolation
    memory: MemoryDeath
    shares: list[CpuShare]
    tree_gone_s: float
    left: dict[str, list[str]]
    attempts: dict[str, bool] = {}
    """Those to break out, and whether each was held; where they were tried."""


def find_kernel() -> str | None:
    """The program that is a kernel, if it is installed (Debian: user-mode-linux)."""
    return next((found for name in KERNELS if (found := shutil.which(name))), None)


def boot(kernel: str, folder: Path, *, timeout_s: float) -> tuple[list[Seen], str]:
    """Boot it, and hear what it has seen; and all that it said."""
    script = folder / "init"
    script.write_text(
        BOOT.format(place=PLACE, root=ROOT, python=sys.executable, power_off=POWER_OFF)
    )
    script.chmod(0o755)
    done = subprocess.run(
        [
            *(kernel, "mem=768M", "rootfstype=hostfs", "rootflags=/", "ro", f"init={script}"),
            *("con=null", "con0=null,fd:1", "quiet", "panic=-1", f"uml_dir={folder}"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout_s,
        check=False,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    said = done.stdout.decode(errors="replace")
    lines = [line for line in said.splitlines() if line.startswith(SAYS)]
    return [msgspec.json.decode(line[len(SAYS) :], type=Seen) for line in lines], said


def main() -> None:
    for group in ("", "delegated"):
        if group:
            own = Path("/sys/fs/cgroup", group)
            with contextlib.suppress(FileExistsError):
                own.mkdir()
            (own / "cgroup.procs").write_text(str(os.getpid()))
        seen = asyncio.run(_look(group))
        if group:
            tried = outcomes_as(None, seen.isolation.level)
            held = {each.name: each.held for each in tried}
            seen = msgspec.structs.replace(seen, attempts=held)
        sys.stdout.write(f"{SAYS}{msgspec.json.encode(seen).decode()}\n")
        sys.stdout.flush()


async def _look(group: str) -> Seen:
    offer, _ = choose("auto", probe.detect())
    place = Path(PLACE, group or "top")
    async with sandbox_in(place / "limits", offer) as sandbox:
        memory = await memory_at_death(sandbox, 64)
        shares = await cpu_shares(sandbox, (0.5, 0.25), seconds=4)
        gone = await tree_gone_s(sandbox, 50)
    residue = await measure_residue(place / "residue", offer, 20)
    return Seen(
        group=group,
        isolation=offer,
        memory=memory,
        shares=shares,
        tree_gone_s=gone,
        left=residue.left,
    )


if __name__ == "__main__":
    main()
