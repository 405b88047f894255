"""Limits of the number of open files of an agent.

Each connection of a cell goes through the agent and needs two of its files. Few programs are
started with a limit for this; most may raise it themselves.
"""

import contextlib
import resource
from typing import Final

from crawlfleet.telemetry import Component, logger

log = logger(Component.WORKER)
ENOUGH: Final = 65_536
"""Maximum limit that is requested: some programs go through all files that they could have open."""
OWN: Final = 256
PER_SLOT: Final = 16
"""Open files of a cell or a process of the pool, in addition to its connections."""
PER_SPARE: Final = 8
"""Open files of a spare cell that waits for work."""
PER_CONNECTION: Final = 2
FEWEST_CONNECTIONS: Final = 8


def allow_many(slots: int, connections: int, spares: int = 0) -> int:
    """Raise the limit of open files as far as this process may and needs, and return the limit.
    Logs a warning if it is too low for so many connections in each of the slots and so many
    `spares`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, most = (ENOUGH if each == resource.RLIM_INFINITY else each for each in (soft, hard))
    wanted = min(most, ENOUGH)
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # a system may allow less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    needed = _own(spares) + slots * (PER_SLOT + PER_CONNECTION * connections)
    if soft < needed:
        log.warning(
            "few files may be open: cells have fewer connections at once than is set",
            limit=soft,
            connections=share_of(soft, slots, connections, spares),
            remedy=f"start the worker with a limit of {needed} (`ulimit -n`, `LimitNOFILE=`)",
        )
    return soft


def connections_of(slots: int, most: int, spares: int = 0) -> int:
    """Return how many connections a cell may have at once: `most`, or its share of this process's
    limit of open files. A few are always allowed, even beyond that limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if limit == resource.RLIM_INFINITY else share_of(limit, slots, most, spares)


def share_of(limit: int, slots: int, most: int, spares: int = 0) -> int:
    """Return how many connections a cell may have at once under a given limit of open files."""
    files = (limit - _own(spares)) // slots - PER_SLOT
    return min(max(files // PER_CONNECTION, FEWEST_CONNECTIONS), most)


def _own(spares: int) -> int:
    return OWN + spares * PER_SPARE
