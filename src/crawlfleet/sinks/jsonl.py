"""One item a line, as JSON, appended to one file."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from crawlfleet.errors import SinkUnusable
from crawlfleet.model.crawl import SinkSpec
from crawlfleet.ports.sink import PageRecord


def from_spec(spec: SinkSpec) -> "JsonLines":
    """The sink of a crawl's specification."""
    return JsonLines(Path(spec.url))


class JsonLines:
    """Implements `crawlfleet.ports.sink.Sink`. The receipt is the length that counts."""

    wants_bodies = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._length = 0
        self._items = 0
        self._encoder = msgspec.json.Encoder()

    async def open(self, receipt: Any | None) -> None:
        self._file = await asyncio.to_thread(self._reopened, receipt)

    def _reopened(self, receipt: Any | None) -> BinaryIO:
        if receipt is None:
            if self._path.exists() and self._path.stat().st_size:
                raise SinkUnusable(f"{self._path} exists already; name another file, or remove it")
            return self._path.open("wb", buffering=0)
        self._length, self._items = receipt["length"], receipt["items"]
        found = self._path.stat().st_size if self._path.exists() else 0
        if found < self._length:
            raise SinkUnusable(
                f"{self._path} has {found} bytes and should have {self._length}: "
                "somebody changed it since; start afresh"
            )
        file = self._path.open("r+b", buffering=0)
        file.truncate(self._length)
        file.seek(self._length)
        return file

    async def stage(self, pages: Sequence[PageRecord]) -> Any:
        lines = bytearray()
        encode = self._encoder.encode
        for page in pages:
            for item in page.items:
                lines += encode(item.fields)
                lines += b"\n"
                self._items += 1
        if lines:
            await asyncio.to_thread(self._append, lines)
        return {"length": self._length, "items": self._items}

    def _append(self, lines: bytearray) -> None:
        assert self._file is not None
        self._file.write(lines)
        os.fdatasync(self._file.fileno())
        self._length += len(lines)

    async def finish(self) -> Mapping[str, Any]:
        await self.close()
        return {"path": str(self._path), "items": self._items, "bytes": self._length}

    async def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
