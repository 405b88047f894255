"""Items that count with the steps of a frontier, and what an execution notes of itself there."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from .items import MOST_COLUMNS, pieces, sober
from .leased_request import Page
from .protocol import Failed, Wire

SINK: Final = "fleet:items"
NOTES: Final = "*crawl"
"""What each execution notes of itself beside its items, as crawls do."""


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
        """What earlier attempts at the same task noted."""
        self.spent: Callable[[], dict[str, int]] = dict
        """What this execution took so far: `requests`, `bytes` and `retries`; nothing where that is
        not known."""

    @property
    def count(self) -> int:
        """Of all attempts at the task; of one that several workers share, its own part."""
        told = self._before if self._wire.is_part else self._earlier
        earlier: int = sum(each.get("items", 0) for each in told)
        return self._own + earlier

    @property
    def pages(self) -> int:
        """That were answered and dealt with; likewise."""
        earlier: int = sum(each.get("pages", 0) for each in self._before)
        return self._pages + earlier

    def spent_in_all(self) -> dict[str, int]:
        """By all attempts at the task."""
        told = [each.get("spent") or {} for each in self._before]
        return {
            name: number + sum(each.get(name, 0) for each in told)
            for name, number in self.spent().items()
        }

    def know(self, receipts: Mapping[str, Any]) -> None:
        """What counts of the runs of others."""
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
        """An item as it travels: the names of its fields, and its JSON."""
        if not self._columns:
            self._columns = [str(name) for name in fields][:MOST_COLUMNS]
        return f'["items",{sober(text)}]\n'.encode("utf-8", "replace")

    def stage(self, lines: Sequence[bytes]) -> None:
        """Hand over items that the next step counts, in place of what was staged and not counted.
        Raises `Failed` if they are not taken."""
        first = self._sequence + 1
        self._staged = len(lines)
        for data, count, is_part in pieces(lines):
            self._send(data, count, is_part, first=first)

    def receipts(self, pages: Sequence[Page]) -> dict[str, Any]:
        """What a step says that these pages are done with."""
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
        """The step was made."""
        self._counted = self._sequence
        self._own += self._staged
        self._staged = 0
        self._pages += answered(pages)
        self._urls += len(pages)

    def finish(self, receipts: Mapping[str, Any]) -> None:
        """Say that all of it counts."""
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
    """How many of them are pages, and not requests that were ignored or never answered."""
    return sum(page.status > 0 for page in pages)
