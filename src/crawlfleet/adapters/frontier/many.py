"""Looks up the links of a commit in the table of a large crawl, all at once."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from crawlfleet.adapters.frontier.fingerprint_table import ExactSeen
from crawlfleet.adapters.frontier.packing import PLACE_BITS, deeper_than
from crawlfleet.adapters.frontier.seen import MAY_FALL, KnownUrls, Met
from crawlfleet.model.crawl.frontier import Link, Visit


def look_up_many(
    seen: KnownUrls, visits: Sequence[Visit], depths: Sequence[int] | None, *, store: bool
) -> list[Met]:
    """See `lookup.look_up`."""
    assert isinstance(seen, ExactSeen)
    if depths is None:
        pages = np.array([visit[0] for visit in visits], np.int64).view(np.uint64)
        depths = (seen.find(pages) >> np.uint64(PLACE_BITS)).tolist()
    flat = [link for visit in visits for link in visit[4]]
    if not flat:
        return [Met(depth) for depth in depths]
    ids = np.array([link[0] for link in flat], np.int64)
    known = seen.find(ids.view(np.uint64))
    counts = [len(visit[4]) for visit in visits]
    nearer = np.array([deeper_than(depth + 1) for depth in depths], np.uint64)
    worth = known >= np.repeat(nearer, counts)
    ends = np.cumsum(counts)
    chosen = np.flatnonzero(worth)
    lists: list[list[Link]] = [[] for _ in visits]
    owners = np.searchsorted(ends, chosen, "right")
    for number, owner in zip(chosen.tolist(), owners.tolist(), strict=True):
        lists[owner].append(flat[number])
    if not store:
        return list(map(Met, depths, lists))
    kept = np.flatnonzero(~worth & (known >= np.uint64(MAY_FALL)))
    stable = ids[kept]
    cuts = [0, *np.searchsorted(kept, ends).tolist()]
    parts = [stable[start:end].tobytes() for start, end in pairwise(cuts)]
    return list(map(Met, depths, lists, parts))
