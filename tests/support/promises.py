"""Tasks for a fleet that is about to be hurt, and what must hold of them afterwards."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from crawlfleet.client import Client
from crawlfleet.errors import CrawlfleetError

Query = Callable[[str], list[tuple[Any, ...]]]
"""Asks the store itself in SQL, behind everybody's back."""
SUBMITTED_AT_ONCE: Final = 1_000
NONE_OF: Final = {
    "tasks completed by no execution, or by several": (
        "select task_id from crawler_task_executions where status = 'completed' "
        "group by task_id having count(*) <> 1"
    ),
    "tasks whose end was told more than once": (
        "select subject from crawler_events where kind = 'task.completed' "
        "group by subject having count(*) <> 1"
    ),
    "executions that are still alive": (
        "select id from crawler_task_executions where status in ('assigned', 'running', 'stopping')"
    ),
}


async def submit_sleeps(
    client: Client, tasks: range, *, seconds: float, tries: int = 1, **request: Any
) -> None:
    """Submit tasks that sleep, and that only a flaw can make fail. Submitting them again changes
    nothing, so that it is safe to try while the master dies."""
    for first in range(tasks.start, tasks.stop, SUBMITTED_AT_ONCE):
        batch = [
            {
                "task_type": "sleep",
                "parameters": {"seconds": seconds},
                "max_retries": 50,
                "retry_policy": {"initial_delay_s": 0.01, "max_delay_s": 0.1},
                "idempotency_key": f"task {number}",
                **request,
            }
            for number in range(first, min(first + SUBMITTED_AT_ONCE, tasks.stop))
        ]
        reply = None
        for left in reversed(range(tries)):
            try:
                reply = await client.submit_batch(batch)
                break
            except CrawlfleetError:
                if not left:
                    raise
                await asyncio.sleep(0.1)
        assert reply is not None
        assert all(item.error is None for item in reply.items)


async def until_completed(client: Client, tasks: int, *, within_s: float) -> None:
    """Wait until so many tasks have completed, whoever cannot be reached meanwhile."""
    done = 0
    async with asyncio.timeout(within_s):
        while done < tasks:
            await asyncio.sleep(0.1)
            try:
                done = (await client.status()).totals.tasks.get("completed", 0)
            except CrawlfleetError:
                continue


def check_completed_once(query: Query, tasks: int) -> None:
    """Every task has completed, exactly once; nothing is lost, repeated, or left alive."""
    states = query("select status, count(*) from crawler_tasks group by status")
    assert [(state, int(number)) for state, number in states] == [("completed", tasks)], states
    for what, question in NONE_OF.items():
        found = query(question)
        assert found == [], f"{what}: {found[:5]}"
    ((told, subjects),) = query(
        "select count(*), count(distinct subject) from crawler_events where kind = 'task.completed'"
    )
    assert (int(told), int(subjects)) == (tasks, tasks)
    ((first, last, number),) = query("select min(seq), max(seq), count(*) from crawler_events")
    assert int(number) == int(last) - int(first) + 1, "the log of events has gaps"
