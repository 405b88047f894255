"""Log buffer of an execution: keeps the beginning and the end, and counts the lines left out
between.

An execution may log more than people read. Its first lines show how it was set up, and its last
ones how it ended, so those are kept and the lines between are dropped. A `Notebook` holds the lines
that the master has not confirmed yet, and knows which lines the master is to delete.
"""

from collections import deque
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

import msgspec

from crawlfleet.model.log import Gap, LogLevel, LogLine, LogPart

MAX_MESSAGE_CHARS: Final = 2_000
MAX_FIELDS_BYTES: Final = 4_000
LINE_BYTES: Final = 32
"""Bytes that a line takes besides its text: number, time and level."""

_encode: Final = msgspec.json.Encoder().encode
_RANKS: Final = {level: rank for rank, level in enumerate(LogLevel)}


def levels_from(least: LogLevel) -> tuple[LogLevel, ...]:
    """Return the level and all more important ones."""
    return tuple(level for level in LogLevel if _RANKS[level] >= _RANKS[least])


def trim(message: str, fields: Mapping[str, Any]) -> tuple[str, dict[str, Any], int]:
    """Return a line as it is stored: text and fields that every store accepts, and their size in
    bytes."""
    if len(message) > MAX_MESSAGE_CHARS:
        message = f"{message[:MAX_MESSAGE_CHARS]}… ({len(message)} characters)"
    if "\0" in message:
        message = message.replace("\0", "\\x00")
    kept = dict(fields)
    size = LINE_BYTES + len(message.encode(errors="replace"))
    if kept:
        large = len(_encode(kept))
        if large > MAX_FIELDS_BYTES:
            kept = {"left_out": f"{len(fields)} fields of {large} bytes"}
            large = len(_encode(kept))
        size += large
    return message, kept, size


def left_out_line(gap: Gap, *, at: float) -> LogLine:
    """Return the line that stands in a log in place of lines that were left out."""
    count = gap.last - gap.first + 1
    lines = "line was" if count == 1 else "lines were"
    return LogLine(
        seq=gap.first,
        at=at,
        level=LogLevel.WARNING,
        message=f"{count} {lines} left out here: the log is larger than is kept of it",
        fields={"left_out": count},
    )


class Notebook:
    """Buffer for the log of one execution on its way to the master, of at most `cap_bytes`.

    Half of the space is for the first lines and half for the last ones. A line gets its number when
    it is written; it may be sent again until the master confirms it.
    """

    __slots__ = (
        "_gap_end",
        "_gap_told",
        "_half",
        "_head_end",
        "_head_left",
        "_sent",
        "_seq",
        "_tail_bytes",
        "_unsent_head",
        "_unsent_tail",
        "execution_id",
        "unsent_bytes",
    )

    def __init__(self, execution_id: str, cap_bytes: int) -> None:
        self.execution_id = execution_id
        self.unsent_bytes = 0
        self._half = cap_bytes // 2
        self._head_left = self._half
        self._head_end: int | None = None
        """Number of the last line of the beginning, once the beginning is full."""
        self._seq = 0
        self._unsent_head: deque[tuple[LogLine, int]] = deque()
        self._unsent_tail: deque[tuple[LogLine, int]] = deque()
        self._sent: deque[tuple[int, int]] = deque()
        """Numbers and sizes of the lines of the end that the master has."""
        self._tail_bytes = 0
        self._gap_end = self._gap_told = 0

    @property
    def has_news(self) -> bool:
        """True if there are lines or a gap that the master does not know yet."""
        unsent = self._unsent_head or self._unsent_tail
        return bool(unsent) or self._gap_told != self._gap_end

    def write(self, message: str, level: LogLevel, fields: Mapping[str, Any], at: float) -> None:
        """Add a line; older lines of the end may be left out for it."""
        message, kept, size = trim(message, fields)
        self._seq += 1
        line = LogLine(seq=self._seq, at=at, message=message, level=level, fields=kept)
        self.unsent_bytes += size
        if self._head_end is None and size <= self._head_left:
            self._head_left -= size
            self._unsent_head.append((line, size))
            return
        if self._head_end is None:
            self._head_end = self._seq - 1
        self._unsent_tail.append((line, size))
        self._tail_bytes += size
        while self._tail_bytes > self._half and len(self._sent) + len(self._unsent_tail) > 1:
            self._give_way()

    def news(self, *, most_lines: int, most_bytes: int) -> tuple[LogPart, int]:
        """Return the next part for the master, and its size; the same again until it is
        confirmed."""
        lines: list[LogLine] = []
        total = 0
        for line, size in chain(self._unsent_head, self._unsent_tail):
            if len(lines) >= most_lines or (lines and total + size > most_bytes):
                break
            lines.append(line)
            total += size
        part = LogPart(execution_id=self.execution_id, lines=tuple(lines), left_out=self.left_out)
        return part, total

    @property
    def left_out(self) -> Gap | None:
        """Gap of the lines that were left out; `None` if none were."""
        if self._head_end is None or not self._gap_end:
            return None
        return Gap(first=self._head_end + 1, last=self._gap_end)

    def confirm(self, part: LogPart) -> None:
        """Record that the master has this part; lines that were left out since are still to be
        reported."""
        if part.left_out is not None:
            self._gap_told = part.left_out.last
        if not part.lines:
            return
        last = part.lines[-1].seq
        while self._unsent_head and self._unsent_head[0][0].seq <= last:
            self.unsent_bytes -= self._unsent_head.popleft()[1]
        while self._unsent_tail and self._unsent_tail[0][0].seq <= last:
            line, size = self._unsent_tail.popleft()
            self.unsent_bytes -= size
            self._sent.append((line.seq, size))

    def _give_way(self) -> None:
        """Leave out the oldest line of the end."""
        if self._sent:
            self._gap_end, size = self._sent.popleft()
        else:
            line, size = self._unsent_tail.popleft()
            self._gap_end = line.seq
            self.unsent_bytes -= size
        self._tail_bytes -= size
