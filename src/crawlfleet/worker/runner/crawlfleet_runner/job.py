"""The interface of all kinds of work that `main` can run."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Collection
from typing import Any, Final

from .items import Items
from .protocol import Wire

DETAILS_CHARS: Final = 8_000


class Work:
    """One execution's work; `cancel` and `stop` are called from another thread."""

    def __init__(
        self, wire: Wire, items: Items, parameters: dict[str, Any], takes: Collection[str] = ()
    ) -> None:
        """Create the work. `takes` names the services to which the node relays requests."""
        self.wire = wire
        self.items = items
        self.parameters = parameters
        self.takes = takes
        self.is_cancelled = threading.Event()

    def run(self) -> tuple[Any, dict[str, float]]:
        """The result and its figures; raises `Failed`, or anything else."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Stop now; the node waits no longer than its grace."""
        self.is_cancelled.set()

    def stop(self) -> bool:
        """End early with the results so far. Returns whether that is possible."""
        return False


def told(error: BaseException) -> str:
    """Return the end of the error's traceback."""
    return "".join(traceback.format_exception(error))[-DETAILS_CHARS:]


def leave() -> None:
    """End this process and all that it started."""
    sys.stderr.flush()
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
