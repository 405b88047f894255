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
"""`items`: lines of JSON, each a kind and the fields of an item. `pages`: a WARC file."""
SINKS: Final[Mapping[str, Stream]] = MappingProxyType(
    {"fleet:items": "items", "fleet:pages": "pages"}
)
"""The streams as places of sinks, and as the names of their receipts."""
MAX_SEGMENT_BYTES: Final = 1_000_000
"""Of the data of one segment, packed."""
MAX_UNPACKED_BYTES: Final = 16_000_000
"""Of the same data, unpacked."""
MAX_COLUMNS: Final = 2_000


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The segments of one attempt, as far as they are committed."""

    execution_id: str
    last: int
    items: int = 0


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a frontier commits of a stream: which runs count, and how far; the last one may still
    grow."""

    runs: tuple[Run, ...] = ()


class Segment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One immutable piece of output."""

    sequence: Annotated[int, Meta(ge=1)]
    first: Annotated[int, Meta(ge=1)]
    """The number of the first segment of the same step."""
    counted: Annotated[int, Meta(ge=0)] = 0
    """All through this number are committed. What lies between it and `first` was taken back."""
    items: Annotated[int, Meta(ge=0)] = 0
    """How many end in this segment."""
    is_part: bool = False
    """Whether its last line goes on in the next segment."""
    earlier: tuple[Run, ...] = ()
    """Only of the first one: the runs of earlier attempts that this one goes on from. Of a run that
    is `shared`, what the first and the last segment know of other runs."""
    columns: Annotated[tuple[str, ...], Meta(max_length=MAX_COLUMNS)] = ()
    """Only of the first one: every field that an item can have, in order."""
    kinds: bool = False
    """Only of the first one: whether the crawl has items of several kinds."""
    shared: bool = False
    """Only of the first one: whether other runs of the crawl count beside this one."""


class SegmentUpload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to the service `output`: take over a segment, whose data is packed by zlib."""

    segment: Segment
    stream: Stream = "items"


class SegmentReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The master has the segment durably, unless the response has a refusal."""

    is_ended: bool = False
    """With a refusal: whether others ended this run and settled which of its output counts. The
    execution did nothing wrong; it ends, and the next attempt goes on."""


class OutputSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader finds of a crawl's output."""

    items: int
    bytes: int
    """Packed."""
    columns: tuple[str, ...] = ()
    kinds: bool = False
