"""Limits of requests to the frontier: executions run foreign code, and their requests must not
overload the master."""

from collections.abc import Iterator
from typing import Final

from crawlfleet.model.wire import frontier as wire

MAX_ASKS: Final = 1_000
"""Limit of asks in one request."""
MAX_HOSTS: Final = 10_000
"""Limit of hosts that one ask leases, tops up or reclaims."""
MAX_URLS: Final = 10_000
"""Limit of URLs of one host in one ask."""
MAX_SEEDS: Final = 100_000
MAX_SHOWN: Final = 1_000
MAX_WORKERS: Final = 1_000
"""Limit of worker names under which one execution may lease."""
LONGEST_NAME: Final = 200


def problem_of(talk: wire.FrontierRequest) -> str:
    """Return which amount of a request is beyond its limit, and the limit; empty if none is."""
    if len(talk.asks) > MAX_ASKS:
        return f"asks: {len(talk.asks)} at once are too many; send at most {MAX_ASKS}"
    for number, ask in enumerate(talk.asks):
        for field, value, most in _amounts(ask):
            if not 0 <= value <= most:
                return f"asks[{number}].{field} = {value}: is out of range; send 0 to {most}"
        if len(getattr(ask, "worker", "")) > LONGEST_NAME:
            return f"asks[{number}].worker: is too long; send at most {LONGEST_NAME} characters"
    return ""


def _amounts(ask: wire.AnyAsk) -> Iterator[tuple[str, int, int]]:
    match ask:
        case wire.Lease():
            yield "hosts", ask.hosts, MAX_HOSTS
            yield "urls", ask.urls, MAX_URLS
            yield "held", len(ask.held), MAX_HOSTS
            # One that wants less than nothing has more than it wants.
            yield "held", max(ask.held.values(), default=0), MAX_URLS
        case wire.Reclaim():
            yield "hosts", len(ask.hosts), MAX_HOSTS
            yield "hosts", max(map(len, ask.hosts.values()), default=0), MAX_URLS
        case wire.Add():
            yield "seeds", len(ask.seeds), MAX_SEEDS
        case wire.Busiest():
            yield "limit", ask.limit, MAX_SHOWN
        case _:
            return
