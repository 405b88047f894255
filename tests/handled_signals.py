"""What the processes that a test starts do on a signal, which they have from this one."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def handled(
    handler: signal.Handlers | Callable[..., Any], *numbers: signal.Signals
) -> Iterator[None]:
    """Meanwhile these signals are ignored here, have their default action, or are handled."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)
