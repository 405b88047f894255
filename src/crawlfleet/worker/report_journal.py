"""A journal of finished work on the node's disk, until a master has answered for it.

Records are appended to one file, each with its length and checksum: a record torn by a crash is
left out. When no record waits the file is emptied, which works on a full disk, too. A record that
comes back although it was answered does no harm: the master refuses it.
"""

import asyncio
import os
import struct
import zlib
from collections.abc import Collection, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from crawlfleet.errors import ConfigError
from crawlfleet.model.wire.node_protocol import Report, ReportBatch
from crawlfleet.private_file import write_private
from crawlfleet.telemetry import Component, logger

log = logger(Component.WORKER)
MAX_BYTES: Final = 64_000_000
HEAD: Final = struct.Struct(">II")
"""The header of a record: its length and checksum."""
WASTE_BYTES: Final = 4_000_000
"""Maximum size of answered records in the file before it is rewritten."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A report, with the node and session in whose name it is sent."""

    node_id: str
    session_id: str
    report: Report


class ReportJournal:
    """A `ReportKeeper` in a file, or without a path in memory.

    A disk that fails does not stop the node: records that cannot be written wait in memory, and
    `is_full` keeps the node from taking more work.
    """

    def __init__(self, path: Path | None, *, most_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._descriptor: int | None = None
        self._length = 0
        """Length of the intact part of the file."""
        self._waiting: dict[str, list[tuple[Kept, int]]] = {}
        """Records by execution, each with its size."""
        self._bytes = 0
        self._unwritten: list[bytes] = []
        self._turn = asyncio.Lock()
        if path is not None and path.exists():
            self._read(path)

    @property
    def is_full(self) -> bool:
        """True when the node should take no more work for now."""
        return self._bytes >= self._most_bytes or bool(self._unwritten)

    def waiting(self) -> list[tuple[str, ReportBatch]]:
        """Return all kept reports that were not forgotten, by node and session, in order."""
        batches: dict[tuple[str, str], list[Report]] = {}
        for entries in self._waiting.values():
            for kept, _ in entries:
                batches.setdefault((kept.node_id, kept.session_id), []).append(kept.report)
        return [
            (node_id, ReportBatch(session_id=session_id, reports=tuple(reports)))
            for (node_id, session_id), reports in batches.items()
        ]

    async def keep(self, node_id: str, batch: ReportBatch) -> None:
        """Keep reports. They are durable when this returns, unless the disk failed."""
        for report in batch.reports:
            kept = Kept(node_id=node_id, session_id=batch.session_id, report=report)
            record = _record(kept)
            self._waiting.setdefault(report.execution_id, []).append((kept, len(record)))
            self._bytes += len(record)
            self._unwritten.append(record)
        await self._in_turn(self._write())

    async def forget(self, execution_ids: Collection[str]) -> None:
        """Forget the reports of answered executions."""
        for id in execution_ids:
            self._bytes -= sum(size for _, size in self._waiting.pop(id, ()))
        await self._in_turn(self._clear())

    async def _in_turn(self, step: Coroutine[Any, Any, None]) -> None:
        """Run one operation on the file at a time, and to its end even if the caller is
        cancelled."""

        async def act() -> None:
            async with self._turn:
                await step

        await asyncio.shield(asyncio.create_task(act(), name="journal"))

    async def _clear(self) -> None:
        """Free the space of answered records."""
        if self._path is None:
            return
        try:
            if not self._waiting:
                self._unwritten.clear()
                await asyncio.to_thread(self._empty)
            elif self._length - self._bytes > WASTE_BYTES and not self._unwritten:
                content = b"".join(self._records())
                await asyncio.to_thread(self._rewrite, self._path, content)
        except OSError as error:
            # Then they are sent again one day, and refused.
            log.warning("answered reports stay on disk", error=str(error))

    async def _write(self) -> None:
        records, self._unwritten = self._unwritten, []
        if self._path is None or not records:
            return
        try:
            await asyncio.to_thread(self._append, self._path, b"".join(records))
        except OSError as error:
            self._unwritten = records + self._unwritten
            log.error(
                "finished work cannot be written to disk and waits in memory; "
                "no more work is taken until it is answered or written",
                file=str(self._path),
                error=str(error),
            )

    def _append(self, path: Path, content: bytes) -> None:
        file = self._opened(path)
        try:
            _write_at(file, content, self._length)
            os.fsync(file)
        except OSError:
            # Nothing may follow a record that is only there in part.
            os.ftruncate(file, self._length)
            raise
        self._length += len(content)

    def _empty(self) -> None:
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            self._length = 0

    def _rewrite(self, path: Path, content: bytes) -> None:
        write_private(path, content)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._opened(path)
        self._length = len(content)

    def _records(self) -> list[bytes]:
        return [_record(kept) for entries in self._waiting.values() for kept, _ in entries]

    def _opened(self, path: Path) -> int:
        if self._descriptor is None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        return self._descriptor

    def _read(self, path: Path) -> None:
        try:
            content = path.read_bytes()
            self._opened(path)
        except OSError as error:
            raise ConfigError(
                f"the finished work in {path} cannot be read: {error.strerror}; make it readable "
                "and writable for this worker, or remove it to have that work done again"
            ) from error
        for kept, size in _records_in(content):
            self._waiting.setdefault(kept.report.execution_id, []).append((kept, size))
            self._bytes += size
            self._length += size
        if self._length < len(content):
            log.warning(
                "the end of a journal was torn and is left out",
                file=str(path),
                bytes=len(content) - self._length,
            )
        if self._waiting:
            log.info("finished work waits for its master", executions=len(self._waiting))


def _write_at(file: int, content: bytes, at: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written


def _record(kept: Kept) -> bytes:
    payload = msgspec.json.encode(kept)
    return HEAD.pack(len(payload), zlib.crc32(payload)) + payload


def _records_in(content: bytes) -> Iterator[tuple[Kept, int]]:
    """Yield the records of a file with their sizes, up to the first incomplete one."""
    at = 0
    while at + HEAD.size <= len(content):
        length, checksum = HEAD.unpack_from(content, at)
        payload = content[at + HEAD.size : at + HEAD.size + length]
        if len(payload) < length or zlib.crc32(payload) != checksum:
            return
        try:
            kept = msgspec.json.decode(payload, type=Kept)
        except msgspec.DecodeError:
            return
        at += HEAD.size + length
        yield kept, HEAD.size + length
