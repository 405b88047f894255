"""All known URLs of a large crawl, exactly."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from crawlfleet.adapters.frontier.packing import UNSIGNED

Numbers = NDArray[np.uint64]

NEW: Final = np.uint64(2**64 - 1)
"""Value that `find` returns for an unknown URL; deeper than that of any known one."""
FULL: Final = 0.6
"""The share of its cells at which the table doubles them: 27 to 53 bytes for a URL."""
CHUNK: Final = 65_536


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
        id = id & UNSIGNED or self.INSTEAD
        cell = id & self._last
        keys = self._key_view
        while (key := keys[cell]) != id:
            if not key:
                return None
            cell = cell + 1 & self._last
        return self._value_view[cell]

    @property
    def size_bytes(self) -> int:
        """Bytes of the table in RAM; half as much again while it doubles."""
        return self._keys.nbytes + self._values.nbytes

    def find(self, ids: Numbers) -> Numbers:
        """Return the value of each id, or `NEW`; ids in arrays are unsigned."""
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

    def load(self, ids: Sequence[int], known: Sequence[int]) -> None:
        """Set the values of many URLs, none of which is named twice."""
        self.put(np.array(ids, np.int64).view(np.uint64), np.array(known, np.uint64))

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
