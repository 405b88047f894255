"""Waits for tasks to end, and shows their progress."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import typer
from rich.console import Group, RenderableType

from crawlfleet.cli.shell.command import CommandContext, for_each
from crawlfleet.cli.shell.errors import FAILED, say
from crawlfleet.cli.shell.output import cell, message_console, span, state, table, tree
from crawlfleet.errors import MasterUnreachable
from crawlfleet.views.tasks import TaskView

PATIENCE_S: Final = 60.0
"""A master that is away for less, such as for a restart, does not end the waiting."""
PAUSE_S: Final = 1.0
SHOWN: Final = 20


@contextmanager
def submitted(ids: Sequence[str], look: str) -> Iterator[None]:
    """Name the submitted tasks at once, and say that they continue if waiting ends early.

    `look` is the command that shows them. Both messages go to standard error, even with `--json`:
    without an answer from the master, the caller has no other way to the ids.
    """
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    named = " ".join(ids[:SHOWN])
    console = message_console()
    console.print(f"submitted {named}{more}", style="dim", soft_wrap=True)
    try:
        yield
    except (asyncio.CancelledError, MasterUnreachable):
        console.print(f"it goes on; `crawlfleet {look} {named}`", style="dim", soft_wrap=True)
        raise


async def wait_for_one(desk: CommandContext, task_id: str) -> None:
    """Show the task's result once it has ended; exits with 1 unless it completed."""
    [task] = await _ended(desk, [task_id])
    desk.output.show(task, lambda: tree(task.result))
    took = ((task.completed_at or task.updated_at) - task.created_at).total_seconds()
    desk.output.remark(f"{task.id} {task.status} after {span(took)}")
    _exit_unless_completed([task])


async def wait_for_all(desk: CommandContext, task_ids: Sequence[str]) -> None:
    """Show how the tasks ended once all have; exits with 1 unless all completed."""
    tasks = await _ended(desk, task_ids)
    desk.output.show(tasks, lambda: _draw(tasks))
    _exit_unless_completed(tasks)


def _draw(tasks: Sequence[TaskView]) -> RenderableType:
    counts = Counter(task.status for task in tasks)
    summary = cell(", ".join(f"{count} {name}" for name, count in counts.most_common()))
    if len(tasks) > SHOWN:
        return summary
    rows = (
        [cell(task.id), state(task.status), cell(task.error.message if task.error else None)]
        for task in tasks
    )
    return Group(table(("id", "status", "error"), rows), summary)


def _exit_unless_completed(tasks: Sequence[TaskView]) -> None:
    others = [task for task in tasks if task.status != "completed"]
    for task in others[:SHOWN]:
        why = f": {task.error.message}" if task.error else ""
        say(f"{task.id} {task.status}{why}", f"`crawlfleet tasks show {task.id}` tells its story")
    if others:
        raise typer.Exit(FAILED)


async def _ended(desk: CommandContext, task_ids: Sequence[str]) -> list[TaskView]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    ended: dict[str, TaskView] = {}
    console = message_console()
    with Progress(
        TextColumn("waiting"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as progress:
        bar = progress.add_task("", total=len(task_ids))

        async def wait(task_id: str) -> None:
            ended[task_id] = await _wait_patiently(desk, task_id)
            progress.update(bar, completed=len(ended))

        await for_each(dict.fromkeys(task_ids), wait)
    return [ended[task_id] for task_id in task_ids]


async def _wait_patiently(desk: CommandContext, task_id: str) -> TaskView:
    loop = asyncio.get_running_loop()
    silent_since: float | None = None
    while True:
        try:
            return await desk.fleet.wait(task_id)
        except MasterUnreachable:
            silent_since = silent_since or loop.time()
            if loop.time() - silent_since > PATIENCE_S:
                raise
            await asyncio.sleep(PAUSE_S)
