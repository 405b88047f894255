"""What the tasks do: the same functions for every system. Imported by all workers and clients.

No module of this folder imports anything but the system that it is named after: clients and
workers of the peers run in a venv where crawlfleet is not installed.
"""

import asyncio
import os
import time

PAYLOAD = "x" * 300


def nothing(payload: str) -> None:
    """The task whose cost is the cost of its queue."""


def mark(file: str, sent: float) -> None:
    """Note how long it took from `sent` until this function began to run."""
    _append(file, f"{time.time() - sent:.6f}\n")


def write(file: str, number: int, seconds: float) -> None:
    """Take a while, then leave a trace of having run to the end."""
    time.sleep(seconds)
    _append(file, f"{number}\n")


async def nothing_async(payload: str) -> None:
    """`nothing` for systems that run functions in an event loop."""


async def mark_async(file: str, sent: float) -> None:
    mark(file, sent)


async def write_async(file: str, number: int, seconds: float) -> None:
    await asyncio.sleep(seconds)
    _append(file, f"{number}\n")


def _append(file: str, line: str) -> None:
    # One short write to a file opened for appending is atomic, so lines of many processes do not
    # mix; it reaches the kernel at once, so a killed process has either written it or not.
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)
