"""Result of a task, recorded once, as the JSON that people read."""

from datetime import UTC, datetime
from functools import lru_cache

import msgspec

from crawlfleet.core.quality.recording import QualitySummary


class TaskResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result as people read it; recorded once."""

    success: bool
    data: msgspec.Raw | None = None
    error: str | None = None
    metrics: dict[str, float] = {}
    timestamp: datetime
    quality: QualitySummary | None = None
    """Quality of the items, if the task has expectations."""


@lru_cache(maxsize=8)
def _instant(now: float) -> datetime:
    """Return the time as a `datetime`; cached, since many results are reported at the same
    instant."""
    return datetime.fromtimestamp(now, UTC)


def result_of(
    success: bool,
    data: msgspec.Raw | None,
    error: str | None,
    metrics: dict[str, float],
    now: float,
    quality: QualitySummary | None = None,
) -> msgspec.Raw:
    """Return a result as it is recorded."""
    result = TaskResult(
        success=success,
        data=data,
        error=error,
        metrics=metrics,
        timestamp=_instant(now),
        quality=quality,
    )
    return msgspec.Raw(msgspec.json.encode(result))
