"""Stop signals of a process: SIGTERM, Ctrl-C (SIGINT), and SIGHUP when its terminal closes.

A script starts its background jobs with SIGINT ignored, and `nohup` starts a program with SIGHUP
ignored: a signal that was ignored from the beginning stays ignored, but SIGTERM always ends the
process.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Final

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextlib.contextmanager
def on_stop_signal(
    stop: Callable[[], object], *, of: tuple[signal.Signals, ...] = STOP_SIGNALS
) -> Iterator[None]:
    """Call `stop` on each of these signals, until the block ends."""
    loop = asyncio.get_running_loop()
    heard = [each for each in of if each is signal.SIGTERM or not _is_ignored(each)]
    for each in heard:
        loop.add_signal_handler(each, stop)
    try:
        yield
    finally:
        for each in heard:
            loop.remove_signal_handler(each)


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN
