"""Measurements of the API: number and duration of answers, by route and never by path."""

from collections import Counter
from typing import Final

from crawlfleet.control.state.counters import DURATIONS_S, Distribution

NO_ROUTE: Final = "(none)"
BOUNDS_S: Final = (*DURATIONS_S, 30.0, 60.0)
"""Long polls wait for up to a minute."""


class RequestMeasurements:
    """Counts answers, and how long they took."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, str, int]] = Counter()
        """Number of answers by method, route and status."""
        self.durations_s: dict[tuple[str, ...], Distribution] = {}
        """Duration of answers by method and route."""
        self.refusals: Counter[str] = Counter()
        """Number of refused requests by reason."""

    def count(self, method: str, route: str, status: int, duration_s: float) -> None:
        self.answers[method, route, status] += 1
        distribution = self.durations_s.get((method, route))
        if distribution is None:
            distribution = self.durations_s[method, route] = Distribution(BOUNDS_S)
        distribution.observe(duration_s)

    def count_strange(self, status: int) -> None:
        """A request that is for no route; its method could be any word."""
        self.answers[NO_ROUTE, NO_ROUTE, status] += 1
