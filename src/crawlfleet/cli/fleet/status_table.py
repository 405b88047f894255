"""A live table of the fleet in the terminal."""

import asyncio
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from crawlfleet.cli.shell.errors import say_display_lost
from crawlfleet.cli.shell.output import STYLES
from crawlfleet.client import Client
from crawlfleet.errors import CrawlfleetError
from crawlfleet.views.nodes import NodeView
from crawlfleet.views.status import FleetStatus
from crawlfleet.views.tasks import TaskView

REFRESH_S: Final = 0.25
MAX_TASKS: Final = 12


class LiveTable:
    """Draws nodes, counts and what is running a few times a second."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def run(self) -> None:
        """Draw until cancelled. If drawing fails, the fleet continues and a message says so."""
        try:
            with Live(console=Console(), refresh_per_second=4, transient=False) as live:
                while True:
                    live.update(await self.picture())
                    await asyncio.sleep(REFRESH_S)
        except Exception as error:
            say_display_lost(error, "the fleet")

    async def picture(self) -> RenderableType:
        """The fleet as it is now."""
        try:
            status = await self._client.status()
            nodes = await self._client.nodes()
            running = self._client.tasks(limit=MAX_TASKS, status="processing,assigned")
            tasks = [task async for task in running]
        except CrawlfleetError as error:
            return Text(f"waiting for the master: {error}", style="yellow")
        return Group(_totals(status), _nodes(nodes), _tasks(tasks, nodes))


def _totals(status: FleetStatus) -> Table:
    counts = status.totals.tasks
    table = Table.grid(padding=(0, 2))
    done, all_tasks = counts.get("completed", 0), sum(counts.values())
    table.add_row(
        Text("tasks", style="bold"),
        ProgressBar(total=max(all_tasks, 1), completed=done, width=30),
        *(_state(name, f"{name} {count}") for name, count in sorted(counts.items())),
    )
    return table


def _nodes(nodes: list[NodeView]) -> Table:
    table = Table("node", "status", "cpu", "memory", "running", title="Nodes", title_justify="left")
    for node in nodes:
        table.add_row(
            node.name,
            _state(node.status),
            f"{node.usage.get('cpu_usage') or 0:.0%}",
            f"{node.usage.get('memory_usage') or 0:.0%}",
            f"{len(node.active_tasks)} / {node.resources.slots:g}",
        )
    return table


def _tasks(tasks: list[TaskView], nodes: list[NodeView]) -> Table:
    names = {node.id: node.name for node in nodes}
    table = Table(
        "task", "type", "priority", "status", "node", title="Running now", title_justify="left"
    )
    for task in tasks:
        table.add_row(
            task.id,
            task.task_type,
            str(task.priority),
            _state(task.status),
            names.get(task.assigned_node or "", task.assigned_node),
        )
    return table


def _state(state: str, text: str | None = None) -> Text:
    return Text(text or state, style=STYLES.get(state, ""))
