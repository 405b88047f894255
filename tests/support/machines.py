"""Machines that are not quite well: cut off, with a full disk, or with a wrong clock.

Linux, and the rights of root for networks and disks; whoever lacks them is told so.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.servers import ServerMissing

FAKETIME: Final = "/usr/lib/*/faketime/libfaketime.so.1"


class Network:
    """A network of its own with one cable to this machine."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.near = f"10.213.{number}.1"
        """This machine's address on the cable."""
        self.far = f"10.213.{number}.2"

    @property
    def within(self) -> tuple[str, ...]:
        """What starts a program in it."""
        return ("ip", "netns", "exec", self.name)

    def cut(self) -> None:
        """Nothing passes any more; neither end is told."""
        _run("ip", "netns", "exec", self.name, "ip", "link", "set", f"{self.name}-b", "down")

    def heal(self) -> None:
        _run("ip", "netns", "exec", self.name, "ip", "link", "set", f"{self.name}-b", "up")


@contextlib.contextmanager
def network(number: int) -> Iterator[Network]:
    """A network namespace, gone at the end; `number` is one that nobody uses meanwhile."""
    _demand_root("a network of its own")
    made = Network(f"cf{os.getpid()}n{number}"[:13], number)
    here, there = f"{made.name}-a", f"{made.name}-b"
    _run("ip", "netns", "add", made.name)
    try:
        _run("ip", "link", "add", here, "type", "veth", "peer", "name", there)
        _run("ip", "link", "set", there, "netns", made.name)
        _run("ip", "addr", "add", f"{made.near}/30", "dev", here)
        _run("ip", "link", "set", here, "up")
        _run(*made.within, "ip", "addr", "add", f"{made.far}/30", "dev", there)
        _run(*made.within, "ip", "link", "set", there, "up")
        _run(*made.within, "ip", "link", "set", "lo", "up")
        yield made
    finally:
        # The cable goes with it.
        _run("ip", "netns", "delete", made.name)


@contextlib.contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[Path]:
    """A folder on a disk of its own, of that size."""
    _demand_root("a disk of its own")
    folder.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        _run("umount", "--lazy", str(folder))


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Not a byte is free on the disk of that folder."""
    filler = folder / "filler"
    try:
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        yield
    finally:
        filler.unlink()


def wrong_clock(offset: str) -> dict[str, str]:
    """The environment of a process whose clock is wrong: `+1d`, `-3h`.

    Its monotonic clock is right, as that of every machine is.
    """
    found = [*Path("/").glob(FAKETIME.removeprefix("/"))]
    if not found:
        raise ServerMissing("libfaketime is not installed; on Debian: apt-get install libfaketime")
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME": offset,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


class SetClock:
    """The clock of processes that somebody sets while they run; their monotonic clock goes on."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set("+0")
        self.environment = {
            **wrong_clock("+0"),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
        }
        del self.environment["FAKETIME"]

    def set(self, offset: str) -> None:
        """From now on it differs from the right time by so much: `+1h`, `-3h`."""
        draft = self._file.with_suffix(".draft")
        draft.write_text(f"{offset}\n")
        draft.replace(self._file)


def _demand_root(what: str) -> None:
    if os.geteuid() != 0:
        raise ServerMissing(f"only root can make {what}; run these tests as root")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
