"""Crawls that share nothing, side by side: what the machine itself gives to several processes.

As many fleets as there are sites, each with a master and one worker. Those that work at once slow
each other down (caches, memory, turns on the cores) although none knows of another; what is left of
the difference is what sharing a crawl costs.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.spread import ours
from bench.spread.turn import Turn, checked
from crawlfleet.testing.known_site import ServedSite


def crawl_alone(sites: Sequence[ServedSite], folder: Path, *, concurrency: int) -> list[Turn]:
    """One crawl for each site, all at once, by one worker each.

    Raises `WrongWork` unless every page was asked for once and every item found.
    """
    with ExitStack() as stack:
        fleets = [
            stack.enter_context(ours.fleet(folder / str(number), workers=1, frontier="master"))
            for number in range(len(sites))
        ]
        pool = stack.enter_context(ThreadPoolExecutor(len(sites)))
        crawls = [partial(each.crawl, concurrency=concurrency) for each in fleets]
        turns = [pool.submit(crawl, site) for crawl, site in zip(crawls, sites, strict=True)]
        return [checked(turn.result()) for turn in turns]
