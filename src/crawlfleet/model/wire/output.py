"""A crawl's output on its way from a node to the master's storage, and what counts of it.

Output travels in segments. An attempt writes its segments in one run, numbered from 1 without
gaps, so that a copy that comes late, and a segment that is missing, are known for what they are.
A step of the crawl stages one or several segments and then commits; each segment says through
which number all was committed when it was staged. So a reader needs nothing but the run itself to
know what counts. Several executions may work for one crawl, at once or one after another; then all
of their runs count, each as far as it says itself, or as another run says of it, whichever is more.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

Stream = Literal["items", "pages"]
"""Kind of output. `items`: lines of JSON with the kind and fields of an item each; `pages`: a WARC
file."""
SINKS: Final[Mapping[str, Stream]] = MappingProxyType(
    {"fleet:items": "items", "fleet:pages": "pages"}
)
"""Streams by the URL of their sink, which is also the name of their receipt."""
MAX_SEGMENT_BYTES: Final = 1_000_000
"""Maximum size of a segment's data, compressed."""
MAX_UNPACKED_BYTES: Final = 16_000_000
"""Maximum size of a segment's data, uncompressed."""
MAX_COLUMNS: Final = 2_000


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Committed segments of one attempt."""

    execution_id: str
    last: int
    items: int = 0


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Receipt of a stream in a frontier's commit: the runs that count, each with its last segment;
    the last run may still grow."""

    runs: tuple[Run, ...] = ()


class Segment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One immutable segment of output."""

    sequence: Annotated[int, Meta(ge=1)]
    first: Annotated[int, Meta(ge=1)]
    """Number of the first segment of the same step."""
    counted: Annotated[int, Meta(ge=0)] = 0
    """Number of the last committed segment at staging. Segments between it and `first` were
    discarded."""
    items: Annotated[int, Meta(ge=0)] = 0
    """Number of items that end in this segment."""
    is_part: bool = False
    """True if the last line continues in the next segment."""
    earlier: tuple[Run, ...] = ()
    """Runs of earlier attempts that this run continues; only in the first segment. In a `shared`
    run, the first and the last segment have the known state of other runs."""
    columns: Annotated[tuple[str, ...], Meta(max_length=MAX_COLUMNS)] = ()
    """All fields that an item can have, in order; only in the first segment."""
    kinds: bool = False
    """True if the crawl has items of several kinds; only in the first segment."""
    shared: bool = False
    """True if other runs of the crawl count beside this one; only in the first segment."""


class SegmentUpload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to the service `output` to store a segment; its data is compressed with zlib."""

    segment: Segment
    stream: Stream = "items"


class SegmentReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to an upload: the master has stored the segment durably, unless the response has a
    refusal."""

    is_ended: bool = False
    """True, with a refusal, if another caller ended this run and settled the output that counts.
    The execution did nothing wrong; it ends, and the next attempt continues."""


class OutputSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of a crawl's output for readers."""

    items: int
    bytes: int
    """Size as stored, compressed."""
    columns: tuple[str, ...] = ()
    kinds: bool = False
