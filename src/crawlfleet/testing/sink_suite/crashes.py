"""A process stages and commits in a loop, and is killed at any moment, again and again."""

import asyncio
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from crawlfleet.ports.sink import Sink
from crawlfleet.testing.sink_suite.harness import SinkHarness, kept, pages

KILLS: Final = 25
LONGEST_S: Final = 0.12
START_S: Final = 60.0
CHILDREN: Final = multiprocessing.get_context("forkserver")


class Maker(Protocol):
    """Makes the sink of a folder; must be importable by the child's process."""

    def __call__(self, folder: Path) -> Sink: ...


class Journal:
    """The commits of a crawl, each one line, durable before the next begins: as a frontier does."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def last(self) -> tuple[int, Any]:
        """Up to which page all are committed, and the receipt of the sink."""
        lines = self._path.read_bytes().split(b"\n")[:-1] if self._path.exists() else []
        if not lines:
            return 0, None
        upto, receipt = msgspec.json.decode(lines[-1])
        return upto, receipt

    def commit(self, upto: int, receipt: Any) -> None:
        whole = self._path.read_bytes() if self._path.exists() else b""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT)
        try:
            # A line that a killed process left unfinished was never committed.
            os.ftruncate(descriptor, whole.rfind(b"\n") + 1)
            os.lseek(descriptor, 0, os.SEEK_END)
            os.write(descriptor, msgspec.json.encode([upto, receipt]) + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @property
    def size(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0


async def stage_and_commit(make: Maker, folder: Path, journal: Journal, seed: int) -> None:
    """Go on where the last life was committed, without end."""
    chance = random.Random(seed)
    upto, receipt = journal.last()
    sink = make(folder)
    await sink.open(receipt)
    if receipt is None:
        journal.commit(0, await sink.stage([]))
    while True:
        following = upto + chance.randrange(1, 12)
        receipt = await sink.stage(pages(range(upto, following)))
        if chance.random() < 0.1:  # a commit that is refused
            await sink.open(kept(journal.last()[1]))
            continue
        journal.commit(following, receipt)
        upto = following


def _run(make: Maker, folder: Path, journal: Path, seed: int) -> None:
    asyncio.run(stage_and_commit(make, folder, Journal(journal), seed))


class CrashTests(SinkHarness):
    MAKE: Maker
    """A function of a module, wrapped in `staticmethod`, that `make_sink` calls, too."""

    def test_output_has_each_committed_page_once_after_many_kills(self, tmp_path: Path) -> None:
        chance = random.Random(tmp_path.name)
        folder = tmp_path / "output"
        folder.mkdir()
        self.make_sink(folder)  # whatever a new output needs is there before the first child
        path = tmp_path / "journal"
        journal = Journal(path)
        cut_short = 0
        for life in range(KILLS):
            before = journal.size
            child = CHILDREN.Process(target=_run, args=(type(self).MAKE, folder, path, life))
            child.start()
            deadline = time.monotonic() + START_S
            while child.is_alive() and journal.size <= before and time.monotonic() < deadline:
                child.join(0.002)
            child.join(chance.random() * LONGEST_S)
            child.kill()
            child.join(START_S)
            assert child.exitcode == -signal.SIGKILL, "the child failed by itself: see its output"
            cut_short += journal.size > before
        assert cut_short == KILLS
        upto, receipt = journal.last()
        assert upto > KILLS

        async def finish() -> None:
            sink = self.make_sink(folder)
            await sink.open(receipt)
            await sink.finish()

        asyncio.run(finish())
        self.check(folder, range(upto))
