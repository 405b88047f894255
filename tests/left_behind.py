"""Finds what a test has left running: processes, threads, and signals that mean something else.

What a fixture of a wider scope has started belongs to that fixture until it ends. All else must be
gone when the test is: it is ended here, and the test that left it fails.
"""

import contextlib
import ctypes
import os
import re
import select
import signal
import sys
import threading
import time
import weakref
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

GONE_WITHIN_S: Final = 10.0
"""What was told to end may take so long on a busy machine."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)
OF_NO_TEST: Final = ("from multiprocessing.forkserver import", "from multiprocessing.resource_")
"""Two processes that Python starts once, when it first needs them, and keeps to its own end."""
OF_PYCARES: Final = "(_run_safe_shutdown_loop)"
"""In the name of a thread that pycares starts once, and keeps."""
OF_LOOPS: Final = "asyncio_"
"""The names of threads begin so that an event loop starts and keeps for what blocks."""
ENDED: Final = ("Z", "X")
"""States of processes as ps(1) has them."""
PR_SET_CHILD_SUBREAPER: Final = 36


class Process(NamedTuple):
    """A process, told apart from a later one of the same number."""

    pid: int
    started: str

    @property
    def is_alive(self) -> bool:
        return living(self.pid) == self

    @property
    def command(self) -> str:
        """What it runs; empty when it is gone."""
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
            return b" ".join(words).decode(errors="replace").strip()
        return ""


def adopt_orphans() -> None:
    """Have orphans among the descendants of this process become children of this process."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class LeftBehind:
    """Compares what runs at the end of a test with what ran before it."""

    def __init__(self) -> None:
        adopt_orphans()
        self._known: dict[object, set[Process]] = {}
        """Processes with all their descendants that may be there, by whom they belong to."""
        self._of_no_test: set[Process] = set()
        self._commands: dict[object, dict[str, Process]] = {}
        """What owners run, by the command; they may end it, and start it again."""
        self._known[None] = {*self._descendants()}
        self._threads: dict[object, set[threading.Thread]] = {None: {*threading.enumerate()}}
        self._starters = weakref.WeakKeyDictionary[threading.Thread, threading.Thread]()
        self._note_starters()
        self._signals = {each: signal.getsignal(each) for each in SIGNALS}

    @contextlib.contextmanager
    def starting(self, owner: object) -> Iterator[None]:
        """What is started meanwhile belongs to `owner` until `ended(owner)`."""
        threads = {*threading.enumerate()}
        there = {*self._descendants()}
        try:
            yield
        finally:
            self._known[owner] = {*self._descendants()} - there
            own = {each for each in self._known[owner] if each.pid in _children(os.getpid())}
            self._commands[owner] = {_without_numbers(each.command): each for each in own}
            self._threads[owner] = {*threading.enumerate()} - threads

    def ended(self, owner: object) -> None:
        """Nothing of `owner` may be there any more."""
        self._known.pop(owner, None)
        self._commands.pop(owner, None)
        self._threads.pop(owner, None)

    def end(self, *, with_loops: bool = True) -> list[str]:
        """End what should not be there; what it was, in words. `with_loops`: no fixture has an
        event loop in this thread any more, so that threads of one are nobody's."""
        threads = self._end_threads(with_loops=with_loops)
        return [*self._end_processes(), *threads, *self._restore_signals()]

    def reap(self) -> None:
        """Forget children that have ended, and for which nobody waits any more."""
        known = {each.pid for group in self._known.values() for each in group}
        for pid in _children(os.getpid()):
            if pid not in known and living(pid) is None:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _note_starters(self) -> None:
        start = threading.Thread.start

        def noted(thread: threading.Thread) -> None:
            self._starters[thread] = threading.current_thread()
            start(thread)

        threading.Thread.start = noted  # type: ignore[method-assign]

    def _end_processes(self) -> Iterator[str]:
        _await_ends(self._descendants(), time.monotonic() + GONE_WITHIN_S)
        ended: set[Process] = set()
        # Again until there is none: what is ended may have started another just before.
        while found := {*self._descendants()} - ended:
            # All of them before the first is ended: others may end with it.
            yield from [f"process {each.pid}: {each.command}" for each in found]
            for process in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            _await_ends(found, time.monotonic() + GONE_WITHIN_S)
            ended |= found

    def _end_threads(self, *, with_loops: bool) -> Iterator[str]:
        known = set[threading.Thread]().union(*self._threads.values())
        deadline = time.monotonic() + GONE_WITHIN_S
        for thread in threading.enumerate():
            is_known = thread in known or not known.isdisjoint(self._starters_of(thread))
            if is_known or OF_PYCARES in thread.name:
                continue
            if thread.name.startswith(OF_LOOPS) and not with_loops:
                continue
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                yield f"thread {thread.name}"
                self._threads[None].add(thread)  # nothing can end it

    def _starters_of(self, thread: threading.Thread) -> Iterator[threading.Thread]:
        """The one that started it, and the one that started that; without the main thread."""
        starter = self._starters.get(thread)
        while starter is not None and starter is not threading.main_thread():
            yield starter
            starter = self._starters.get(starter)

    def _restore_signals(self) -> Iterator[str]:
        for number, handler in self._signals.items():
            if (found := signal.getsignal(number)) != handler:
                yield f"{number.name} with the handler {found}, it had {handler}"
                signal.signal(number, handler)

    def _descendants(self) -> Iterator[Process]:
        """Those that live, without the known ones and their descendants."""
        known = set[Process]().union(*self._known.values())
        waiting = _children(os.getpid())
        while waiting:
            pid = waiting.pop()
            process = living(pid)
            if process is None or process in known or self._is_started_again(process):
                continue
            if not self._is_of_no_test(process):
                yield process
            waiting += _children(pid)

    def _is_started_again(self, process: Process) -> bool:
        command = _without_numbers(process.command)
        for owner, commands in self._commands.items():
            if command in commands and not commands[command].is_alive:
                commands[command] = process
                self._known[owner].add(process)
                return True
        return False

    def _is_of_no_test(self, process: Process) -> bool:
        if process not in self._of_no_test and any(
            words in process.command for words in OF_NO_TEST
        ):
            self._of_no_test.add(process)
        return process in self._of_no_test


def _without_numbers(command: str) -> str:
    """Such as those of other processes, which differ from one start to the next."""
    return re.sub(r"\d+", "0", command)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def living(pid: int) -> Process | None:
    """The process of that number; `None` when it has ended, though its parent may not know yet."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ENDED else Process(pid, fields[19])


def _await_ends(processes: Iterable[Process], deadline: float) -> None:
    for process in processes:
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(process.pid)
            try:
                if process.is_alive:
                    select.select([handle], (), (), max(0.0, deadline - time.monotonic()))
            finally:
                os.close(handle)


class Watch:
    """The plugin that asks after each test."""

    def __init__(self) -> None:
        self._left: LeftBehind | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Know what ran before the first test."""
        self._left = self._left or LeftBehind()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any]
    ) -> Generator[None, object, object]:
        """What a fixture of several tests starts may outlive the first of them."""
        if self._left is None or fixturedef.scope == "function":
            return (yield)
        with self._left.starting(fixturedef):
            return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """It is over, and so is what it had started."""
        if self._left is not None:
            self._left.ended(fixturedef)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Nothing of a test outlives it, nor of the fixtures that end with it."""
        result = yield
        if self._left is None:
            return result
        is_last = nextitem is None or nextitem.path != item.path
        if words := self._left.end(with_loops=is_last):
            pytest.fail("left behind, and ended now:\n" + "\n".join(words), pytrace=False)
        if is_last:
            self._left.reap()
        return result
