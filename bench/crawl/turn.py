"""One crawl by one crawler: what it cost, and whether it did all of the work.

The site has a core of its own, the crawler another one. CPU is user and system time of the
crawler's process and of all that it started, from its first to its last instruction.
"""

import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import psutil

from bench.crawl.crawlers import Crawler
from crawlfleet.testing.known_site import ServedSite, SiteSpec

SAMPLE_S: Final = 0.05
LONGEST_S: Final = 900.0


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    pages: int
    seconds: float
    """From the first page to the last one, as the server saw them."""
    cpu_s: float
    """Of all processes of the crawler, start-up included."""
    peak_mb: float
    server_cpu_s: float
    server_busy: float
    """The server's share of its core while it was asked for pages."""

    @property
    def per_s(self) -> float:
        return self.pages / self.seconds

    @property
    def per_cpu_s(self) -> float:
        return self.pages / self.cpu_s


class WrongWork(Exception):
    """A crawl missed pages, asked twice, or found other items than there are."""


class Place:
    """A site that is served, and the truth about it."""

    def __init__(self, site: ServedSite) -> None:
        self.site = site
        self.spec: SiteSpec = site.spec
        self.items = sorted(
            (each.title, each.price)
            for page in range(self.spec.pages)
            for each in self.spec.products(page)
        )
        self.process = psutil.Process(site.pid)

    def cpu_s(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)


def cores() -> tuple[set[int], set[int]]:
    """The server's, and the crawler's; the same one where there is but one."""
    usable = sorted(os.sched_getaffinity(0))
    return {usable[0]}, {usable[-1]}


@contextmanager
def served(pages: int) -> Iterator[Place]:
    """A site of so many pages on the server's core."""
    with ServedSite(SiteSpec(pages=pages)) as site:
        os.sched_setaffinity(site.pid, cores()[0])
        yield Place(site)


def crawl(crawler: Crawler, place: Place, folder: Path) -> Turn:
    """Raises `WrongWork` unless every page was asked for once and every item found."""
    folder.mkdir(parents=True)
    output = folder / "items.jsonl"
    known, server_cpu_s = len(place.site.hits()), place.cpu_s()
    cpu_s, peak_mb = _run(crawler.command(place.spec.url(0), output), folder)
    server_cpu_s = place.cpu_s() - server_cpu_s
    hits = [hit for hit in place.site.hits()[known:] if hit.page >= 0]
    check(Counter(hit.page for hit in hits), output, place)
    seconds = max(hits[-1].at - hits[0].at, 1e-3)
    return Turn(
        pages=len(hits),
        seconds=seconds,
        cpu_s=cpu_s,
        peak_mb=peak_mb,
        server_cpu_s=server_cpu_s,
        server_busy=server_cpu_s / seconds,
    )


def environment() -> Mapping[str, str]:
    """Compiled modules are kept for all, as on any installed system."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONUNBUFFERED": ""}


def _run(command: list[str], folder: Path) -> tuple[float, float]:
    log = folder / "log.txt"
    own = os.sched_getaffinity(0)
    server_core, crawler_core = cores()
    with log.open("wb") as file:
        # Whoever is started inherits the core.
        os.sched_setaffinity(0, crawler_core)
        try:
            started = subprocess.Popen(
                command, cwd=folder, env=environment(), stdout=file, stderr=file
            )
        finally:
            os.sched_setaffinity(0, server_core)
    try:
        status, used, peak = _watch(started)
    finally:
        os.sched_setaffinity(0, own)
    if status:
        words = log.read_text(errors="replace")[-1500:]
        raise WrongWork(f"{' '.join(command[:4])} … ended with {status}:\n{words}")
    return used, peak / 1e6


def _watch(started: subprocess.Popen[bytes]) -> tuple[int, float, float]:
    """Exit status, CPU-seconds and the most memory, once the process and its children ended."""
    begun, peak = time.monotonic(), 0.0
    process = psutil.Process(started.pid)
    while True:
        pid, status, usage = os.wait4(started.pid, os.WNOHANG)
        if pid:
            started.returncode = os.waitstatus_to_exitcode(status)
            return started.returncode, usage.ru_utime + usage.ru_stime, peak
        peak = max(peak, _memory(process))
        if time.monotonic() - begun > LONGEST_S:
            for each in [process, *process.children(recursive=True)]:
                each.kill()
        time.sleep(SAMPLE_S)


def _memory(process: psutil.Process) -> float:
    """Resident bytes of a process, at its own peak so far, and of its children as they are.

    Not from `wait4`: what a process had before `exec`, its parent's memory, counts there.
    """
    try:
        text = Path(f"/proc/{process.pid}/status").read_text()
        line = next((line for line in text.splitlines() if line.startswith("VmHWM:")), None)
        own = float(line.split()[1]) * 1024 if line else 0.0
        return own + sum(each.memory_info().rss for each in process.children(recursive=True))
    except (OSError, psutil.Error):
        return 0.0


def check(asked: Counter[int], output: Path, place: Place) -> None:
    """Raises `WrongWork` unless every page was asked for once and every item found."""
    missed = place.spec.pages - len(asked)
    twice = sum(1 for count in asked.values() if count > 1)
    if missed or twice:
        raise WrongWork(f"{missed} pages were missed, {twice} asked for more than once")
    lines = output.read_bytes().splitlines()
    found = sorted((each["title"], each["price"]) for each in map(msgspec.json.decode, lines))
    if found != place.items:
        raise WrongWork(f"{len(found)} items are not the {len(place.items)} that there are")
