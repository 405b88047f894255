"""Errors in the background: nobody awaited the task that failed, and the program went on."""

import asyncio
import gc
import logging
import re
from asyncio.base_events import BaseEventLoop
from pathlib import Path
from typing import Any, Final

import pytest

from crawlfleet.event_loop import make_task

TOLD: Final = re.compile(
    r"was never retrieved|in the background|Traceback \(most recent call last\)"
    r"|Task was destroyed|Exception in callback|Exception ignored in"
)
"""How processes of ours, asyncio and Python tell of them; no process means to write a traceback."""
MEANT: Final = re.compile(r"Task cancelled, timeout graceful shutdown exceeded")
"""How uvicorn tells of a request that it has ended when its server was stopped."""
SHOWN: Final = 4000
THAW_EACH: Final = 200
"""Tests. Looking through everything takes a third of a second."""


def watch_loops() -> None:
    """Make the tasks of all loops of this process report their errors, as those of the program
    do."""
    plain = BaseEventLoop.__init__

    def begin(loop: BaseEventLoop, *arguments: Any, **options: Any) -> None:
        plain(loop, *arguments, **options)
        loop.set_task_factory(make_task)

    BaseEventLoop.__init__ = begin  # type: ignore[method-assign]


class Net(logging.Handler):
    """Collects what asyncio tells of this process: it tells it to its logger."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.setFormatter(logging.Formatter("%(message)s"))
        self._told: list[str] = []
        self._begun = 0

    def emit(self, record: logging.LogRecord) -> None:
        # Up to 3.11 Python's servers complain when their last connections are cancelled at the end.
        if not (record.exc_info and record.exc_info[0] is asyncio.CancelledError):
            self._told.append(self.format(record))

    def begin(self) -> None:
        """Look from now only at what is made from now, so that looking costs next to nothing.

        Python never collects what is frozen: the fixtures of modules that have ended would stay,
        so everything is looked at again now and then.
        """
        gc.collect()  # pytest lets the last test's fixtures go only after its end
        self._begun += 1
        if self._begun % THAW_EACH == 0:
            gc.unfreeze()
            gc.collect()
        gc.freeze()

    def check(self) -> None:
        """Fail if anything has been told. A task tells when it is collected, so that is done
        first."""
        gc.collect()
        told, self._told = self._told, []
        if told:
            pytest.fail("errors that nobody has read:\n" + "\n".join(told), pytrace=False)


def check_told(text: str, *, by: str, meant: str | None = None) -> None:
    """Fail if a process has told of such an error, but for lines in which `meant` is found."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        is_meant = MEANT.search(line) or (meant and re.search(meant, line))
        if TOLD.search(line) and not is_meant:
            rest = "\n".join(lines[max(number - 1, 0) : number + 40])
            pytest.fail(f"{by} tells of an error that nobody has read:\n{rest[:SHOWN]}")


def check_logs(folder: Path, *, meant: str | None = None) -> None:
    """Fail if a process of a fleet, whose data are in this folder or below, has logged such an
    error."""
    for file in sorted(folder.rglob("*.log*")):
        if file.is_file() and (file.parent.name == "logs" or file.name == "up.log"):
            check_told(file.read_text(errors="replace"), by=str(file), meant=meant)
