"""How many files an agent may have open at once.

Each connection of a cell goes through the agent and needs two of its. Few programs are started with
a limit that is meant for this; most may raise it themselves.
"""

import contextlib
import resource
from typing import Final

from crawlfleet.telemetry import Component, logger

log = logger(Component.WORKER)
ENOUGH: Final = 65_536
"""More is not asked for: some programs go through all that they could have open."""
OWN: Final = 256
PER_SLOT: Final = 16
"""Of a cell, or of a process of the pool, beside its connections."""
PER_SPARE: Final = 8
"""Of a cell that waits for work."""
PER_CONNECTION: Final = 2
FEWEST_CONNECTIONS: Final = 8


def allow_many(slots: int, connections: int, spares: int = 0) -> int:
    """Raise the limit as far as this process may, and to no more than is of use; what it is now.
    Says so where cells on so many slots cannot have so many connections each, with so many `spares`
    that wait for work."""
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
    """How many connections a cell may have at once: `most`, or its share of the files that this
    process may have open now; a few in any case, also where that is more than there are."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if limit == resource.RLIM_INFINITY else share_of(limit, slots, most, spares)


def share_of(limit: int, slots: int, most: int, spares: int = 0) -> int:
    """The same for a limit of open files."""
    files = (limit - _own(spares)) // slots - PER_SLOT
    return min(max(files // PER_CONNECTION, FEWEST_CONNECTIONS), most)


def _own(spares: int) -> int:
    return OWN + spares * PER_SPARE
