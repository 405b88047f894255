"""A command in a terminal of its own, and what a person would see there."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

import pyte
import pytest

from tests.unread_errors import check_told

T = TypeVar("T")

CTRL_C: Final = b"\x03"
DEADLINE_S: Final = 90.0
"""For what takes a few seconds: the machine may be busy with something else."""
READ_BYTES: Final = 65_536
FIGURES: Final = re.compile(r"([\d,]+) pages +[\d,.]+/s +([\d,]+) waiting +([\d,]+) items")
"""The line of a crawl that is under way."""


def program(*words: str) -> list[str]:
    return [sys.executable, "-m", "crawlfleet", *words]


def surroundings(home: str, **more: str) -> dict[str, str]:
    """An environment without settings of crawlfleet, nor of the terminal that the tests run in."""
    left_out = re.compile(r"CRAWLFLEET_|COLUMNS$|LINES$|NO_COLOR$|FORCE_COLOR$|XDG_")
    kept = {name: each for name, each in os.environ.items() if not left_out.match(name)}
    return {**kept, "HOME": home, "TERM": "xterm-256color", **more}


def _own_terminal() -> None:
    """Runs in the child. A script in the background ignores SIGINT; a terminal does not."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Terminal:
    """A context manager: the command runs while it is entered, and is killed at the end."""

    def __init__(
        self, words: Sequence[str], *, columns: int, environment: Mapping[str, str], lines: int = 40
    ) -> None:
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._near, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._written = bytearray()
        self._process = subprocess.Popen(
            words,
            stdin=far,
            stdout=far,
            stderr=far,
            env=environment,
            start_new_session=True,
            preexec_fn=_own_terminal,
        )
        os.close(far)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._near)

    @property
    def screen(self) -> str:
        """What is seen now, without what is empty."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def press(self, keys: bytes) -> None:
        os.write(self._near, keys)

    def until(self, seen: Callable[[str], T | None], *, within_s: float = DEADLINE_S) -> T:
        """What is wanted of the screen, once it is there; fails if the command ends before."""
        deadline = time.monotonic() + within_s
        while not (found := seen(self.screen)):
            if not self._read(deadline):
                pytest.fail(f"it was not seen; the screen:\n{self.screen}")
        return found

    def end(self, *, within_s: float = DEADLINE_S) -> int:
        """The exit code, once the command has ended and all that it wrote is seen."""
        deadline = time.monotonic() + within_s
        while self._read(deadline):
            pass
        try:
            code = self._process.wait(max(deadline - time.monotonic(), 1.0))
        except subprocess.TimeoutExpired:
            pytest.fail(f"it did not end; the screen:\n{self.screen}")
        check_told(self._written.decode(errors="replace"), by="the terminal")
        return code

    def _read(self, deadline: float) -> bool:
        """Wait for something to be written; `False` when nothing comes any more."""
        ready, _, _ = select.select([self._near], [], [], max(deadline - time.monotonic(), 0.0))
        try:
            data = os.read(self._near, READ_BYTES) if ready else b""
        except OSError:  # the other side is closed
            return False
        self._written += data
        self._stream.feed(data)
        return bool(data)


def figures(screen: str) -> tuple[int, int, int] | None:
    """Pages, URLs that wait and items of a crawl under way, as its one line of progress says."""
    found = FIGURES.findall(screen)
    assert len(found) < 2, f"progress is seen twice:\n{screen}"
    pages, waiting, items = (int(each.replace(",", "")) for each in found[0]) if found else [0] * 3
    return (pages, waiting, items) if found else None


def pages_beyond(least: int) -> Callable[[str], int | None]:
    """How many pages a crawl has, once they are more than that."""

    def seen(screen: str) -> int | None:
        shown = figures(screen)
        return shown[0] if shown is not None and shown[0] > least else None

    return seen


def ending(screen: str) -> dict[str, str]:
    """The lines of the summary at the end of a crawl, by their names."""
    _, _, after = screen.partition("\nfinished\n")
    rows = (line.split(maxsplit=1) for line in after.splitlines() if line[:1].strip())
    return {row[0]: row[1] for row in rows if len(row) == 2}
