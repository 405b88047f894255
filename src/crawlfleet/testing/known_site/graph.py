"""The structure of the known site: a graph that is derived from a few numbers.

Page `n` links to its ten children in a tree, so that every page can be reached, and to others that
follow from a hash, so that there are shorter ways, longer ways and circles. Its links lead to any
host, or mostly stay on their own, as those of most sites do.
"""

from collections import deque
from collections.abc import Iterable
from functools import cached_property
from typing import Final, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

FAN_OUT: Final = 10
MAX_PRODUCTS: Final = 3
TAIL: Final = b"</main></body></html>"


class SiteProduct(NamedTuple):
    title: str
    price: str
    url: str


class SiteSpec(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All that determines the site. Its hosts are the loopback addresses from 127.0.0.1 on, or
    from `first_host` on."""

    pages: int = 20_000
    hosts: int = 24
    first_host: int = 1
    links: int = 20
    local: float = 0.0
    """The share of links that stay on their host, where each host has a tree of its own; the others
    lead to pages the more often the lower their number. With none, all links lead to any page."""
    page_bytes: int = 19_000
    seed: int = 1
    port: int = 0
    latency_ms: float = 0.0
    """Maximum latency of an answer; each answer has its own."""
    least_latency_ms: float = 0.0
    """Minimum latency of an answer."""
    crawl_delay_s: tuple[float, ...] = ()
    """Crawl-delay in the robots.txt of each host; none for hosts beyond its length."""
    failing: float = 0.0
    """The share of pages whose first answer is 503."""
    retry_after_s: int = 0
    """Retry-After of such an answer; left out when 0."""
    moved: float = 0.0
    """The share of pages to which links lead by way of a redirect."""

    def chance(self, *what: object) -> int:
        """Return a number that is derived from the seed and the purpose."""
        return xxh3_64_intdigest(repr((self.seed, *what)).encode())

    def host(self, page: int) -> str:
        """Scheme, address and port of a page's host."""
        return f"http://127.0.0.{self.first_host + page % self.hosts}:{self.port}"

    def path(self, page: int) -> str:
        return f"/p/{page}.html"

    def url(self, page: int) -> str:
        return self.host(page) + self.path(page)

    def targets(self, page: int) -> list[int]:
        """The pages to which a page links, in order."""
        found = dict.fromkeys(self._children(page))
        number = 0
        while len(found) < self.links and number < 3 * self.links:
            chance = self.chance("link", page, number)
            found[self._neighbour(page, chance) if self.local else chance % self.pages] = None
            number += 1
        return [*found]

    def _children(self, page: int) -> Iterable[int]:
        if not self.local:
            return _children(page, self.pages)
        host, place = page % self.hosts, page // self.hosts
        on_host = (n * self.hosts + host for n in _children(place, self._size(host)))
        return (*on_host, *(range(1, min(self.hosts, self.pages)) if page == 0 else ()))

    def _neighbour(self, page: int, chance: int) -> int:
        """Return the target of a random link of a page."""
        chance, share = divmod(chance, 1_000)
        if share < self.local * 1_000:
            host = page % self.hosts
            return chance % self._size(host) * self.hosts + host
        return int(self.pages ** (chance % 1_000_000 / 1_000_000)) - 1

    def _size(self, host: int) -> int:
        """Return the number of pages of a host."""
        return (self.pages - 1 - host) // self.hosts + 1

    def products(self, page: int) -> list[SiteProduct]:
        """The items of a page."""
        return [
            SiteProduct(
                f"Product {page}-{number}",
                f"{self.chance('price', page, number) % 100_000 / 100:.2f}",
                f"{self.url(page)}#item-{number}",
            )
            for number in range(self.chance("products", page) % (MAX_PRODUCTS + 1))
        ]

    def is_moved(self, page: int) -> bool:
        """Return whether links to a page lead to an address that redirects to it."""
        return self.chance("moved", page) % 10_000 < self.moved * 10_000

    def fails_first(self, page: int) -> bool:
        """Return whether the first answer of a page is 503."""
        return self.chance("fails", page) % 10_000 < self.failing * 10_000

    def latency_s(self, page: int) -> float:
        """Return the latency of the answer with a page."""
        share = self.chance("latency", page) % 1000 / 1000
        least = self.least_latency_ms
        return (least + share * (self.latency_ms - least)) / 1000

    def distances(self, start: int = 0) -> dict[int, int]:
        """Return the number of links on the shortest way from `start` to each page."""
        found = {start: 0}
        queue = deque([start])
        while queue:
            page = queue.popleft()
            for target in self.targets(page):
                if target not in found:
                    found[target] = found[page] + 1
                    queue.append(target)
        return found

    @cached_property
    def filler(self) -> bytes:
        """Return the common part of all pages: a head, navigation without links, and much text."""
        words = [f"word{self.chance('word', n) % 5000}" for n in range(400)]
        paragraph = "<p class='text'>" + " ".join(words[:60]) + "</p>\n"
        rows = "".join(
            f"<tr><td class='name'>{words[n]}</td><td>{words[n + 1]}</td></tr>\n"
            for n in range(0, 120, 2)
        )
        text = f"<table>{rows}</table>" + paragraph * 100
        return text.encode()

    def body(self, page: int) -> bytes:
        """The page as it is served."""
        return self.filled(self.beginning(page))

    def filled(self, beginning: bytes) -> bytes:
        """A page that begins so, up to its size."""
        room = max(self.page_bytes - len(beginning) - len(TAIL), 0)
        return b"%b%b%b" % (beginning, self.filler[:room], TAIL)

    def beginning(self, page: int) -> bytes:
        """Return the part of a page before the filler."""
        mine = self.host(page)
        links = "".join(
            f'<li><a class="link" href="{self._href(mine, target)}">Page {target}</a></li>\n'
            for target in self.targets(page)
        )
        products = "".join(
            f'<div class="product"><h2 class="title"><a href="{each.url}">{each.title}</a></h2>'
            f'<span class="price">{each.price}</span></div>\n'
            for each in self.products(page)
        )
        return (
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Page {page}</title>'
            f"</head><body><h1>Page {page}</h1>\n<ul>{links}</ul>\n{products}<main>"
        ).encode()

    def _href(self, mine: str, target: int) -> str:
        path = self.path(target)
        if self.is_moved(target):
            path = path.replace("/p/", "/m/")
        return path if self.host(target) == mine else self.host(target) + path


def _children(place: int, pages: int) -> range:
    """Return the children of a page in a tree of this many pages."""
    first = place * FAN_OUT + 1
    return range(first, min(first + FAN_OUT, pages))
