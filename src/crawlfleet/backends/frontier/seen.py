"""Which URLs are known: all of them exactly, or by Bloom filters that grow.

Both answer for all links of a commit at once (`find`), or for one URL (`seen[id]`, `None` for one
that is new). Ids are unsigned here; what is kept of a URL is described in `numbers`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from rbloom import Bloom

from crawlfleet.backends.frontier.numbers import UNSIGNED

Numbers = NDArray[np.uint64]

NEW: Final = np.uint64(2**64 - 1)
"""What `find` says of a URL that is not known; deeper than any that is."""
FULL: Final = 0.6
"""The share of its cells at which the exact table doubles them: 27 to 53 bytes for a URL."""
CHUNK: Final = 65_536
FIRST_ERROR: Final = 4e-5
"""Of the first stage; each further one has half of that, so that all together stay below 8e-5."""
GROWTH: Final = 2
"""Each stage holds so many times what the one before holds."""
LEAST: Final = 1000
spread: Final = 0x1E37_79B9_7F4A_7C15.__mul__
"""The 64 bits of a fingerprint as a number of 125, which is what rbloom wants for a hash. A method
of a number, since a function of ours would cost as much as all the rest of a look-up."""


class Seen(Protocol):
    """What is known of URLs."""

    def __getitem__(self, id: int) -> int | None: ...

    def find(self, ids: Numbers) -> Numbers:
        """What is kept of each, or `NEW`."""
        ...

    def update(self, known: Mapping[int, int]) -> None:
        """Keep this of these URLs; their ids may be signed."""
        ...


class ExactSeen:
    """A hash table in two arrays, since fingerprints are hashes already.

    Looked up many at a time: then the memory is asked for many cells at once, and a table that no
    cache holds costs little more than one that fits (133 and 180 ns a link at 10,000 and 1,000,000
    URLs, links taken at random; a map asked one by one took 181 and 407).
    """

    EMPTY: Final = 0
    INSTEAD: Final = 0x9E37_79B9_7F4A_7C15
    """The key of the URL whose fingerprint is 0."""

    def __init__(self, expected: int) -> None:
        self._held = 0
        self._make(8)
        while expected >= len(self._keys) * FULL:
            self._make(len(self._keys) * 2)

    def __len__(self) -> int:
        return self._held

    def __getitem__(self, id: int) -> int | None:
        id = id or self.INSTEAD
        cell = id & self._last
        keys = self._key_view
        while (key := keys[cell]) != id:
            if not key:
                return None
            cell = cell + 1 & self._last
        return self._value_view[cell]

    @property
    def size_bytes(self) -> int:
        """What the table takes in RAM; half as much again while it doubles."""
        return self._keys.nbytes + self._values.nbytes

    def find(self, ids: Numbers) -> Numbers:
        ids = self._keyed(ids)
        cells = ids & self._mask
        keys = self._keys[cells]
        found = np.where(keys == ids, self._values[cells], NEW)
        rest = np.flatnonzero((keys != ids) & (keys != self.EMPTY))
        while rest.size:
            cells[rest] = (cells[rest] + np.uint64(1)) & self._mask
            keys = self._keys[cells[rest]]
            hit = keys == ids[rest]
            found[rest[hit]] = self._values[cells[rest[hit]]]
            rest = rest[~hit & (keys != self.EMPTY)]
        return found

    def update(self, known: Mapping[int, int]) -> None:
        if known:
            ids = np.array(list(known), np.int64).view(np.uint64)
            self.put(ids, np.array(list(known.values()), np.uint64))

    def put(self, ids: Numbers, values: Numbers) -> None:
        """Keep the values of these ids, none of which is named twice."""
        if self._held + len(ids) >= len(self._keys) * FULL:
            self._double(self._held + len(ids))
        ids = self._keyed(ids)
        cells = ids & self._mask
        rest = np.arange(len(ids))
        while rest.size:
            wanted, keys = cells[rest], ids[rest]
            there = self._keys[wanted]
            free = there == self.EMPTY
            self._keys[wanted[free]] = keys[free]
            # Of several that want one free cell the last has it; the others go on.
            mine = self._keys[wanted] == keys
            self._held += int(np.count_nonzero(mine & free))
            self._values[wanted[mine]] = values[rest[mine]]
            rest = rest[~mine]
            cells[rest] = (cells[rest] + np.uint64(1)) & self._mask

    def _keyed(self, ids: Numbers) -> Numbers:
        return np.where(ids == self.EMPTY, np.uint64(self.INSTEAD), ids)

    def _make(self, cells: int) -> None:
        self._keys: Numbers = np.zeros(cells, np.uint64)
        self._values: Numbers = np.zeros(cells, np.uint64)
        self._key_view, self._value_view = self._keys.data, self._values.data
        self._last = cells - 1
        self._mask = np.uint64(self._last)

    def _double(self, expected: int) -> None:
        keys, values, cells = self._keys, self._values, len(self._keys)
        while expected >= cells * FULL:
            cells *= 2
        self._make(cells)
        self._held = 0
        for start in range(0, len(keys), CHUNK):
            some = keys[start : start + CHUNK]
            used = some != self.EMPTY
            self.put(some[used], values[start : start + CHUNK][used])


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

    def find(self, ids: Numbers) -> Numbers:
        """0 for those that are known: their depth is not, and never falls."""
        listed = ids.tolist()
        found = np.full(len(listed), NEW)
        for bloom in self._newest_first:
            found[[id in bloom for id in listed]] = 0
        return found

    def update(self, known: Mapping[int, int]) -> None:
        self.add(id & UNSIGNED for id in known)

    def add(self, ids: Iterable[int]) -> None:
        for id in ids:
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
