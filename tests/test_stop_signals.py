"""Which signals end a process: as usual, and where some were ignored when it started."""

import asyncio
import os
import signal

import pytest

from crawlfleet.stop_signals import STOP_SIGNALS, on_stop_signal
from tests.handled_signals import handled


async def stops(number: signal.Signals) -> bool:
    """Whether the signal ends what waits for one."""
    stop = asyncio.Event()
    with on_stop_signal(stop.set):
        os.kill(os.getpid(), number)
        # The loop hears of this one after it.
        done = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, done.set)
        os.kill(os.getpid(), signal.SIGUSR1)
        async with asyncio.timeout(30):
            await done.wait()
    return stop.is_set()


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_process_ends_by_each_of_them(number: signal.Signals) -> None:
    with handled(signal.SIG_DFL, number):
        assert asyncio.run(stops(number))


@pytest.mark.parametrize(
    ("number", "ends"), [(signal.SIGINT, False), (signal.SIGHUP, False), (signal.SIGTERM, True)]
)
def test_what_was_ignored_stays_so_but_sigterm_always_ends(
    number: signal.Signals, ends: bool
) -> None:
    with handled(signal.SIG_IGN, number):
        assert asyncio.run(stops(number)) == ends
        assert ends or signal.getsignal(number) == signal.SIG_IGN
