"""`python -m bench.crawl.sampler FILE crawl …` is `crawlfleet crawl …` with a sampler in it.

Each time that the process has used a little CPU, what the main thread has used since the last
time is put down to the part of crawlfleet that is running. Other threads have clocks of their own.
"""

import contextlib
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

EVERY_S: Final = 0.002
THREADS_EVERY: Final = 16
LOOP: Final = "event loop, sockets, waiting for threads"
START: Final = "start-up"
PARTS: Final = {
    "parse": ("crawl.markup:tree",),
    "links": (
        *("crawl.links", "crawl.discover", "crawl.markup:leads", "crawl.markup:base"),
        *("core.canonical", "core.scope", "core.traps", "core.noise"),
    ),
    "extraction": (
        *("crawl.extract", "crawl.fields", "crawl.searching", "crawl.nesting", "crawl.texts"),
        *("core.css", "core.values", "model.extraction"),
    ),
    "charset, title, signs": (
        *("crawl.charset", "crawl.reading", "crawl.markup", "crawl.cutting"),
        *("core.page_signs", "core.robots_tags"),
    ),
    "fetch": (
        *("crawl.fetch", "crawl.wire", "crawl.pool", "crawl.request", "crawl.dial", "crawl.watch"),
        *("crawl.answer", "crawl.decoding", "crawl.names", "crawl.page"),
    ),
    "frontier": ("backends", "model.frontier", "ports.frontier"),
    "sink": ("sinks", "ports.sink"),
    "engine, politeness, robots": ("crawl", "core"),
}
"""By the beginnings of the names of our modules; the first part that fits counts."""
SHARED: Final = frozenset({"crawl.markup:find"})
"""Put down to whoever calls them."""


class Sampler:
    """Sums up CPU-seconds by part while it is entered."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._known: dict[str, str] = {}
        self._threads: dict[int, tuple[str, float]] = {}
        self._samples = 0
        self._last = 0.0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self._last = time.thread_time()
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            for name, seconds in self._threads.values():
                self.spent[f"{name} (its thread)"] += seconds

    def _sample(self, number: int, frame: FrameType | None) -> None:
        now = time.thread_time()
        self.spent[self._part(frame)] += now - self._last
        self._last = now
        self._samples += 1
        if self._samples % THREADS_EVERY == 0:
            main = threading.main_thread()
            for thread in threading.enumerate():
                if thread is not main and thread.ident:
                    clock = time.pthread_getcpuclockid(thread.ident)
                    self._threads[thread.ident] = (thread.name, time.clock_gettime(clock))

    def _part(self, frame: FrameType | None) -> str:
        while frame is not None:
            name = frame.f_globals.get("__name__", "")
            if name == "importlib._bootstrap":
                return START
            if name.startswith("crawlfleet.") and not name.startswith("crawlfleet.cli"):
                found = self._part_of(f"{name.removeprefix('crawlfleet.')}:{frame.f_code.co_name}")
                if found:
                    return found
            frame = frame.f_back
        return LOOP

    def _part_of(self, place: str) -> str:
        known = self._known.get(place)
        if known is None:
            fits = (part for part, begins in PARTS.items() if place.startswith(begins))
            known = self._known[place] = "" if place in SHARED else next(fits, "")
        return known


def main() -> None:
    output = Path(sys.argv.pop(1))
    from crawlfleet.cli.shell.program import create_app

    program = create_app()
    sampler = Sampler()
    before = time.process_time()
    try:
        with sampler.running():
            program(prog_name="crawlfleet", args=sys.argv[1:])
    except SystemExit as end:
        if end.code:
            raise
    sampler.spent[START] += before
    output.write_bytes(msgspec.json.encode(dict(sampler.spent)))


if __name__ == "__main__":
    main()
