"""A run of segments in one file that is only ever appended to.

It is one file, not one for each segment: a crawl of a day commits some hundred thousand times. Each
segment is a frame with a checksum, so that an incomplete frame after a crash is recognized, and cut
off by the next writer. Several masters may share the folder: writers take turns by a lock on the
file.
"""

import contextlib
import fcntl
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from crawlfleet.errors import OutputUnavailable
from crawlfleet.model.wire.output import MAX_UNPACKED_BYTES, Segment

_FRAME: Final = struct.Struct(">III")
"""The lengths of head and data, and the checksum of both."""
MAX_FRAME_BYTES: Final = 8_000_000
"""Maximum size of head and data: far more than both may have. A larger one is that of a damaged
file.
"""
LEAST_RESERVE: Final = 256_000_000
MAX_RESERVE: Final = 5_000_000_000
_head: Final = msgspec.json.Decoder(Segment)


class Frame(NamedTuple):
    """The place of a segment's data in the file."""

    segment: Segment
    at: int
    size: int


class RunFile:
    """The file of one run, for any number of threads. All methods block."""

    def __init__(self, path: Path, *, to_read: bool) -> None:
        """Open a run. Unless it is `to_read`, it can only be written, and keeps next to nothing in
        memory.
        """
        self.path = path
        self._to_read = to_read
        self._turn = threading.Lock()
        self._end = 0
        self._frames: list[Frame] = []
        self._last = 0
        self.first: Segment | None = None
        """First segment, once it is known; it has the fields that all segments of the run share."""

    def append(self, segment: Segment, data: bytes) -> bool:
        """Append a segment; it is durable when this returns. Returns whether it was new. After an
        error nothing has changed.
        """
        with self._turn:
            try:
                return self._append(segment, data)
            except OSError as error:
                raise _trouble(self.path, error) from error

    def _append(self, segment: Segment, data: bytes) -> bool:
        folder = self.path.parent
        is_new_file = not self.path.exists()
        if is_new_file:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            self._catch_up()
            if segment.sequence <= self._last:
                return False
            if segment.sequence != self._last + 1:  # numbers have no gaps
                raise OutputUnavailable(
                    f"a part of this run is missing here: {self.path} ends with segment "
                    f"{self._last}, and {segment.sequence} came; `output_dir` must be one folder "
                    "that all masters share"
                )
            self._write(handle, segment, data)
        finally:
            os.close(handle)
        if is_new_file:
            _sync_folder(folder)
            _sync_folder(folder.parent)
        return True

    def counted(self) -> list[Frame]:
        """The segments that count, in order; none when there is no file."""
        frames = self.through(None)
        return [f for f in frames if f.segment.sequence <= frames[-1].segment.counted]

    def through(self, last: int | None) -> list[Frame]:
        """The segments up to that number, or all that are there."""
        with self._turn:
            try:
                self._catch_up()
            except FileNotFoundError:
                return []
            except OSError as error:
                raise _trouble(self.path, error) from error
            if last is None:
                return [*self._frames]
            return [frame for frame in self._frames if frame.segment.sequence <= last]

    def contents(self, frames: list[Frame]) -> Iterator[bytes]:
        """The unpacked data of segments."""
        try:
            with self.path.open("rb") as file:
                for frame in frames:
                    if frame.size:
                        file.seek(frame.at)
                        yield _unpacked(file.read(frame.size))
        except (OSError, ValueError, zlib.error) as error:
            raise _trouble(self.path, error) from error

    def _write(self, handle: int, segment: Segment, data: bytes) -> None:
        head = msgspec.json.encode(segment)
        if len(head) + len(data) > MAX_FRAME_BYTES:
            raise OutputUnavailable(
                f"segment {segment.sequence} for {self.path} has {len(head) + len(data):,} bytes; "
                f"at most {MAX_FRAME_BYTES:,} are taken"
            )
        checksum = zlib.crc32(data, zlib.crc32(head))
        frame = memoryview(_FRAME.pack(len(head), len(data), checksum) + head + data)
        self._check_room(handle, len(frame))
        try:
            os.ftruncate(handle, self._end)  # what a crash left of a write
            at = self._end
            while frame:
                written = os.pwrite(handle, frame, at)
                frame, at = frame[written:], at + written
            os.fsync(handle)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, self._end)
            raise
        self._take(segment, self._end + _FRAME.size + len(head), len(data))

    def _check_room(self, handle: int, size: int) -> None:
        disk = os.fstatvfs(handle)
        free, reserve = disk.f_bavail * disk.f_frsize, reserve_of(disk.f_blocks * disk.f_frsize)
        if disk.f_blocks and free - size < reserve:  # some disks do not tell
            raise OutputUnavailable(
                f"{self.path} cannot grow: its disk has {free // 10**6:,} MB left, and "
                f"{reserve // 10**6:,} MB stay free for whatever else lies there; make room in the "
                "storage of crawls' output"
            )

    def _catch_up(self) -> None:
        """Know the frames that are there, up to the first that is not whole."""
        size = self.path.stat().st_size
        if size < self._end:  # somebody put an older file here
            self._end, self._frames, self._last, self.first = 0, [], 0, None
        if size == self._end:
            return
        with self.path.open("rb") as file:
            file.seek(self._end)
            while self._end + _FRAME.size <= size:
                head_size, data_size, checksum = _FRAME.unpack(file.read(_FRAME.size))
                length = head_size + data_size
                if length > MAX_FRAME_BYTES or self._end + _FRAME.size + length > size:
                    return
                head, data = file.read(head_size), file.read(data_size)
                if zlib.crc32(data, zlib.crc32(head)) != checksum:
                    return
                self._take(_head.decode(head), self._end + _FRAME.size + head_size, data_size)

    def _take(self, segment: Segment, at: int, size: int) -> None:
        self._last = segment.sequence
        self._end = at + size
        if not self._to_read:
            return
        # A step that was taken back lies between what is counted and the step that replaced it.
        while self._frames and segment.counted < self._frames[-1].segment.sequence < segment.first:
            self._frames.pop()
        self._frames.append(Frame(segment, at, size))
        self.first = self.first or segment


def reserve_of(disk_bytes: int) -> int:
    """Return the bytes that output leaves free on a disk of this size: a store on the same disk
    that cannot write stops the fleet. At most a tenth of the disk; 0 where the size is not known.
    """
    return min(disk_bytes // 10, max(LEAST_RESERVE, min(disk_bytes // 50, MAX_RESERVE)))


def _unpacked(data: bytes) -> bytes:
    """Return unpacked data, within bounds: a malicious node could send a megabyte that unpacks to a
    thousand. Raises `ValueError`.
    """
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(data, MAX_UNPACKED_BYTES + 1)
    if len(content) > MAX_UNPACKED_BYTES or not unpacking.eof:
        raise ValueError(
            f"a segment is cut short, or unpacks to more than {MAX_UNPACKED_BYTES:,} bytes"
        )
    return content


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _trouble(path: Path, error: Exception) -> OutputUnavailable:
    why = getattr(error, "strerror", None) or str(error)
    return OutputUnavailable(
        f"{path} cannot be used: {why}; make room in the storage of crawls' output, or mend it"
    )
