"""Output in immutable segments, for crawls whose writers may be gone for good, or come back late.

Segments are written before the commit that counts them, under names that no two writers share;
the manifest in the commit says which count. A writer that lost its partition may still write:
nobody reads it. In the end all that counts is merged into one file.
"""

import asyncio
import contextlib
import os
import re
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from crawlfleet.adapters.sinks.file import Format
from crawlfleet.adapters.sinks.manifest import Manifest, Run, Segment, segments_of
from crawlfleet.adapters.sinks.rotating_file import Packing, packer_of, sync_folder, unwritable
from crawlfleet.errors import SinkUnusable
from crawlfleet.ports.sink import PageRecord

ENDING: Final = ".segment"
_NAME: Final = re.compile(r"(\d{5,})-(\d{10,})-(\d{10,})\.segment")
_CRAWL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


class SegmentFolder:
    """Keeps segments in a folder, a folder below it for each crawl. All here blocks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, segment: Segment) -> Path:
        """Where it is, or would be."""
        name = f"{segment.partition:05}-{segment.token:010}-{segment.sequence:010}{ENDING}"
        return self._of(segment.crawl) / name

    def put(self, segment: Segment, data: bytes) -> None:
        """Make it durable. The same one may be put twice; another under its name is refused."""
        path = self.path(segment)
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(parents=True, exist_ok=True)
                sync_folder(path.parent.parent)
            draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
            try:
                _write_durably(draft, [data])
                os.link(draft, path)  # unlike a rename, this replaces nothing
            except FileExistsError:
                if path.read_bytes() != data:
                    raise SinkUnusable(
                        f"{path} is there already, with other content: two writers use the same "
                        "token; end one of them"
                    ) from None
            finally:
                draft.unlink(missing_ok=True)
            sync_folder(path.parent)
        except OSError as error:
            raise unwritable(path, error) from error

    def found(self, crawl: str) -> list[Segment]:
        """Those of a crawl that are there, whether they count or not."""
        with contextlib.suppress(FileNotFoundError):
            matches = [_NAME.fullmatch(path.name) for path in self._of(crawl).iterdir()]
            return sorted(
                Segment(crawl, int(match[1]), int(match[2]), int(match[3]))
                for match in matches
                if match
            )
        return []

    def remove(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            self.path(segment).unlink(missing_ok=True)
        if segments:
            sync_folder(self._of(segments[0].crawl))

    def remove_crawl(self, crawl: str) -> None:
        """Once the end of the crawl is on record, nothing needs its segments."""
        shutil.rmtree(self._of(crawl), ignore_errors=True)

    def check(self, manifest: Manifest) -> None:
        """Raises `SinkUnusable` when something that counts is not there."""
        for run in manifest.runs:
            paths = [self.path(segment) for segment in segments_of(manifest.crawl, run)]
            for path in paths:
                if not path.exists():
                    raise SinkUnusable(f"{path} is missing; put it back, or start afresh")
            found = sum(path.stat().st_size for path in paths)
            if found != run.bytes:
                raise SinkUnusable(
                    f"the segments of partition {run.partition} under token {run.token} in "
                    f"{paths[0].parent} have {found} bytes and should have {run.bytes}: somebody "
                    "changed them since; put them back as they were, or start afresh"
                )

    def merge(self, manifest: Manifest, target: Path, *, head: bytes = b"") -> int:
        """Write all that counts into one file, which appears whole or not at all; its length.

        The same manifest gives the same file. The segments stay.
        """
        self.check(manifest)
        draft = target.with_name(f".{target.name}.merging")
        try:
            length = _write_durably(draft, self._contents(manifest, head))
            draft.replace(target)
            sync_folder(target.parent)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise unwritable(target, error) from error
        return length

    def _contents(self, manifest: Manifest, head: bytes) -> Iterator[bytes]:
        yield head
        for segment in manifest.segments():
            yield self.path(segment).read_bytes()

    def _of(self, crawl: str) -> Path:
        if not _CRAWL.fullmatch(crawl):
            raise ValueError(f"{crawl!r} cannot be the name of a folder")
        return self._folder / crawl


class SegmentSink:
    """Implements `crawlfleet.ports.sink.Sink` for one partition of a crawl.

    `token` is that of the partition's lease; without one, each `open` takes the next that nobody
    has used. `finish` merges into `target`, and leaves the segments for `remove_crawl`.
    """

    def __init__(
        self,
        folder: SegmentFolder,
        format: Format,
        *,
        crawl: str,
        target: Path,
        partition: int = 0,
        token: int | None = None,
        packing: Packing = None,
    ) -> None:
        self.wants_bodies = format.wants_bodies
        self._folder = folder
        self._format = format
        self._crawl = crawl
        self._target = target
        self._partition = partition
        self._given_token = token
        self._pack = packer_of(packing)
        self._turn = threading.Lock()
        self._manifest = Manifest(crawl=crawl)
        self._run: Run | None = None

    async def open(self, receipt: Any | None) -> None:
        manifest = Manifest(crawl=self._crawl) if receipt is None else self._read(receipt)
        await asyncio.to_thread(self._open, manifest, new=receipt is None)

    async def stage(self, pages: Sequence[PageRecord]) -> Any:
        return msgspec.to_builtins(await asyncio.to_thread(self._stage, pages))

    async def finish(self) -> Mapping[str, Any]:
        length = await asyncio.to_thread(self._merge)
        await self.close()
        return {"path": str(self._target), "items": self._manifest.items, "bytes": length}

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _open(self, manifest: Manifest, *, new: bool) -> None:
        with self._turn:
            self._run = None
            if new and self._target.exists() and self._target.stat().st_size:
                raise SinkUnusable(
                    f"{self._target} exists already; name another file, or remove it"
                )
            self._folder.check(manifest)
            counted = set(manifest.segments())
            found = [s for s in self._folder.found(self._crawl) if s.partition == self._partition]
            token = self._given_token
            if token is None:
                used = [segment.token for segment in found] + [run.token for run in manifest.runs]
                token = max(used, default=0) + 1
            # What has a greater token belongs to one who came after us: not ours to judge.
            self._folder.remove([s for s in found if s not in counted and s.token <= token])
            self._manifest = manifest
            self._run = next(
                (run for run in manifest.runs if run.token == token),
                Run(partition=self._partition, token=token, last=0, bytes=0, items=0),
            )

    def _stage(self, pages: Sequence[PageRecord]) -> Manifest:
        with self._turn:
            run = self._run
            if run is None:
                raise SinkUnusable(f"the segments of {self._target} are closed; open them first")
            units, items = self._format.encode(pages)
            if units:
                data = b"".join(map(self._pack, units))
                segment = Segment(self._crawl, self._partition, run.token, run.last + 1)
                self._folder.put(segment, data)
                self._run = Run(
                    partition=self._partition,
                    token=run.token,
                    last=segment.sequence,
                    bytes=run.bytes + len(data),
                    items=run.items + items,
                )
                self._manifest = self._manifest.extended(self._run)
            return self._manifest

    def _merge(self) -> int:
        with self._turn:
            head = self._format.head(self._target.name)
            packed = self._pack(head) if head or not self._manifest.runs else b""
            return self._folder.merge(self._manifest, self._target, head=packed)

    def _close(self) -> None:
        with self._turn:
            self._run = None

    def _read(self, receipt: Any) -> Manifest:
        try:
            manifest = msgspec.convert(receipt, Manifest)
        except msgspec.ValidationError as error:
            raise SinkUnusable(
                f"what was committed for {self._target} is no manifest of segments ({error}); "
                "name the same kind of output as before, or start afresh"
            ) from error
        if manifest.crawl != self._crawl:
            raise SinkUnusable(
                f"what was committed is of the crawl {manifest.crawl}, not of {self._crawl}; "
                "start afresh"
            )
        return manifest


def _write_durably(path: Path, pieces: Iterator[bytes] | Sequence[bytes]) -> int:
    length = 0
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            length += len(piece)
        _sync(file)
    return length


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
