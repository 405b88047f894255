"""Which segments of a crawl's output count, and in which order they are read.

A partition is written by one holder at a time, under a token that only grows, in numbered
segments. A holder stages a segment only after the one before it was committed, so that one number
for each token says all: the segments up to it count, and nothing else does.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec


class Segment(NamedTuple):
    """One immutable piece of output. They sort in the order in which they are read."""

    crawl: str
    partition: int
    token: int
    sequence: int


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The segments of one partition under one token: 1 to `last`."""

    partition: int
    token: int
    last: int
    bytes: int
    items: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """All that counts of a crawl, or of one of its partitions."""

    crawl: str
    runs: tuple[Run, ...] = ()

    def extended(self, run: Run) -> "Manifest":
        """With a run that is new, or longer than before; a shorter one is old news."""
        runs = {(each.partition, each.token): each for each in self.runs}
        known = runs.get((run.partition, run.token))
        if known is None or known.last < run.last:
            runs[run.partition, run.token] = run
        ordered = sorted(runs.items())
        return Manifest(crawl=self.crawl, runs=tuple(run for _, run in ordered if run.last))

    def segments(self) -> Iterator[Segment]:
        """Those that count, in the order of partition, token and sequence."""
        for run in sorted(self.runs, key=lambda run: (run.partition, run.token)):
            yield from segments_of(self.crawl, run)

    @property
    def items(self) -> int:
        return sum(run.items for run in self.runs)


def segments_of(crawl: str, run: Run) -> Iterator[Segment]:
    """The segments of one run."""
    for sequence in range(1, run.last + 1):
        yield Segment(crawl, run.partition, run.token, sequence)


def united(crawl: str, manifests: Iterable[Manifest]) -> Manifest:
    """What counts of a whole crawl, from the manifests of its partitions."""
    whole = Manifest(crawl=crawl)
    for manifest in manifests:
        for run in manifest.runs:
            whole = whole.extended(run)
    return whole
