"""Uploads the output of a crawl that runs on a node to the master, in segments."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from crawlfleet.errors import FieldProblem, InvalidRequest, SinkUnusable
from crawlfleet.model.crawl.parameters import SinkSpec
from crawlfleet.model.wire.output import SINKS, Receipt, Run, Segment, Stream
from crawlfleet.ports.execution import CrawlContext
from crawlfleet.ports.sink import PageRecord

PIECE_BYTES: Final = 900_000
"""Size of a segment before compression; compressed, it is at most a little longer."""
LEVEL: Final = 3
APART_BYTES: Final = 50_000
"""Size from which compression runs in a thread, since it takes long."""


def stream_of(spec: SinkSpec) -> Stream:
    """Return the stream of a sink in the master's storage; raises `InvalidRequest` for any other
    sink."""
    stream = SINKS.get(spec.url)
    if stream is None:
        raise InvalidRequest(
            [
                FieldProblem(
                    field="sinks",
                    message="is no place in the master's storage",
                    remedy="use fleet:items, or fleet:pages for whole pages as a WARC archive",
                    value=spec.url,
                )
            ]
        )
    return stream


def runs_in(receipts: Mapping[str, Any], sink: str) -> tuple[Run, ...]:
    """Return the runs of a stream from the receipts of all executions of a crawl; see
    `crawl.engine.committer.marked`."""
    told = [receipt for name, receipt in receipts.items() if name.startswith(f"{sink}@")]
    return tuple(run for receipt in told for run in _read(receipt).runs)


class Format(Protocol):
    """The format of pages in a stream."""

    wants_bodies: bool

    def head(self, name: str) -> bytes:
        """Return the first bytes of the stream."""
        ...

    def encode(self, pages: Sequence[PageRecord]) -> tuple[list[bytes], int]:
        """The pages as units, and how many items that are."""
        ...


class ItemLines:
    """Implements `Format`: a unit is one item, as a line of JSON with its kind and its fields."""

    wants_bodies = False

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()

    def head(self, name: str) -> bytes:
        return b""

    def encode(self, pages: Sequence[PageRecord]) -> tuple[list[bytes], int]:
        encode = self._encoder.encode
        lines = [encode((item.kind, item.fields)) + b"\n" for page in pages for item in page.items]
        return lines, len(lines)


class UploadSink:
    """Implements `crawlfleet.ports.sink.Sink`: one stream of a crawl's output."""

    def __init__(
        self,
        context: CrawlContext,
        stream: Stream,
        format: Format,
        *,
        columns: Sequence[str] = (),
        kinds: bool = False,
        others: Callable[[], Awaitable[tuple[Run, ...]]] | None = None,
    ) -> None:
        """Create an upload. `columns` are the fields that items can have; `kinds` is set if there
        are several kinds of items. `others` is given if several executions work for the crawl: it
        returns how far their runs count."""
        self._others = others
        self.wants_bodies = format.wants_bodies
        self._stream = stream
        self._format = format
        self._context = context
        self._columns = tuple(columns)
        self._kinds = kinds
        self._sequence = 0
        self._earlier: tuple[Run, ...] = ()
        self._run = self._begun = Run(execution_id=context.execution_id, last=0)

    async def open(self, receipt: Any | None) -> None:
        runs = () if receipt is None else _read(receipt).runs
        if runs and runs[-1].execution_id == self._context.execution_id:
            self._earlier, self._run = runs[:-1], runs[-1]
        else:
            self._earlier, self._run = runs, self._begun

    async def begin(self) -> None:
        """Send the first segment, which names the runs that this one continues. Call it after
        `open`, before anything else. Raises `SinkUnusable` where the master takes no output."""
        head = self._format.head(f"crawl-{self._context.task_id}")
        known = self._earlier if self._others is None else await self._others()
        await self._upload([*cut([head] if head else [])], items=0, known=known)
        self._begun = self._run

    async def stage(self, pages: Sequence[PageRecord]) -> Any:
        if not self._sequence:
            await self.begin()
        units, _ = self._format.encode(pages)
        if units:
            await self._upload([*cut(units)])
        return msgspec.to_builtins(Receipt(runs=(*self._earlier, self._run)))

    async def finish(self) -> Mapping[str, Any]:
        """Send a last, empty segment: all output is committed."""
        known = () if self._others is None else await self._others()
        await self._upload([Chunk(b"", 0, is_part=False)], known=known)
        return {"items": sum(run.items for run in (*self._earlier, self._run))}

    async def close(self) -> None: ...

    async def _upload(
        self, chunks: Sequence["Chunk"], *, items: int | None = None, known: tuple[Run, ...] = ()
    ) -> None:
        """`items` where it is not how many units end in a chunk; `known` of other runs."""
        counted, first = self._run.last, self._sequence + 1
        for chunk in chunks:
            begins = self._sequence == 0
            self._sequence += 1
            segment = Segment(
                sequence=self._sequence,
                first=first,
                counted=counted,
                items=chunk.items if items is None else items,
                is_part=chunk.is_part,
                earlier=known,
                columns=self._columns if begins else (),
                kinds=self._kinds if begins else False,
                shared=begins and self._others is not None,
            )
            known = ()
            await self._context.store_segment(self._stream, segment, await _packed(chunk.data))
        self._run = Run(
            execution_id=self._run.execution_id,
            last=self._sequence,
            items=self._run.items + sum(chunk.items if items is None else 0 for chunk in chunks),
        )


class Chunk(NamedTuple):
    """The content of one segment."""

    data: bytes
    items: int
    is_part: bool


def cut(lines: Sequence[bytes]) -> Iterator[Chunk]:
    """Yield the lines in chunks of a bounded size; a longer line continues in the next chunk. At
    least one chunk."""
    gathered: list[bytes] = []
    size = 0
    for line in lines:
        if size + len(line) > PIECE_BYTES and gathered:
            yield Chunk(b"".join(gathered), len(gathered), is_part=False)
            gathered, size = [], 0
        while len(line) > PIECE_BYTES:
            yield Chunk(line[:PIECE_BYTES], 0, is_part=True)
            line = line[PIECE_BYTES:]
        gathered.append(line)
        size += len(line)
    if gathered or not lines:
        yield Chunk(b"".join(gathered), len(gathered), is_part=False)


async def _packed(data: bytes) -> bytes:
    if not data:
        return b""
    if len(data) > APART_BYTES:
        return await asyncio.to_thread(zlib.compress, data, LEVEL)
    return zlib.compress(data, LEVEL)


def _read(receipt: Any) -> Receipt:
    try:
        return msgspec.convert(receipt, Receipt)
    except msgspec.ValidationError as error:
        raise SinkUnusable(
            f"what was committed is no receipt of the master's storage ({error}); start afresh"
        ) from error
