"""Signs of a site that has endless addresses for few pages."""

import re
from collections import Counter
from typing import Final

LOOK_BACK_YEARS: Final = 150
"""Years in the past that archives cover; calendars that can be paged without end go further."""

# A whole segment or value: `/2031/05/`, `/2031-05-17`, `?month=2031-05`; or a parameter that says
# what it is. Numbers in the midst of a name (`/part-2099-12-inch`) are no dates.
_DATE: Final = re.compile(
    r"[/=](?:([12]\d{3})([-/])(?:0?[1-9]|1[0-2])(?:\2(?:0?[1-9]|[12]\d|3[01]))?(?=[/&?]|\Z)"
    r"|(?<=[?&]year=)([12]\d{3})(?=&|\Z)|(?<=[?&]y=)([12]\d{3})(?=&|\Z))"
).search


def beyond_calendar(path_and_query: str, first: int, last: int) -> bool:
    """Return whether the address contains a date before the year `first` or after `last`."""
    text = path_and_query
    if "/1" not in text and "/2" not in text and "=1" not in text and "=2" not in text:
        return False  # as for most, and a quarter of the cost of a close look
    found = _DATE(text)
    if found is None:
        return False
    year = int(found[1] or found[3] or found[4])
    return not first <= year <= last


def repeats(path: str, limit: int) -> bool:
    """Return whether a segment occurs more than `limit` times in the path."""
    segments = path.split("/")
    if len(segments) - len(set(segments)) < limit:
        return False
    return any(count > limit for segment, count in Counter(segments).items() if segment)


class Variants:
    """Counter of the different queries of each path, in bounded memory.

    A query that was admitted once is admitted again. With more than `capacity` queries, the paths
    that were met first are forgotten, and their counts start again.
    """

    def __init__(self, limit: int, capacity: int = 100_000) -> None:
        self._limit = limit
        self._capacity = max(capacity, limit)
        self._held = 0
        # By the hash of the path. Most paths have one query only: its id then, and no set.
        self._seen: dict[int, int | set[int]] = {}

    def __len__(self) -> int:
        return self._held

    def admits(self, page: str, id: int) -> bool:
        """Return whether the URL with this id, a variant of `page`, is within the limit of
        variants."""
        key = hash(page)
        seen = self._seen.get(key)
        if seen is None:
            if self._held >= self._capacity:
                self._forget(key)
            self._seen[key] = id
            self._held += 1
            return True
        if isinstance(seen, int):
            if seen == id:
                return True
            seen = self._seen[key] = {seen}
        elif id in seen:
            return True
        if len(seen) >= self._limit:
            return False
        if self._held >= self._capacity:
            self._forget(key)
        seen.add(id)
        self._held += 1
        return True

    def _forget(self, but: int) -> None:
        """Forget the path that was met first, other than `but`."""
        for key, seen in self._seen.items():
            if key != but:
                self._held -= 1 if isinstance(seen, int) else len(seen)
                del self._seen[key]
                return
