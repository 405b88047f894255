"""Parts of a host that several workers visit at once: each part of its URLs is a queue of its own.

A frontier leases queues, each to one worker at a time, and needs no knowledge of the hosts behind
them. The queue of a URL follows from its fingerprint and from the number of parts, which stays the
same for the life of a crawl: so a URL is always looked up where it was put. The host's limit of
concurrent requests is divided among its parts. The fleet's ledger ensures the rest: delays, pauses,
and other crawls of the same host.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from crawlfleet.core.urls.canonical import Canonicaliser, host_key
from crawlfleet.model.crawl.frontier import PART
from crawlfleet.model.crawl.parameters import Politeness

PARTS_A_WORKER: Final = 4
"""Parts of a host per worker; with more parts than workers, fast workers take over from slow
ones."""


def queue_of(host: str, id: int, parts: int) -> str:
    """Return the queue of the URL with this fingerprint: the host itself if it is not split."""
    return host if parts < 2 else _queues(host, parts)[id % parts]


def host_of(queue: str) -> str:
    """Return the host that a queue belongs to."""
    return queue.partition(PART)[0]


def at_once(queue: str, concurrency: int, parts: int) -> int:
    """Return the limit of concurrent requests of a queue. The queues of a host together have the
    host's limit, and each has at least one: there are never more parts than that."""
    number = queue.partition(PART)[2]
    if not number:
        return concurrency
    each, rest = divmod(concurrency, parts)
    return max(each + (int(number) < rest), 1)


def parts_for(
    *,
    seeds: Sequence[str],
    within: str,
    workers: int,
    politeness: Politeness,
    max_per_host: int | None,
    most: int | None,
) -> int:
    """Return into how many parts each host of a crawl is split: at most `most`. If that is not set,
    hosts are split where it helps: when the crawl stays on fewer start hosts than it has workers.

    Only a host without a delay is split: with a delay, requests follow one another whichever worker
    sends them. And a limit on the URLs of a host needs all of its URLs in one place.
    """
    if workers < 2 or politeness.delay_s > 0.0 or max_per_host is not None:
        return 1
    if most is None and (within == "any" or len(_hosts(seeds)) >= workers):
        return 1
    return min(politeness.concurrency, PARTS_A_WORKER * workers, most or politeness.concurrency)


def _hosts(seeds: Sequence[str]) -> set[str]:
    canonical = Canonicaliser().canonical
    return {host_key(url) for url in map(canonical, seeds) if url is not None}


@lru_cache(maxsize=1024)
def _queues(host: str, parts: int) -> tuple[str, ...]:
    """Return the names of a host's queues; cached, since thousands of links share them."""
    return tuple(f"{host}{PART}{number}" for number in range(parts))
