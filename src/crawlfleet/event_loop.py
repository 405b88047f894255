"""The event loops of our processes: made in one place, so that no error in the background is lost.

An asyncio task that fails while nobody awaits it says so only when it is collected as garbage: a
process that looks for garbage seldom, or ends soon, would never say it. And it does not say it at
all once it was cancelled, as what runs beside something else is at the end of that.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")

Report = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]
"""An exception handler of a loop."""


class ReportingTask(asyncio.Task[Any]):
    """A task whose error is kept until it is read, even when the task is cancelled after it
    failed."""

    __slots__ = ()

    def cancel(self, msg: Any | None = None) -> bool:
        # Of a task that is done, asyncio would only take its error for read.
        return not self.done() and super().cancel(msg)


def make_task(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, T] | Generator[Any, None, T],
    **options: Any,
) -> asyncio.Future[T]:
    """Make a `ReportingTask`; a task factory for event loops."""
    return ReportingTask(work, loop=loop, **options)


def run(work: Coroutine[Any, Any, T], *, fast: bool = False, report: Report | None = None) -> T:
    """Run the work on a loop of its own, and return what it gives.

    An error that nobody has read is reported at the latest at the end: to `report`, else to the
    log. With `fast` the loop is uvloop's where that is installed; loading it pays for work that
    lasts.
    """
    # What was loaded is not looked at again, so that the search at the end is short.
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=_loop_factory() if fast else None) as runner:
            loop = runner.get_loop()
            loop.set_exception_handler(report)
            loop.set_task_factory(make_task)
            return runner.run(work)
    finally:
        gc.collect()


def report_failure(task: asyncio.Task[Any]) -> None:
    """Report the error of an ended task; a done callback for long-lived tasks that are never
    awaited. Without it the error would be reported when the task is garbage-collected."""
    if not task.cancelled() and (error := task.exception()) is not None:
        told = f"{task.get_name()} failed in the background"
        task.get_loop().call_exception_handler({"message": told, "exception": error, "task": task})


@asynccontextmanager
async def alongside(work: Coroutine[Any, Any, None], *, name: str) -> AsyncIterator[None]:
    """Run the work in a task of that name while this is entered, and cancel it at the end.

    The body goes on if the work fails, and the error is reported at once.
    """
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(report_failure)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
