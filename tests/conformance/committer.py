"""A process that commits numbered changes and says which were acknowledged, until it is killed.

    python committer.py STORE FIRST COUNT WIDTH

WIDTH commits wait at once; each acknowledged number is a line on standard output.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection

from crawlfleet.backends.sqlite import SqliteStore
from crawlfleet.model.event import Event
from crawlfleet.model.task import Execution, Task
from crawlfleet.ports.store import Change, Claim


def make_change(number: int) -> Change:
    """A change with a row in each of four tables, all of which name the number's task."""
    name = f"task-{number:08}"
    task = Task(id=name, project_id="p", task_type="t", created_at=1.0, updated_at=1.0)
    attempt = Execution(
        id=f"exec-{number:08}", task_id=name, node_id="n", session_id="s", token=1, start_time=1.0
    )
    event = Event(kind="task.pending", subject=name, at=1.0, cause="a test")
    claim = Claim(scope="s", key=name, holder=name, at=1.0, expires_at=2.0)
    return Change(tasks=(task,), executions=(attempt,), events=(event,), claims=(claim,))


async def commit_all(
    path: str, first: int, count: int, width: int, acknowledge: Callable[[int], None]
) -> None:
    store = SqliteStore(path=path)
    await store.open()

    async def commit(number: int) -> None:
        committed = await store.commit([make_change(number)])
        assert committed.refusals == (None,)
        acknowledge(number)

    for start in range(first, first + count, width):
        await asyncio.gather(*(commit(number) for number in range(start, start + width)))


def run_in_child(path: str, first: int, answers: Connection) -> None:
    """Commit without end, eight at a time."""

    def acknowledge(number: int) -> None:
        answers.send_bytes(str(number).encode())

    asyncio.run(commit_all(path, first, sys.maxsize, 8, acknowledge))


def write_line(number: int) -> None:
    os.write(1, f"{number}\n".encode())


if __name__ == "__main__":
    asyncio.run(commit_all(sys.argv[1], *map(int, sys.argv[2:]), write_line))
