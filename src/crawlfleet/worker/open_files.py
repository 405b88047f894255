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
PER_SLOT: Final = 512
"""What a cell can come to need with as many connections as it may have."""


def allow_many(slots: int) -> int:
    """Raise the limit as far as this process may, and to no more than is of use; what it is now.
    Says so where cells on so many slots could use it up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, most = (ENOUGH if each == resource.RLIM_INFINITY else each for each in (soft, hard))
    wanted = min(most, ENOUGH)
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # a system may allow less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    if soft < (needed := slots * PER_SLOT + OWN):
        log.warning(
            "few files may be open: connections of cells could use them up",
            limit=soft,
            remedy=f"start the worker with a limit of {needed} (`ulimit -n`, `LimitNOFILE=`)",
        )
    return soft
