"""A process that commits numbered changes and says which were acknowledged, until it is killed.

    python committer.py URL FIRST COUNT WIDTH

URL is that of a store; WIDTH commits wait at once; each acknowledged number is a line on
standard output.
"""

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection

from crawlfleet.adapters.store.postgres import store as postgres
from crawlfleet.adapters.store.sqlite import store as sqlite
from crawlfleet.model.event import Event
from crawlfleet.model.task import Execution, Task
from crawlfleet.ports.store import Change, Claim

CHILDREN = multiprocessing.get_context("forkserver")
STORES = {"sqlite": sqlite.from_url, "postgresql": postgres.from_url}


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
    url: str, first: int, count: int, width: int, acknowledge: Callable[[int], None]
) -> None:
    store = STORES[url.partition(":")[0]](url)
    await store.open()

    async def commit(number: int) -> None:
        committed = await store.commit([make_change(number)])
        assert committed.refusals == (None,)
        acknowledge(number)

    for start in range(first, first + count, width):
        await asyncio.gather(*(commit(number) for number in range(start, start + width)))


def run_in_child(url: str, first: int, answers: Connection) -> None:
    """Commit without end, eight at a time."""

    def acknowledge(number: int) -> None:
        answers.send_bytes(str(number).encode())

    asyncio.run(commit_all(url, first, sys.maxsize, 8, acknowledge))


def start_child(url: str, first: int) -> tuple[multiprocessing.Process, Connection]:
    answers, other_end = CHILDREN.Pipe(duplex=False)
    child = CHILDREN.Process(target=run_in_child, args=(url, first, other_end))
    child.start()
    other_end.close()
    return child, answers


def commit_until_killed(url: str, first: int, delay_s: float) -> list[int]:
    """The numbers that were acknowledged before the process was killed."""
    child, answers = start_child(url, first)
    numbers = [int(answers.recv_bytes())]
    killer = threading.Timer(delay_s, child.kill)
    killer.start()
    try:
        while True:
            numbers.append(int(answers.recv_bytes()))
    except (EOFError, OSError):
        pass
    killer.join()
    child.join(10)
    assert child.exitcode == -signal.SIGKILL
    return numbers


def write_line(number: int) -> None:
    os.write(1, f"{number}\n".encode())


if __name__ == "__main__":
    asyncio.run(commit_all(sys.argv[1], *map(int, sys.argv[2:]), write_line))
