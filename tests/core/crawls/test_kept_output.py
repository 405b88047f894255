"""Whether the absence of a crawl's output is a loss."""

from typing import Any

import msgspec
import pytest

from crawlfleet.core.crawls.kept_output import why_missing
from crawlfleet.model.task import Task, TaskStatus

OWN = {"url": "https://shop.example/", "sinks": [{"url": "/data/items.jsonl"}]}
BOTH = {"url": "https://shop.example/", "sinks": [{"url": "fleet:items"}, {"url": "/data/x.jsonl"}]}
PLAIN = {"url": "https://shop.example/"}


def task(status: TaskStatus, parameters: Any = PLAIN, **fields: Any) -> Task:
    return Task(
        id="task-1",
        project_id="default",
        created_at=0.0,
        updated_at=0.0,
        status=status,
        parameters=msgspec.Raw(msgspec.json.encode(parameters)),
        **{"task_type": "web_crawl", "started_at": 100.0, **fields},
    )


@pytest.mark.parametrize(
    ("crawl", "items", "restored_at", "missing"),
    [
        (task(TaskStatus.COMPLETED), 0.0, None, True),
        (task(TaskStatus.COMPLETED, BOTH), 0.0, None, True),
        (task(TaskStatus.COMPLETED, OWN), 5.0, 200.0, False),
        (task(TaskStatus.COMPLETED), 0.0, 200.0, True),
        (task(TaskStatus.COMPLETED), 0.0, 50.0, True),
        (task(TaskStatus.FAILED), 0.0, None, False),
        (task(TaskStatus.FAILED), 3.0, None, True),
        (task(TaskStatus.FAILED), 0.0, 200.0, True),
        (task(TaskStatus.FAILED), 0.0, 50.0, False),
        (task(TaskStatus.PENDING, started_at=None), 0.0, 200.0, False),
        (task(TaskStatus.COMPLETED, task_type="python"), 0.0, 200.0, False),
        (task(TaskStatus.COMPLETED, task_type="python"), 4.0, 200.0, True),
        (task(TaskStatus.COMPLETED, task_type="python"), 4.0, None, True),
        (task(TaskStatus.COMPLETED, "no crawl"), 0.0, 200.0, False),
    ],
)
def test_output_that_ought_to_be_here_is_missed(
    crawl: Task, items: float, restored_at: float | None, missing: bool
) -> None:
    why = why_missing(crawl, items=items, restored_at=restored_at)
    assert (why is not None) == missing
    if why is not None:
        assert "task-1" in why
        assert "output_dir" in why
        assert ("restored" in why) == (restored_at is not None and restored_at > 100.0)


def test_of_a_shard_the_folder_of_the_whole_is_named() -> None:
    why = why_missing(task(TaskStatus.COMPLETED, parent_id="task-0"), items=0.0, restored_at=None)
    assert why is not None
    assert "folder task-0" in why
