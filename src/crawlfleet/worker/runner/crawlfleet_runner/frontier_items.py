"""Items that count with the steps of a frontier, and the notes of each execution there."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from .items import MAX_COLUMNS, pieces, sober
from .leased_request import Page
from .protocol import Failed, Wire

SINK: Final = "fleet:items"
NOTES: Final = "*crawl"
"""Name of the receipt in which each execution keeps its notes, beside its items, as crawls do."""


class CountedItems:
    """The run of this execution beside those of earlier ones: segments are durable at the master
    before the step that counts them."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._sequence = 0
        self._counted = 0
        self._own = 0
        self._staged = 0
        self._columns: list[str] = []
        self._pages = self._urls = 0
        self._earlier: list[dict[str, Any]] = []
        self._before: list[dict[str, Any]] = []
        """Notes of earlier attempts at the same task."""
        self.spent: Callable[[], dict[str, int]] = dict
        """Returns the cost of this execution so far: `requests`, `bytes` and `retries`; nothing
        where that is unknown."""

    @property
    def count(self) -> int:
        """The number of items of all attempts at the task. For a task that several workers share it
        counts this task's part only."""
        told = self._before if self._wire.is_part else self._earlier
        earlier: int = sum(each.get("items", 0) for each in told)
        return self._own + earlier

    @property
    def pages(self) -> int:
        """The number of answered and finished pages of all attempts at the task."""
        earlier: int = sum(each.get("pages", 0) for each in self._before)
        return self._pages + earlier

    def spent_in_all(self) -> dict[str, int]:
        """Return the cost of all attempts at the task; nothing where that is unknown."""
        told = [each.get("spent") or {} for each in self._before]
        return {
            name: number + sum(each.get(name, 0) for each in told)
            for name, number in self.spent().items()
        }

    def know(self, receipts: Mapping[str, Any]) -> None:
        """Take the counts of other executions from their receipts."""
        id = self._wire.execution_id
        others = {name: each for name, each in receipts.items() if not name.endswith(f"@{id}")}
        self._earlier = [
            run
            for name, receipt in others.items()
            if name.startswith(f"{SINK}@")
            for run in receipt["runs"]
        ]
        self._before = [
            notes
            for name, notes in others.items()
            if name.startswith(f"{NOTES}@") and notes.get("task_id") == self._wire.task_id
        ]

    def line(self, fields: Iterable[str], text: str) -> bytes:
        """Return the line of an item in a segment, from the names of its fields and its JSON."""
        if not self._columns:
            self._columns = [str(name) for name in fields][:MAX_COLUMNS]
        return f'["items",{sober(text)}]\n'.encode("utf-8", "replace")

    def stage(self, lines: Sequence[bytes]) -> None:
        """Send the items of the next step, in place of staged ones that did not count. Raises
        `Failed` if the master refuses them."""
        first = self._sequence + 1
        self._staged = len(lines)
        for data, count, is_part in pieces(lines):
            self._send(data, count, is_part, first=first)

    def receipts(self, pages: Sequence[Page]) -> dict[str, Any]:
        """Return the receipts of a step that finishes these pages."""
        id, items = self._wire.execution_id, self._own + self._staged
        notes = {
            "items": items,
            "pages": self._pages + answered(pages),
            "urls": self._urls + len(pages),
            "task_id": self._wire.task_id,
        }
        if spent := self.spent():
            notes["spent"] = spent
        told: dict[str, Any] = {f"{NOTES}@{id}": notes}
        if self._sequence:
            run = {"execution_id": id, "last": self._sequence, "items": items}
            told[f"{SINK}@{id}"] = {"runs": [run]}
        return told

    def count_staged(self, pages: Sequence[Page]) -> None:
        """Count the staged items and the pages: their step was committed."""
        self._counted = self._sequence
        self._own += self._staged
        self._staged = 0
        self._pages += answered(pages)
        self._urls += len(pages)

    def finish(self, receipts: Mapping[str, Any]) -> None:
        """Declare to the master that all items count."""
        self.know(receipts)
        if self._sequence or self._earlier:
            self._send(b"", 0, False, first=self._sequence + 1, known=self._earlier)

    def _send(
        self,
        data: bytes,
        count: int,
        is_part: bool,
        *,
        first: int,
        known: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._sequence += 1
        segment: dict[str, Any] = {
            "sequence": self._sequence,
            "first": first,
            "counted": self._counted,
            "items": count,
            "is_part": is_part,
            "earlier": [*known],
        }
        if self._sequence == 1:
            segment |= {"columns": self._columns, "shared": True, "earlier": self._earlier}
        packed = zlib.compress(data, 3) if data else b""
        response = self._wire.call("output", {"segment": segment, "stream": "items"}, packed)
        if refusal := response.get("refusal"):
            raise Failed(f"items are not taken: {refusal}")


def answered(pages: Iterable[Page]) -> int:
    """Return how many of them are pages, and not requests that were ignored or never answered."""
    return sum(page.status > 0 for page in pages)
