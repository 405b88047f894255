"""Merging of shards: builds the result of a split task from the results of its shards.

Metrics are added up. The data of `web_crawl`, `scrapy_spider` and `http_fetch` is merged too:
numbers are added, and lists are joined in the order of the shards. For every other type it is a
list with the data of each shard, `null` for one that has none. Data that is too large for one
result stays with the shards, and the result names these.
"""

from collections.abc import Callable, Mapping, Sequence
from sys import float_info
from typing import Any, Final

import msgspec

from crawlfleet.core.text.nesting import MAX_MESSAGE_NESTING, is_too_deep
from crawlfleet.model.task import Task, TaskStatus

MAX_BYTES: Final = 950_000
"""Size limit of the merged data as JSON; leaves room in the 1 MB that a result may have."""
MAX_COUNTED: Final = 2**53
"""Upper bound of a count of items: JSON numbers beyond it are not exact."""
OUTPUT: Final = "output"
"""Key under which a crawl's result says that the master stores its items."""


class _Result(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a result that merging reads."""

    data: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    metrics: dict[str, float] = {}


_decode: Final = msgspec.json.Decoder(_Result).decode


def data_of(task: Task) -> msgspec.Raw:
    """Return the data of a task's result; `null` when it has no result. Raises
    `msgspec.DecodeError`."""
    return msgspec.Raw(b"null") if task.result is None else _read(task.result).data


def _read(result: msgspec.Raw) -> _Result:
    """Decode a result. Raises `msgspec.DecodeError`, also for data that is nested too deep."""
    if is_too_deep(bytes(result), MAX_MESSAGE_NESTING):
        raise msgspec.DecodeError("it is nested too deep")
    return _decode(result)


class Merger:
    """Merger that takes the shards of a task one by one, and keeps no more than it needs."""

    def __init__(self, parent: Task) -> None:
        self._parent = parent
        self._ids: dict[int, str] = {}
        self._data: dict[int, msgspec.Raw] = {}
        self._bytes = 0
        self.metrics: dict[str, float] = {}

    def take(self, child: Task) -> None:
        """Add the result of a shard, in any order; a shard that did not complete only adds its
        metrics."""
        shard = child.shard or 0
        self._ids[shard] = child.id
        if child.result is None:
            return
        try:
            result = _read(child.result)
        except msgspec.DecodeError:
            # What nobody can read stays with the shard, and the whole says where that is.
            result = _Result()
            self._bytes += MAX_BYTES + 1
        for name, value in result.metrics.items():
            added = self.metrics.get(name, 0) + value
            # JSON has no infinity: so great a sum stays as great as a number can be.
            self.metrics[name] = max(-float_info.max, min(added, float_info.max))
        if child.status is not TaskStatus.COMPLETED:
            return
        self._bytes += len(memoryview(result.data))
        # Beyond that nothing of it is used: the memory of the master is worth more.
        self._data[shard] = result.data.copy() if self._fits else msgspec.Raw(b"null")
        if not self._fits:
            self._data = dict.fromkeys(self._data, msgspec.Raw(b"null"))

    @property
    def _fits(self) -> bool:
        return self._bytes <= MAX_BYTES

    def data(self) -> msgspec.Raw | None:
        """Return the merged data; `None` when no shard completed."""
        if not self._data:
            return None
        encoded = self._merged() if self._fits else None
        if encoded is None or len(encoded) > MAX_BYTES:
            encoded = msgspec.json.encode(self._elsewhere())
        return msgspec.Raw(encoded)

    def _merged(self) -> bytes | None:
        """Return the merged data as JSON; `None` if its numbers are too large: data comes from
        nodes, and must not be able to overload the master."""
        merge = MERGES.get(self._parent.task_type, _by_shard)
        try:
            return msgspec.json.encode(merge(self._parent, self._data, self.metrics))
        except OverflowError:
            return None

    def _elsewhere(self) -> Any:
        """Return a reference to the place of data that is too large for the result."""
        if self._parent.task_type in STORED:
            return _in_storage(self._parent, self.metrics)
        counted = {name: self.metrics[name] for name in COUNTED if name in self.metrics}
        return {**counted, "shards": [id for _, id in sorted(self._ids.items())]}


Merge = Callable[[Task, Mapping[int, msgspec.Raw], Mapping[str, float]], Any]


def _by_shard(
    parent: Task, data: Mapping[int, msgspec.Raw], metrics: Mapping[str, float]
) -> list[msgspec.Raw | None]:
    return [data.get(shard) for shard in range(parent.shards)]


def _added_up(parent: Task, data: Mapping[int, msgspec.Raw], metrics: Mapping[str, float]) -> Any:
    return add_up([msgspec.json.decode(data[shard]) for shard in sorted(data)])


def _crawled(parent: Task, data: Mapping[int, msgspec.Raw], metrics: Mapping[str, float]) -> Any:
    """Return the items by kind, or where they are stored if a shard's result says so."""
    found = [msgspec.json.decode(data[shard]) for shard in sorted(data)]
    if any(isinstance(each, dict) and isinstance(each.get(OUTPUT), str) for each in found):
        return _in_storage(parent, metrics)
    return add_up(found)


def _in_storage(parent: Task, metrics: Mapping[str, float]) -> dict[str, Any]:
    items = metrics.get("items", 0)
    # It comes from nodes, and may be anything; their sum may even be too great for a number.
    counted = int(items) if abs(items) <= MAX_COUNTED else None
    return {"items": counted, OUTPUT: f"/api/v1/crawls/{parent.id}/output"}


def _scraped(parent: Task, data: Mapping[int, msgspec.Raw], metrics: Mapping[str, float]) -> Any:
    """Return the Scrapy statistics of all workers: counts are added, other values are not. The data
    comes from processes with foreign code, and may be anything."""
    told = [msgspec.json.decode(data[shard]) for shard in sorted(data)]
    found = [each for each in told if isinstance(each, dict)]
    stats = [part for each in found if isinstance(part := each.pop("stats", None), dict)]
    names = dict.fromkeys(name for each in stats for name in each)
    merged = {name: _stat(name, [each[name] for each in stats if name in each]) for name in names}
    return {**add_up(found), "stats": merged, **_in_storage(parent, metrics)}


def _stat(name: str, values: Sequence[Any]) -> Any:
    if not all(isinstance(each, str) for each in values) and not _are_numbers(values):
        return add_up(values)
    if name == BEGINNING:
        return min(values)
    return max(values) if name.endswith(GREATEST) else add_up(values)


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)


def add_up(values: Sequence[Any]) -> Any:
    """Merge values of the same shape: objects by key, lists in a row, numbers as their sum.

    A value that is equal everywhere stays; values that cannot be added become a list.
    """
    if all(isinstance(each, dict) for each in values):
        keys = dict.fromkeys(key for each in values for key in each)
        return {key: add_up([each[key] for each in values if key in each]) for key in keys}
    if all(isinstance(each, list) for each in values):
        return [item for each in values for item in each]
    if _are_numbers(values):
        return sum(values)
    if all(each == values[0] for each in values):
        return values[0]
    return list(values)


STORED: Final = ("web_crawl", "scrapy_spider")
"""Task types whose items the master stores."""
COUNTED: Final = ("urls", "fetched", "failed")
"""Metrics that a result without its data still contains."""
BEGINNING: Final = "start_time"
GREATEST: Final = ("_time", "_max", "/max", "/startup", "elapsed_time_seconds")
"""Endings of the names of Scrapy statistics that are not added up: they are true of one worker, not
of all."""
MERGES: Final[Mapping[str, Merge]] = {
    "http_fetch": _added_up,
    "web_crawl": _crawled,
    "scrapy_spider": _scraped,
}
