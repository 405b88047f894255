"""Crawls that share nothing, side by side: what the machine itself gives to several processes.

Two that work at once slow each other down (caches, memory, the site beside them) although neither
knows of the other; what is left of the difference is what sharing a crawl costs.
"""

import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.crawl import crawlers
from bench.crawl.turn import Place, WrongWork, check, environment

OUR_CRAWLER = next(each for each in crawlers.CRAWLERS if each.name == crawlers.OURS)


def crawl_alone(places: Sequence[Place], folder: Path) -> float:
    """Pages a CPU-second of as many `crawlfleet crawl` at once as there are sites.

    Raises `WrongWork` unless every page was asked for once and every item found.
    """
    known = [len(place.site.hits()) for place in places]
    started = [_start(place, folder / str(number)) for number, place in enumerate(places)]
    cpu_s = sum(_cpu_s(process) for process in started)
    if failed := [each for each in started if each.returncode]:
        raise WrongWork(f"{len(failed)} of {len(started)} crawls ended with an error")
    for number, place in enumerate(places):
        hits = [hit.page for hit in place.site.hits()[known[number] :] if hit.page >= 0]
        check(Counter(hits), folder / str(number) / "items.jsonl", place)
    return sum(place.spec.pages for place in places) / cpu_s


def _start(place: Place, folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True)
    command = OUR_CRAWLER.command(place.spec.url(0), folder / "items.jsonl")
    with (folder / "log.txt").open("wb") as log:
        return subprocess.Popen(command, cwd=folder, env=environment(), stdout=log, stderr=log)


def _cpu_s(process: subprocess.Popen[bytes]) -> float:
    """Once it has ended."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime
