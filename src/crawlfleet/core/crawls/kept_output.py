"""Missing output: decides whether the master should have the output of a crawl, so that its absence
is a loss.

The store records that a crawl has run; the output folder has the items it found. A store that was
restored without that folder lists crawls whose output is elsewhere.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec

from crawlfleet.core.crawls.shared_crawl import crawl_of
from crawlfleet.model.crawl.parameters import FLEET, SinkSpec
from crawlfleet.model.task import Task, TaskStatus

CRAWL: Final = "web_crawl"


class _Sinks(msgspec.Struct, frozen=True):
    sinks: tuple[SinkSpec, ...] = ()


def why_missing(task: Task, *, items: float, restored_at: float | None) -> str | None:
    """Return why a crawl that should have output has none, with the remedy; `None` for a crawl that
    may well have no output here.

    `items` is the number that its attempts have counted, and `restored_at` the time of the last
    restore of the store.
    """
    began_before = (
        restored_at is not None and task.started_at is not None and task.started_at < restored_at
    )
    is_crawl = task.task_type == CRAWL
    # A crawl hands something over before its first page, other code with its first item.
    has_handed_over = items > 0 or (is_crawl and task.status is TaskStatus.COMPLETED)
    if not _is_kept_here(task) or not (has_handed_over or (is_crawl and began_before)):
        return None
    since = ""
    if began_before and restored_at is not None:
        at = datetime.fromtimestamp(restored_at, UTC)
        since = f" since the store was restored at {at:%Y-%m-%d %H:%M:%S} UTC"
    return (
        f"the output of {task.id} is not here{since}: a backup has no output of crawls. Copy the "
        f"folder {crawl_of(task)} into this master's folder of output (`output_dir`) from that of "
        "the fleet that was backed up"
    )


def _is_kept_here(task: Task) -> bool:
    """Return whether the task's own parameters send its output to the master."""
    if task.task_type != CRAWL:
        return True
    try:
        named = msgspec.json.decode(task.parameters, type=_Sinks).sinks
    except msgspec.DecodeError:
        return False
    return not named or any(each.url.startswith(FLEET) for each in named)
