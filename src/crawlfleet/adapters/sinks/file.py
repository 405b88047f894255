"""The base of all outputs in local files; a format adds the form of pages in the file."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from crawlfleet.adapters.sinks.rotating_file import FileReceipt, RotatingFile
from crawlfleet.errors import SinkUnusable
from crawlfleet.model.crawl.parameters import NodeSink, SinkSpec
from crawlfleet.ports.sink import PageRecord


class PageFormat(Protocol):
    """The form of pages in a file."""

    wants_bodies: bool

    def head(self, name: str) -> bytes:
        """Return the beginning of a file of that name."""
        ...

    def encode(self, pages: Sequence[PageRecord]) -> tuple[list[bytes], int]:
        """Return the pages as units, each to be packed by itself, and their number of items."""
        ...


def file_sink(spec: SinkSpec, format: PageFormat) -> "FileSink":
    """The sink of that format for the file that a specification names."""
    rotate = None if spec.rotate_mb is None else max(int(spec.rotate_mb * 1_000_000), 1)
    path = Path(spec.url.removeprefix("file://"))
    parts = RotatingFile(
        path,
        packing=spec.compress,
        rotate_bytes=rotate,
        head=format.head,
        below=Path(spec.folder) if isinstance(spec, NodeSink) else None,
    )
    return FileSink(parts, format, rotates=rotate is not None)


class FileSink:
    """Implements `crawlfleet.ports.sink.Sink`."""

    def __init__(self, parts: RotatingFile, format: PageFormat, *, rotates: bool) -> None:
        self.wants_bodies = format.wants_bodies
        self.format = format
        self._parts = parts
        self._rotates = rotates

    async def open(self, receipt: Any | None) -> None:
        read = None if receipt is None else _read(receipt, self._parts.path)
        await asyncio.to_thread(self._parts.open, read)

    async def stage(self, pages: Sequence[PageRecord]) -> Any:
        return msgspec.to_builtins(await asyncio.to_thread(self._stage, pages))

    def _stage(self, pages: Sequence[PageRecord]) -> FileReceipt:
        units, items = self.format.encode(pages)
        return self._parts.append(units, items)

    async def finish(self) -> Mapping[str, Any]:
        done = await asyncio.to_thread(self._parts.finish)
        told: dict[str, Any] = {
            "path": str(self._parts.path),
            "items": done.items,
            "bytes": sum(done.closed) + done.length,
        }
        if self._rotates:
            told["files"] = [self._parts.part(at + 1).name for at in range(len(done.closed) + 1)]
        return told

    async def close(self) -> None:
        await asyncio.to_thread(self._parts.close)


def _read(receipt: Any, path: Path) -> FileReceipt:
    try:
        return msgspec.convert(receipt, FileReceipt)
    except msgspec.ValidationError as error:
        raise SinkUnusable(
            f"what was committed for {path} is not the receipt of a file ({error}); "
            "name the same kind of output as before, or start afresh"
        ) from error
