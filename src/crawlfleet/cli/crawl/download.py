"""Downloads the output of a crawl on a fleet into the files that `-o` names.

A download goes to a draft, which outlives this process: the next run continues it. Only a complete
draft is compressed, if the file is to be, and moved to its place in one step.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from crawlfleet.adapters.sinks.rotating_file import Packing, packer_of, unwritable
from crawlfleet.cli.crawl.outputs import OutputFile
from crawlfleet.cli.crawl.state import CrawlState
from crawlfleet.errors import Conflict, CrawlfleetError, MasterUnreachable
from crawlfleet.features.crawls.views import CrawlView

if TYPE_CHECKING:
    from crawlfleet.client import Client

PATIENCE_S: Final = 60.0
"""Seconds without data from the master after which a download fails."""
PAUSE_S: Final = 1.0
UNIT_BYTES: Final = 1_000_000
"""Bytes of lines that are compressed together."""
READ_BYTES: Final = 1 << 20

Tell = Callable[[int], None]


class Download:
    """Fetches the output of one crawl that has ended."""

    def __init__(self, fleet: "Client", crawl: CrawlView, state: CrawlState, *, tell: Tell) -> None:
        """Make a download; it calls `tell` with the number of bytes of a file that have arrived."""
        self._fleet = fleet
        self._crawl = crawl
        self._state = state
        self._drafts = state.drafts
        self._tell = tell

    async def put_all(self, outputs: Sequence[OutputFile]) -> dict[Path, int]:
        """Write the files and return the size of each in bytes."""
        sizes = {}
        # A file that is not packed takes the draft with it.
        for output in sorted(outputs, key=lambda each: each.spec.compress is None):
            assert output.path is not None
            sizes[output.path] = await self._put(output, output.path)
        for draft in self._drafts.iterdir():
            draft.unlink(missing_ok=True)
        return sizes

    async def _put(self, output: OutputFile, path: Path) -> int:
        format = output.spec.format or ""
        self._check(format)
        try:
            draft = await self._fetched(format)
            if format == "jsonl":
                await asyncio.to_thread(self._check_lines, draft)
            whole = draft
            if output.spec.compress:
                whole = draft.with_name(f"{draft.name}.packed")
                await asyncio.to_thread(pack, draft, whole, format, output.spec.compress)
            size = whole.stat().st_size
            await asyncio.to_thread(self._state.place, whole, path)
        except OSError as error:
            raise unwritable(path, error) from error
        return size

    def _check(self, format: str) -> None:
        kept = self._crawl.output
        if kept is None:
            raise Conflict(f"the fleet has no output of {self._crawl.task_id}")
        if format not in kept.formats:
            told = " and ".join(kept.formats) or "nothing"
            raise Conflict(f"of {self._crawl.task_id} there is {told}, and no {format}")

    async def _fetched(self, format: str) -> Path:
        """Download the whole output in a format to a draft, and return its path."""
        draft = self._drafts / f"{self._stamp()}.{format}"
        loop = asyncio.get_running_loop()
        heard_at = loop.time()
        while True:
            size = draft.stat().st_size if draft.exists() else 0
            try:
                with draft.open("ab") as file:
                    chunks = self._fleet.download_crawl(
                        self._crawl.task_id, format=format, offset=size
                    )
                    async for chunk in chunks:
                        size += file.write(chunk)
                        heard_at = loop.time()
                        self._tell(size)
                    file.flush()
                    os.fsync(file.fileno())
                return draft
            except MasterUnreachable:
                if loop.time() - heard_at > PATIENCE_S:
                    raise
            await asyncio.sleep(PAUSE_S)

    def _stamp(self) -> str:
        """Return a name for drafts of exactly this output: a draft of another output is never
        continued."""
        crawl, kept = self._crawl, self._crawl.output
        assert kept is not None
        facts = (crawl.task_id, str(crawl.finished_at), str(kept.items), str(kept.bytes))
        return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]

    def _check_lines(self, draft: Path) -> None:
        """Each item is a line."""
        with draft.open("rb") as file:
            lines = sum(piece.count(b"\n") for piece in iter(lambda: file.read(READ_BYTES), b""))
        expected = self._crawl.output.items if self._crawl.output else 0
        if lines != expected:
            draft.unlink()
            raise CrawlfleetError(
                f"{lines} items of {self._crawl.task_id} came, and it has {expected}; run the "
                "same command again"
            )


def pack(plain: Path, into: Path, format: str, packing: Packing) -> None:
    """A file in units that are packed each by itself; of an archive, each record is one."""
    pack_unit = packer_of(packing)
    units = records_in if format == "warc" else _portions
    with plain.open("rb") as file, into.open("wb") as packed:
        empty = True
        for unit in units(file):
            packed.write(pack_unit(unit))
            empty = False
        if empty:
            packed.write(pack_unit(b""))
        packed.flush()
        os.fsync(packed.fileno())


def records_in(archive: BinaryIO) -> Iterator[bytes]:
    """The records of a WARC file, each whole, with the empty lines after it."""
    while first := archive.readline():
        head = bytearray(first)
        length = 0
        while (line := archive.readline()) not in (b"\r\n", b""):
            head += line
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        yield bytes(head) + line + archive.read(length) + archive.read(len(b"\r\n\r\n"))


def _portions(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(UNIT_BYTES), b"")
