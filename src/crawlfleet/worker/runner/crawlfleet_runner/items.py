"""Items on their way to the master: in segments, each confirmed before the next is sent."""

import json
import threading
import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from .protocol import Failed, Wire

PIECE_BYTES: Final = 900_000
"""Size of a segment before compression."""
MAX_WAITING_BYTES: Final = 4_000_000
"""Maximum size of items that the master has not confirmed; beyond it, the work waits."""
MAX_COLUMNS: Final = 2_000
FLUSH_EVERY_S: Final = 1.0


class Items:
    """All items of an execution, in order."""

    def __init__(self, wire: Wire, takes: Collection[str]) -> None:
        """`takes` names the services to which the node passes requests on."""
        self._wire = wire
        self._takes = "output" in takes
        self._lines: list[bytes] = []
        self._size = 0
        self._sequence = 0
        self._columns: list[str] = []
        self._change = threading.Condition()
        self._is_over = False
        self._refusal = ""
        self._thread: threading.Thread | None = None
        self.count = 0

    def put(self, fields: Iterable[str], line: str | None = None, kind: str = "items") -> None:
        """Send one item, given by its fields, or by its JSON and their names. Waits while too many
        items are unconfirmed. Raises `Failed` if the master refuses them."""
        if not self._takes:
            raise Failed("the node passes no items on to the master")
        text = json.dumps(fields, ensure_ascii=False, default=str) if line is None else line
        data = f"[{json.dumps(kind)},{sober(text)}]\n".encode("utf-8", "replace")
        with self._change:
            if self._thread is None:
                self._columns = [str(name) for name in fields][:MAX_COLUMNS]
                self._thread = threading.Thread(target=self._ship, name="items", daemon=True)
                self._thread.start()
            while self._size > MAX_WAITING_BYTES and not self._refusal:
                self._change.wait()
            if self._refusal:
                raise Failed(f"items are not taken: {self._refusal}")
            self._lines.append(data)
            self._size += len(data)
            self.count += 1
            self._change.notify_all()

    def finish(self) -> None:
        """Send the remaining items, and declare that all count. Raises `Failed` if the master
        refuses them."""
        with self._change:
            self._is_over = True
            self._change.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()
        if self._refusal:
            raise Failed(f"items are not taken: {self._refusal}")

    def _ship(self) -> None:
        while not self._refusal:
            with self._change:
                while not self._lines and not self._is_over:
                    self._change.wait()
                if not self._is_over and self._size < PIECE_BYTES:
                    self._change.wait_for(self._is_due, FLUSH_EVERY_S)
                lines, self._lines = self._lines, []
                is_over = self._is_over
            for data, count, is_part in pieces(lines):
                self._send(data, count, is_part)
            with self._change:
                self._size -= sum(map(len, lines))
                self._change.notify_all()
            if is_over:
                self._send(b"", 0, is_part=False)
                return

    def _is_due(self) -> bool:
        return self._is_over or self._size >= PIECE_BYTES

    def _send(self, data: bytes, count: int, is_part: bool) -> None:
        if self._refusal:
            return
        self._sequence += 1
        segment: dict[str, Any] = {
            "sequence": self._sequence,
            "first": self._sequence,
            "counted": self._sequence - 1,
            "items": count,
            "is_part": is_part,
        }
        if self._sequence == 1:
            segment["columns"] = self._columns
        packed = zlib.compress(data, 3) if data else b""
        response = self._wire.call("output", {"segment": segment, "stream": "items"}, packed)
        self._refusal = response.get("refusal", "")


def sober(text: str) -> str:
    """JSON without the numbers that Python writes and JSON does not have."""
    if "NaN" not in text and "Infinity" not in text:
        return text
    value = json.loads(text, parse_constant=lambda _: None)
    return json.dumps(value, ensure_ascii=False)


def pieces(lines: Iterable[bytes]) -> Iterator[tuple[bytes, int, bool]]:
    """Yield the lines in pieces of a bounded size, each with the number of lines that end in it,
    and whether its last line continues in the next one."""
    gathered: list[bytes] = []
    size = 0
    for line in lines:
        if gathered and size + len(line) > PIECE_BYTES:
            yield b"".join(gathered), len(gathered), False
            gathered, size = [], 0
        while len(line) > PIECE_BYTES:
            yield line[:PIECE_BYTES], 0, True
            line = line[PIECE_BYTES:]
        gathered.append(line)
        size += len(line)
    if gathered:
        yield b"".join(gathered), len(gathered), False
