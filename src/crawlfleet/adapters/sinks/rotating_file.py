"""One local file, or a row of numbered ones: appended to, made durable, cut back to a receipt.

Every append is a unit: plain bytes, or gzip members or zstd frames of their own. So a file that is
cut where a receipt says is a whole, valid file. All here blocks, and belongs into a thread.
"""

import errno
import os
import re
import threading
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal

import msgspec

from crawlfleet import zstd
from crawlfleet.adapters.sinks.folder import SinkFolder
from crawlfleet.errors import SinkUnusable

TAIL_BYTES: Final = 1024
"""Bytes before the counted end that are compared, to recognize the file."""
GZIP_LEVEL: Final = 6
ZSTD_LEVEL: Final = 3
COMPRESSED: Final = (".gz", ".zst")
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)

Packing = Literal["gzip", "zstd"] | None


class FileReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The output that counts: all of the closed parts, and the file up to a length."""

    file: str
    length: int
    items: int
    tail: int = 0
    """CRC of the last bytes that count."""
    inode: int = 0
    """Number of the file, which tells an empty file from another that was put in its place."""
    closed: tuple[int, ...] = ()
    """Lengths of the parts before this one."""


class RotatingFile:
    """The files of one output. With `rotate_bytes`, another part is begun once one has so many:
    `items-00001.jsonl`, `items-00002.jsonl`, ….

    `head` gives the beginning of each file, by its name. May be used by several threads.
    """

    def __init__(
        self,
        path: Path,
        *,
        packing: Packing = None,
        rotate_bytes: int | None = None,
        head: Callable[[str], bytes] = lambda name: b"",
        below: Path | None = None,
    ) -> None:
        """Create the writer. `below` is the folder that files of tasks may not leave."""
        self.path = path
        self._below = below
        self._folder: SinkFolder | None = None
        self._pack = packer_of(packing)
        self._packs = packing is not None
        self._rotate_bytes = rotate_bytes
        self._head = head
        self._turn = threading.Lock()
        self._file: int | None = None
        self._length = self._items = self._inode = 0
        self._tail = b""
        self._closed: tuple[int, ...] = ()

    def open(self, receipt: FileReceipt | None) -> None:
        """Begin with nothing, or go back to a receipt; raises `SinkUnusable` and changes nothing
        where the files do not go together with it."""
        with self._turn:
            self._close()
            try:
                self._folder = self._opened()
                self._begin() if receipt is None else self._return_to(receipt)
            except OSError as error:
                self._close()
                raise unwritable(self.path, error) from error
            except SinkUnusable:
                self._close()
                raise

    def append(self, units: Sequence[bytes], items: int) -> FileReceipt:
        """Make the units durable, each packed by itself; the receipt for all so far.

        When the disk does not take them they are taken back, and the files are closed.
        """
        with self._turn:
            if self._file is None:
                raise SinkUnusable(f"{self.path} is closed; open it first")
            if units:
                before = self._receipt()
                try:
                    if self._rotate_bytes is not None and self._length >= self._rotate_bytes:
                        self._next_part()
                    self._write(units)
                except OSError as error:
                    self._take_back(before)
                    raise unwritable(self.path, error) from error
                except SinkUnusable:
                    self._take_back(before)
                    raise
                self._items += items
            return self._receipt()

    def finish(self) -> FileReceipt:
        """Give an output without items its beginning, then close; the receipt for all of it."""
        with self._turn:
            if self._file is not None and not self._length:
                head = self._head(self.part(len(self._closed) + 1).name)
                if head or self._packs:
                    try:
                        self._write([] if head else [b""])
                    except OSError as error:
                        raise unwritable(self.path, error) from error
            self._close()
            return self._receipt()

    def close(self) -> None:
        """Waits for an append that is under way. May be called twice."""
        with self._turn:
            self._close()

    def part(self, number: int) -> Path:
        """The file with that number, from 1."""
        if self._rotate_bytes is None:
            return self.path
        stem, ending = self._split()
        return self.path.with_name(f"{stem}-{number:05}{ending}")

    def _split(self) -> tuple[str, str]:
        path, packed = self.path, ""
        if path.suffix.lower() in COMPRESSED:
            path, packed = path.with_suffix(""), path.suffix
        return path.stem, path.suffix + packed

    def _numbered(self) -> list[tuple[int, str]]:
        """The parts that are there."""
        folder = self._in()
        if self._rotate_bytes is None:
            return [(1, self.path.name)] if folder.found(self.path.name) else []
        stem, ending = self._split()
        name = re.compile(rf"{re.escape(stem)}-(\d{{5,}}){re.escape(ending)}")
        matches = [name.fullmatch(each) for each in folder.names()]
        return [(int(match[1]), match[0]) for match in matches if match]

    def _opened(self) -> SinkFolder:
        try:
            return SinkFolder(self.path.parent, below=self._below)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise SinkUnusable(
                f"the folder of {self.path} does not exist; create it first"
            ) from error

    def _in(self) -> SinkFolder:
        assert self._folder is not None, "opened first"
        return self._folder

    def _begin(self) -> None:
        folder = self._in()
        there = self._numbered()
        for _, name in there:
            found = folder.found(name)
            if found is not None and found.st_size:
                raise SinkUnusable(
                    f"{self.path.with_name(name)} exists already; name another file, or remove it"
                )
        for number, name in there:
            if number > 1:
                folder.remove(name)
        self._length = self._items = 0
        self._tail, self._closed = b"", ()
        self._take(self.part(1))

    def _return_to(self, receipt: FileReceipt) -> None:
        folder = self._in()
        current = self.part(len(receipt.closed) + 1)
        if receipt.file != current.name:
            raise SinkUnusable(
                f"what was committed is in {receipt.file}, not in {current}; name the same file "
                "and the same rotation as before, or start afresh"
            )
        for number, length in enumerate(receipt.closed, 1):
            self._check_length(self.part(number), length, exact=True)
        tail = self._known_again(current, receipt)
        self._length, self._items, self._tail = receipt.length, receipt.items, tail
        self._closed = receipt.closed
        self._take(current)
        for number, name in self._numbered():
            if number > len(receipt.closed) + 1:
                folder.remove(name)
        folder.sync()

    def _known_again(self, path: Path, receipt: FileReceipt) -> bytes:
        """The end of what counts, if this is the file that the receipt speaks of."""
        found = self._check_length(path, receipt.length, exact=False)
        if not receipt.length:
            there = self._in().found(path.name)
            if found and there is not None and there.st_ino != receipt.inode:
                raise _changed(path, "is another file than the one that was begun")
            return b""
        file = self._in().open(path.name, os.O_RDONLY)
        try:
            tail = os.pread(
                file, min(receipt.length, TAIL_BYTES), max(receipt.length - TAIL_BYTES, 0)
            )
        finally:
            os.close(file)
        if zlib.crc32(tail) != receipt.tail:
            raise _changed(path, "has other content than what was written to it")
        return tail

    def _check_length(self, path: Path, length: int, *, exact: bool) -> int:
        there = self._in().found(path.name)
        found = 0 if there is None else there.st_size
        if found < length or (exact and found > length):
            raise _changed(path, f"has {found} bytes and should have {length}")
        return found

    def _take(self, path: Path) -> None:
        """Go on in a file at the length that counts."""
        self._file = self._in().open(path.name, os.O_RDWR | os.O_CREAT)
        self._inode = os.fstat(self._file).st_ino
        os.ftruncate(self._file, self._length)
        os.fsync(self._file)
        self._in().sync()

    def _next_part(self) -> None:
        closed = (*self._closed, self._length)
        self._let_go()
        self._length, self._tail, self._closed = 0, b"", closed
        self._take(self.part(len(closed) + 1))

    def _write(self, units: Sequence[bytes]) -> None:
        assert self._file is not None
        if not self._length:
            head = self._head(self.part(len(self._closed) + 1).name)
            units = [head, *units] if head else units
        data = b"".join(map(self._pack, units)) if self._packs else b"".join(units)
        rest, at = memoryview(data), self._length
        while rest:
            written = os.pwrite(self._file, rest, at)
            rest, at = rest[written:], at + written
        os.fdatasync(self._file)
        self._length = at
        self._tail = (self._tail + data[-TAIL_BYTES:])[-TAIL_BYTES:]

    def _take_back(self, before: FileReceipt) -> None:
        """A full disk still lets files be cut; where even that fails, the next `open` does it."""
        current = self.part(len(self._closed) + 1)
        is_begun = current.name != before.file and self._file is not None
        self._let_go()
        self._length, self._items, self._closed = before.length, before.items, before.closed
        try:
            if is_begun:
                self._in().remove(current.name)
            self._in().truncate(before.file, before.length)
        except (OSError, SinkUnusable):
            return
        finally:
            self._close()

    def _receipt(self) -> FileReceipt:
        return FileReceipt(
            file=self.part(len(self._closed) + 1).name,
            length=self._length,
            items=self._items,
            tail=zlib.crc32(self._tail),
            inode=self._inode,
            closed=self._closed,
        )

    def _let_go(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _close(self) -> None:
        self._let_go()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.close()


def packer_of(packing: Packing) -> Callable[[bytes], bytes]:
    """Return a function that packs bytes to one unit; not to be used by several threads at once."""
    if packing == "gzip":
        return pack_gzip
    if packing == "zstd":
        packer = zstd.ZstdCompressor(level=ZSTD_LEVEL)
        return partial(packer.compress, mode=packer.FLUSH_FRAME)
    return bytes


def pack_gzip(data: bytes) -> bytes:
    """Pack data as one gzip member; the same for the same data."""
    packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return packer.compress(data) + packer.flush()


def sync_folder(folder: Path) -> None:
    """The names in a folder are durable once the folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _changed(path: Path, what: str) -> SinkUnusable:
    return SinkUnusable(
        f"{path} {what}: somebody changed it since; put it back as it was, or start afresh"
    )


def unwritable(path: Path, error: OSError) -> SinkUnusable:
    """Return the error for a disk that does not take something."""
    place = error.filename or path
    if error.errno in NO_ROOM:
        return SinkUnusable(
            f"the disk of {place} is full; free some space and run the same crawl again: "
            "it goes on where it was"
        )
    return SinkUnusable(
        f"{place} cannot be written: {error.strerror or error}; mend that and run the same crawl "
        "again: it goes on where it was"
    )
