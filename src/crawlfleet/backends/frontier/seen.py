"""Which URLs are known: all of them exactly, or by Bloom filters that grow.

Both answer `seen[id & UNSIGNED]`, several times for each page, and so in well under a
microsecond: `None` for a URL that is new, else what is kept of it (see `numbers`).
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from preshed.maps import PreshMap
from rbloom import Bloom

FIRST_ERROR: Final = 4e-5
"""Of the first stage; each further one has half of that, so that all together stay below 8e-5."""
GROWTH: Final = 2
"""Each stage holds so many times what the one before holds."""
spread: Final = 0x1E37_79B9_7F4A_7C15.__mul__
"""The 64 bits of a fingerprint as a number of 125, which is what rbloom wants for a hash. A method
of a number, since a function of ours would cost as much as all the rest of a look-up."""
FULL: Final = 0.6
"""The share of its cells at which a `PreshMap` doubles them."""
LEAST: Final = 1000


class Seen(Protocol):
    """What is known of URLs, by their fingerprints as unsigned numbers."""

    def __getitem__(self, id: int) -> int | None: ...

    def __setitem__(self, id: int, known: int) -> None: ...


def exact(expected: int) -> Seen:
    """A map in RAM with room for `expected` URLs before it doubles; 27 to 53 bytes for each."""
    seen: Seen = PreshMap(initial_size=max(8, int(expected / FULL) + 2))
    return seen


class Stage:
    """One filter of a size that stays."""

    def __init__(self, capacity: int, error: float, held: int = 0, bits: bytes | None = None):
        self.capacity = capacity
        self.error = error
        self.held = held
        self.bloom = Bloom.load_bytes(bits, spread) if bits else Bloom(capacity, error, spread)

    @property
    def present_error(self) -> float:
        """The chance that a new URL is taken for a known one, with what is held now."""
        bits = self.bloom.size_in_bits
        hashes = max(1, round(-math.log2(self.error)))
        return float((1 - math.exp(-hashes * self.held / bits)) ** hashes)


class BloomSeen:
    """Bloom filters of growing size; about three bytes for a URL, and no word of its depth.

    `saved` are the capacity, the count and the bits of each stage, as `stages` had them.
    """

    def __init__(self, capacity: int, saved: Iterable[tuple[int, int, bytes]] = ()) -> None:
        self._first = max(capacity, LEAST)
        self.stages: list[Stage] = []
        for room, held, bits in saved:
            self.stages.append(Stage(room, self._next_error(), held, bits))
        if not self.stages:
            self._grow()
        self._newest_first: Sequence[Bloom]
        self._order()

    def __getitem__(self, id: int) -> int | None:
        for bloom in self._newest_first:
            if id in bloom:
                return 0
        return None

    def __setitem__(self, id: int, known: int) -> None:
        last = self.stages[-1]
        if last.held >= last.capacity:
            self._grow()
            self._order()
            last = self.stages[-1]
        last.bloom.add(id)
        last.held += 1

    def __len__(self) -> int:
        return sum(stage.held for stage in self.stages)

    @property
    def error(self) -> float:
        """The chance that the next new URL is taken for a known one."""
        return 1.0 - float(math.prod(1.0 - stage.present_error for stage in self.stages))

    @property
    def size_bytes(self) -> int:
        """What the filters take in RAM."""
        return sum(int(stage.bloom.size_in_bits) for stage in self.stages) // 8

    def _next_error(self) -> float:
        return float(FIRST_ERROR / 2 ** len(self.stages))

    def _grow(self) -> None:
        capacity = self._first * GROWTH ** len(self.stages)
        self.stages.append(Stage(capacity, self._next_error()))

    def _order(self) -> None:
        self._newest_first = [stage.bloom for stage in reversed(self.stages)]
