"""Rendezvous hashing with bounded load: assigns the parts of work to workers, and the parts of a
list to shards.

Every worker has a score for every part, and a part goes to the worker with the highest score that
has room. So the place of a part follows from its name alone, no table has to be kept, and when a
worker comes or goes about one part in n moves. The bound makes it fair: no worker gets more than
`SLACK` above the mean.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from crawlfleet.core.urls.canonical import Canonicaliser, host_key

SLACK: Final = 0.25
"""Load above the mean that a worker may have, as a share. With less, more parts move when workers
come and go; with more, the work is spread less evenly."""
MAX_SHARDS: Final = 256

_MIX: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS: Final = (np.uint64(30), np.uint64(27), np.uint64(31))


def spread(
    parts: Mapping[str, float], workers: Sequence[str], *, slack: float = SLACK
) -> dict[str, str]:
    """Return the worker of each part; `parts` are names with their weight, in any order.

    No worker gets more than `(1 + slack) * mean`, or than the mean and one part where parts are
    that heavy. Equal parts and workers give equal answers everywhere; the answer is empty without
    workers.
    """
    if not parts or not workers:
        return {}
    names = sorted(parts, key=lambda name: (-parts[name], _hash(name), name))
    order = np.argsort(-_scores(names, workers), axis=1, kind="stable")
    room = room_of(sum(parts.values()), len(workers), slack=slack)
    load = [0.0] * len(workers)
    placed: dict[str, str] = {}
    for row, name in enumerate(names):
        weight = parts[name]
        # Rounding must not keep out what fits exactly.
        fitting = (each for each in order[row] if load[each] + weight <= room * (1 + 1e-9))
        place = next(fitting, None)
        if place is None:
            place = min(order[row], key=load.__getitem__)
        load[place] += weight
        placed[name] = workers[place]
    return placed


def room_of(total: float, workers: int, *, slack: float = SLACK) -> float:
    """Return the load that one of this number of workers may have, provided that no single part is
    heavier."""
    return math.ceil((1 + slack) * total / workers) if workers else 0.0


def split_by_host(urls: Iterable[str], shards: int, *, most_parts: int = 1) -> list[list[str]]:
    """Split URLs into at most `shards` lists of about the same length, each host in one of them.

    A host that has more than a fair share may be split into up to `most_parts` parts, if it allows
    several requests at once. Each URL occurs once; the order within a list is the given one, and no
    list is empty.
    """
    by_host: dict[str, list[str]] = {}
    canonical = Canonicaliser().canonical
    different = dict.fromkeys(urls)
    for url in different:
        known = canonical(url)
        # What is no web address has to be said to be none, by whoever gets it.
        by_host.setdefault(host_key(known) if known else "", []).append(url)
    parts: dict[str, list[str]] = {}
    fair = math.ceil(len(different) / max(shards, 1))
    for host, found in by_host.items():
        pieces = min(math.ceil(len(found) / max(fair, 1)), most_parts, shards)
        for piece in range(pieces):
            parts[f"{host} {piece}"] = found[piece::pieces]
    weights = {name: float(len(found)) for name, found in parts.items()}
    placed = spread(weights, [str(number) for number in range(shards)])
    place = {url: int(number) for name, number in placed.items() for url in parts[name]}
    lists: list[list[str]] = [[] for _ in range(shards)]
    for url in different:
        lists[place[url]].append(url)
    return sorted(filter(None, lists), key=len, reverse=True)


def _hash(name: str) -> int:
    return xxh3_64_intdigest(name.encode())


def _scores(names: Sequence[str], workers: Sequence[str]) -> NDArray[np.float64]:
    """Return the score of each worker (column) for each part (row), uniform in [0, 1)."""
    of_parts = np.array([_hash(name) for name in names], dtype=np.uint64)
    of_workers = np.array([_hash(name) for name in workers], dtype=np.uint64)
    mixed = of_parts[:, None] ^ of_workers[None, :]
    # A plain xor would give pairs of workers the same order for related parts.
    for shift, factor in zip(_SHIFTS, (*_MIX, None), strict=True):
        mixed ^= mixed >> shift
        if factor is not None:
            mixed *= factor
    return mixed.astype(np.float64) / 2.0**64
