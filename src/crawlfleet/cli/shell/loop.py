"""Runs the event loop of a command, and reports errors of background tasks like others."""

import asyncio
import contextlib
import gc
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from crawlfleet import event_loop
from crawlfleet.cli.shell.errors import DEFECT, is_debugging, say

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], *, fast: bool = False) -> T:
    """Run the work of a command, and return what it gives; `fast` is for work that lasts."""
    return event_loop.run(work, fast=fast, report=_report)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report an error of a task that was never awaited; the command has continued without it."""
    if is_debugging():
        loop.default_exception_handler(context)
        return
    error, task = context.get("exception"), context.get("future") or context.get("task")
    what = f"{type(error).__name__}: {error}" if error else str(context["message"])
    where = f" ({task.get_name()})" if isinstance(task, asyncio.Task) else ""
    say(f"in the background{where}: {what}", DEFECT, kind="defect")


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Turn garbage collection off during imports, and exempt the imported objects from it for good.

    A collection takes a tenth of the time of a short command, and finds nothing.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
