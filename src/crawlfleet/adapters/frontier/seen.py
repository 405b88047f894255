"""The known URLs of a crawl: all of them exactly, or by Bloom filters that grow.

A small crawl keeps them in a dictionary; a large one in the arrays of `fingerprint_table`, which
take a third of that, but need a library that takes as much as a small crawl. `packing` describes
the value of a known URL.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from rbloom import Bloom

from crawlfleet.adapters.frontier.packing import UNSIGNED, deeper_than
from crawlfleet.model.crawl.frontier import Link

FEW: Final = 25_000
"""Maximum number of URLs in a dictionary, which then takes some 3 MB."""
FIRST_ERROR: Final = 4e-5
"""Error rate of the first stage; each further one has half of that, so that all together stay below
8e-5.
"""
GROWTH: Final = 2
"""Growth of stages: each holds so many times the URLs of the one before."""
NEARLY_FULL: Final = 0.9
"""Part of a stage's capacity from which people may want to know that a larger one is added."""
LEAST: Final = 1000
spread: Final = 0x1E37_79B9_7F4A_7C15.__mul__
"""The 64 bits of a fingerprint as a number of 125, which is what rbloom wants for a hash. A method
of a number, since a function of ours would cost as much as all the rest of a look-up."""
MAY_FALL: Final = deeper_than(1)
"""Packed value from which a link may come nearer: one at depth 0 or 1 never does."""


class Met(NamedTuple):
    """The links of one page."""

    depth: int
    """Depth of the page that the look-up assumed."""
    worth: Sequence[Link] = ()
    """Links that are new, or nearer than before if the page is at that depth."""
    stable: bytes = b""
    """Ids of other links whose depth could fall with that of the page, packed."""


class KnownUrls(Protocol):
    """Packed values of known URLs, by id."""

    def __getitem__(self, id: int) -> int | None:
        """Return the value of a URL; `None` when it is new."""
        ...

    def update(self, known: Mapping[int, int]) -> None:
        """Set the values of these URLs."""
        ...


class FewSeen(dict[int, int]):
    """All known URLs in a dictionary, while they are few."""

    def __missing__(self, id: int) -> None:
        return None

    def load(self, ids: Iterable[int], known: Iterable[int]) -> None:
        """Set the values of many URLs."""
        self.update(zip(ids, known, strict=True))


class Stage:
    """One Bloom filter of fixed size."""

    def __init__(self, capacity: int, error: float, held: int = 0, bits: bytes | None = None):
        self.capacity = capacity
        self.error = error
        self.held = held
        self.bloom = Bloom.load_bytes(bits, spread) if bits else Bloom(capacity, error, spread)

    @property
    def present_error(self) -> float:
        """Present chance that a new URL is taken for a known one."""
        bits = self.bloom.size_in_bits
        hashes = max(1, round(-math.log2(self.error)))
        return float((1 - math.exp(-hashes * self.held / bits)) ** hashes)


class BloomSeen:
    """Bloom filters of growing size; about three bytes for a URL, and no word of its depth.

    `saved` are the capacity, the count and the bits of each stage, as `stages` had them.
    """

    def __init__(self, capacity: int, saved: Iterable[tuple[int, int, bytes]] = ()) -> None:
        self.told_of = 0
        """Number of stages that `is_nearly_full` has reported."""
        self._first = max(capacity, LEAST)
        self.stages: list[Stage] = []
        for room, held, bits in saved:
            self.stages.append(Stage(room, self._next_error(), held, bits))
        if not self.stages:
            self._grow()
        self._largest_first: Sequence[Bloom]
        self._order()

    def __getitem__(self, id: int) -> int | None:
        """0 for one that is known: its depth is not, and never falls."""
        id &= UNSIGNED
        for bloom in self._largest_first:
            if id in bloom:
                return 0
        return None

    def new_ones(self, links: Sequence[Link]) -> Sequence[Link]:
        """Return the links that are not known."""
        for bloom in self._largest_first:
            links = [link for link in links if link[0] & UNSIGNED not in bloom]
        return links

    def update(self, known: Mapping[int, int]) -> None:
        self.add(known)

    def add(self, ids: Iterable[int]) -> None:
        for id in ids:
            last = self.stages[-1]
            if last.held >= last.capacity:
                self._grow()
                last = self.stages[-1]
            last.bloom.add(id & UNSIGNED)
            last.held += 1
        self._order()

    def __len__(self) -> int:
        return sum(stage.held for stage in self.stages)

    def is_nearly_full(self) -> bool:
        """Return whether the last stage is nearly full; true once for each stage."""
        last = self.stages[-1]
        reached = len(self.stages) - (last.held < NEARLY_FULL * last.capacity)
        is_news, self.told_of = reached > self.told_of, max(reached, self.told_of)
        return is_news

    @property
    def error(self) -> float:
        """The chance that the next new URL is taken for a known one."""
        return 1.0 - float(math.prod(1.0 - stage.present_error for stage in self.stages))

    @property
    def size_bytes(self) -> int:
        """Bytes of the filters in RAM."""
        return sum(int(stage.bloom.size_in_bits) for stage in self.stages) // 8

    def _next_error(self) -> float:
        return float(FIRST_ERROR / 2 ** len(self.stages))

    def _grow(self) -> None:
        capacity = self._first * GROWTH ** len(self.stages)
        self.stages.append(Stage(capacity, self._next_error()))

    def _order(self) -> None:
        # Where most of the known ones are found first: they need no second look.
        ordered = sorted(self.stages, key=lambda stage: -stage.held)
        self._largest_first = [stage.bloom for stage in ordered]
