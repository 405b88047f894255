"""Profile of the items of a task, of bounded size, made in one pass.

The items may come in any portions. Each column is processed as a whole, which costs a fraction of
processing each value of each item.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from crawlfleet.core.quality.sketch import Sketch
from crawlfleet.core.text.patterns import compile_pattern
from crawlfleet.model.quality import (
    MAX_FIELDS,
    Expectations,
    FieldExpectation,
    FieldProfile,
    Profile,
    ValueKind,
)

LONGEST_NAME: Final = 200
_NUMBER: Final = re.compile(
    r"\s*[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,3})?\s*", re.ASCII
)
_BEGINS_NUMBERS: Final = frozenset("0123456789+-. \t\n\r\x0b\x0c")
"""Characters with which a text that may be a number begins."""
_KINDS: Final[Mapping[type, ValueKind]] = {
    str: ValueKind.TEXT,
    int: ValueKind.NUMBER,
    float: ValueKind.NUMBER,
    bool: ValueKind.FLAG,
    list: ValueKind.LIST,
    dict: ValueKind.OBJECT,
}
_lines: Final = msgspec.json.Decoder(tuple[str, Any])


def items_of_lines(lines: bytes) -> list[tuple[str, Any]]:
    """Return kinds and fields of items from the lines of a crawl's output. Raises
    `msgspec.DecodeError`."""
    return _lines.decode_lines(lines)


def items_of_result(data: Any) -> list[tuple[str, Any]]:
    """Return the items of a result: the elements of a list, those of the lists of an object with
    the lists' names, or else the one value."""
    if data is None or data == {}:
        return []
    if isinstance(data, list):
        return [("items", each) for each in data]
    if isinstance(data, dict):
        if isinstance(data.get("pages"), list) and isinstance(data.get("errors"), list):
            return [("pages", each) for each in data["pages"]]  # of a list of URLs
        if isinstance(data.get("items"), list):
            return [("items", each) for each in data["items"]]
        if all(isinstance(each, list) for each in data.values()):
            return [(kind, each) for kind, some in data.items() for each in some]
    return [("items", data)]


class Fold:
    """Builder of a profile, which takes the items in portions."""

    def __init__(self, expectations: Expectations) -> None:
        self._kind = expectations.kind
        drift = expectations.drift
        named = [*expectations.fields, *(drift.fields if drift else ())]
        self._columns = {
            name: _Column(expectations.fields.get(name)) for name in dict.fromkeys(named)
        }
        self._nested = {name for name in self._columns if "." in name}
        self._items = 0

    def take(self, items: Iterable[tuple[str, Any]]) -> None:
        """Add items, with their kinds."""
        wanted = [fields for kind, fields in items if self._kind in (None, kind)]
        self._items += len(wanted)
        rows = [fields for fields in wanted if isinstance(fields, dict)]
        self._meet(rows)
        for name, column in self._columns.items():
            values = [row.get(name) for row in rows]
            if name in self._nested:
                values = [
                    _at(row, name) if value is None else value
                    for row, value in zip(rows, values, strict=True)
                ]
            column.take(values)

    def _meet(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add columns for new fields, up to the limit of measured fields."""
        if len(self._columns) >= MAX_FIELDS:
            return
        met: dict[str, None] = {}
        for row in rows:
            met.update(dict.fromkeys(row))
        for name in met:
            known = name in self._columns or len(name) > LONGEST_NAME
            if not known and len(self._columns) < MAX_FIELDS:
                self._columns[name] = _Column(None)

    def profile(self, *, pages: int | None = None, errors: float | None = None) -> Profile:
        """Return the measured profile, with the pages and errors that the caller counted."""
        fields = {name: column.profile() for name, column in self._columns.items()}
        return Profile(items=self._items, pages=pages, errors=errors, fields=fields)


class _Column:
    """Values of one field over all items."""

    def __init__(self, expected: FieldExpectation | None) -> None:
        self._present = self._filled = 0
        self._kinds: Counter[str] = Counter()
        self._numbers = 0
        self._sum = 0.0
        self._low, self._high = math.inf, -math.inf
        self._sketch = Sketch()
        self._fits = None if expected is None else _Fitting.of(expected)
        self._fitting = 0

    def take(self, values: Sequence[Any]) -> None:
        there = [value for value in values if value is not None]
        filled = [value for value in there if not _is_blank(value)]
        self._present += len(there)
        self._filled += len(filled)
        for kind, count in Counter(map(type, filled)).items():
            self._kinds[str(_KINDS.get(kind, ValueKind.OBJECT))] += count
        numbers = [
            number
            for value in filled
            if (type(value) is not str or value[0] in _BEGINS_NUMBERS)
            and (number := number_in(value)) is not None
        ]
        if numbers:
            self._numbers += len(numbers)
            try:
                self._sum += math.fsum(numbers)
            except OverflowError:
                self._sum = math.nan  # too great for a mean; all else of them can be told
            self._low = min(self._low, min(numbers))
            self._high = max(self._high, max(numbers))
        if self._fits is not None:
            self._fitting += sum(map(self._fits, filled))
        self._sketch.take(filled)

    def profile(self) -> FieldProfile:
        has_numbers = self._numbers > 0
        mean = self._sum / self._numbers if has_numbers else None
        return FieldProfile(
            present=self._present,
            filled=self._filled,
            kinds=dict(self._kinds),
            numbers=self._numbers,
            low=self._low if has_numbers else None,
            high=self._high if has_numbers else None,
            mean=mean if mean is not None and math.isfinite(mean) else None,
            fitting=None if self._fits is None else self._fitting,
            distinct=self._sketch.distinct(),
            distinct_error=self._sketch.error(),
            sketch=self._sketch.text(),
        )


class _Fitting:
    """Test of a field's values against its expectation."""

    def __init__(self, expected: FieldExpectation) -> None:
        self._type = expected.type
        self._pattern = None if expected.pattern is None else _compiled(expected.pattern)
        self._min = -math.inf if expected.min is None else expected.min
        self._max = math.inf if expected.max is None else expected.max
        self._is_number = expected.min is not None or expected.max is not None

    @classmethod
    def of(cls, expected: FieldExpectation) -> "_Fitting | None":
        """Return the test for an expectation; `None` when nothing is expected of each value."""
        each = (expected.type, expected.pattern, expected.min, expected.max)
        return cls(expected) if any(one is not None for one in each) else None

    def __call__(self, value: Any) -> bool:
        if self._type is not None and not _is_of_kind(value, self._type):
            return False
        if self._is_number:
            number = number_in(value)
            if number is None or not self._min <= number <= self._max:
                return False
        return self._pattern is None or self._pattern.search(_text(value)) is not None


def _compiled(pattern: str) -> Any:
    return compile_pattern(pattern)


def number_in(value: Any) -> float | None:
    """Return the number that a value is, or that its text is; `None` for other values."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return None
    if not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _is_of_kind(value: Any, kind: ValueKind) -> bool:
    if kind is ValueKind.INTEGER:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return whole and not isinstance(value, bool)
    return _KINDS.get(type(value)) is kind


def _is_blank(value: Any) -> bool:
    if isinstance(value, str):
        return not value or value.isspace()
    return isinstance(value, list | dict) and not value


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    # What is no character in UTF-8 cannot be looked for.
    return text.encode("utf-8", "replace").decode()


def _at(row: dict[str, Any], path: str) -> Any:
    value: Any = row
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
