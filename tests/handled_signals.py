"""What the processes that a test starts do on a signal, which they have from this one."""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def handled(handler: signal.Handlers, *numbers: signal.Signals) -> Iterator[None]:
    """Meanwhile these signals are ignored here, or have their default action."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)
