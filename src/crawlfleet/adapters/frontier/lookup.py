"""Finds the few links of a commit that matter: new ones, and those nearer than before."""

from array import array
from collections.abc import Sequence

from crawlfleet.adapters.frontier.packing import deeper_than, depth_of
from crawlfleet.adapters.frontier.seen import MAY_FALL, BloomSeen, FewSeen, KnownUrls, Met
from crawlfleet.model.crawl.frontier import Visit


def look_up(
    seen: KnownUrls, visits: Sequence[Visit], depths: Sequence[int] | None, *, store: bool
) -> list[Met]:
    """Look at all links of all visits. Without `depths` those that are kept of the pages count;
    `stable` is empty unless `store`."""
    if isinstance(seen, BloomSeen):
        depths = depths or [0] * len(visits)
        return [
            Met(depth, seen.new_ones(visit[4])) for visit, depth in zip(visits, depths, strict=True)
        ]
    if not isinstance(seen, FewSeen):
        # One after another would wait for the memory at each of them.
        from crawlfleet.adapters.frontier.many import look_up_many

        return look_up_many(seen, visits, depths, store=store)
    if depths is None:
        depths = [depth_of(seen[visit[0]] or 0) for visit in visits]
    get = seen.get
    met = []
    for visit, depth in zip(visits, depths, strict=True):
        nearer = deeper_than(depth + 1)
        links = visit[4]
        if not store:
            worth = [link for link in links if (known := get(link[0])) is None or known >= nearer]
            met.append(Met(depth, worth))
            continue
        worth, stable = [], []
        for link in links:
            if (known := get(link[0])) is None or known >= nearer:
                worth.append(link)
            elif known >= MAY_FALL:
                stable.append(link[0])
        met.append(Met(depth, worth, array("q", stable).tobytes()))
    return met
