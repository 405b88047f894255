"""Splits a report into portions for a frontier that limits the size of a commit.

Any hosts with their pages make a valid commit, and so do some of the visits of a host. Only values
that end a lease, or concern all of it, go with the last portion.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from crawlfleet.crawl.work import EngineReport
from crawlfleet.model.crawl.frontier import HostCommit, Link, Visit

_encode: Final = msgspec.msgpack.Encoder().encode


def portions(handed: EngineReport, most_bytes: int) -> list[EngineReport]:
    """Split a report into portions of at most `most_bytes`, or with a single visit or host that has
    more. Values of the whole report stay in the first portion."""
    if _size(handed.hosts) <= most_bytes:
        return [handed]
    parts: list[EngineReport] = []
    for hosts in _divided(handed.hosts, most_bytes):
        part = copy(handed) if not parts else EngineReport(at=handed.at, hosts=[])
        visited = {visit.id for host in hosts for visit in host.visits}
        part.hosts = hosts
        part.pages = [page for page in handed.pages if page.id in visited]
        parts.append(part)
    return parts


def lots(seeds: Sequence[Link], most_bytes: int) -> Iterator[Sequence[Link]]:
    """Yield the seeds in batches of at most `most_bytes`, or of one seed that has more; at least
    one batch."""
    if len(seeds) < 2 or _size(seeds) <= most_bytes:
        yield seeds
    else:
        half = len(seeds) // 2
        yield from lots(seeds[:half], most_bytes)
        yield from lots(seeds[half:], most_bytes)


def _divided(hosts: Sequence[HostCommit], most_bytes: int) -> list[list[HostCommit]]:
    parts: list[list[HostCommit]] = [[]]
    used = 0
    for host in hosts:
        visits: list[Visit] = []
        bare = HostCommit(host=host.host, token=host.token)
        bare_size = _size(bare)
        for visit in host.visits:
            size = _size(visit) + (0 if visits else bare_size)
            if used and used + size > most_bytes:
                if visits:
                    parts[-1].append(replace(bare, visits=visits))
                parts.append([])
                visits, used = [], 0
                size = _size(visit) + bare_size
            visits.append(visit)
            used += size
        size = _size(replace(host, visits=()))
        if used and used + size > most_bytes:
            if visits:
                parts[-1].append(replace(bare, visits=visits))
            parts.append([])
            visits, used = [], 0
        parts[-1].append(replace(host, visits=visits))
        used += size
    return parts


def _size(part: Any) -> int:
    return len(_encode(part))
