"""One crawl by several processes: how fast, at which cost, and whether all of it was done.

Pages are counted in the log of the server; CPU is user and system time of all processes that take
part (`/proc`), from when everybody is ready until the work is done.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from bench.crawl.turn import WrongWork
from crawlfleet.testing.known_site import Hit, SiteSpec

Item = tuple[str, str]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    pages: int
    """Different ones that were asked for."""
    lost: int
    """Never asked for."""
    again: int
    """Requests for pages that had been asked for before."""
    items_lost: int
    items_again: int
    seconds: float
    """From the first request to the last one."""
    cpu_s: dict[str, float]
    """By kind of process."""

    @property
    def per_s(self) -> float:
        return self.pages / self.seconds

    @property
    def per_cpu_s(self) -> float:
        return self.pages / sum(self.cpu_s.values())

    @property
    def is_whole(self) -> bool:
        return not (self.lost or self.again or self.items_lost or self.items_again)


def truth(spec: SiteSpec) -> Counter[Item]:
    """The items that there are."""
    found = (product for page in range(spec.pages) for product in spec.products(page))
    return Counter((product.title, product.price) for product in found)


def judged(
    spec: SiteSpec, hits: Sequence[Hit], items: Iterable[Item], cpu_s: dict[str, float]
) -> Turn:
    """What the server's log and the output say of a crawl."""
    asked = Counter(hit.page for hit in hits)
    found, true = Counter(items), truth(spec)
    return Turn(
        pages=len(asked),
        lost=spec.pages - len(asked),
        again=asked.total() - len(asked),
        items_lost=(true - found).total(),
        items_again=(found - true).total(),
        seconds=max(hits[-1].at - hits[0].at, 1e-3) if hits else 1e-3,
        cpu_s=cpu_s,
    )


def checked(turn: Turn) -> Turn:
    """Raises `WrongWork` unless every page was asked for once and every item is there once."""
    if not turn.is_whole:
        raise WrongWork(
            f"{turn.lost} pages were missed, {turn.again} asked for again; {turn.items_lost} items"
            f" are missing, {turn.items_again} there twice"
        )
    return turn
