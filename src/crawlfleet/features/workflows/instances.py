"""How far the steps of a run are that spread over a list."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from crawlfleet.features.workflows.model import Run, RunStep, StepStatus
from crawlfleet.features.workflows.rules import runs
from crawlfleet.model.task import TERMINAL, TaskStatus
from crawlfleet.ports.store import Store

MAX_COUNTED: Final = 20_000
"""Instances that one look at the steps of a run asks for."""
STATES_BATCH: Final = 5_000


class InstanceCounts(NamedTuple):
    """How many instances of a step have ended."""

    done: int
    """Completed."""
    undone: int
    """Otherwise."""


async def count_instances(
    store: Store, run: Run, rows: Iterable[RunStep]
) -> dict[str, InstanceCounts]:
    """By step; those of steps beyond the first `MAX_COUNTED` instances are left out."""
    found: dict[str, InstanceCounts] = {}
    wanted: dict[str, list[str]] = {}
    room = MAX_COUNTED
    for row in rows:
        if row.status is StepStatus.COMPLETED or not row.count:
            found[row.step] = InstanceCounts(row.count, 0)
        elif row.count <= room:
            wanted[row.step] = runs.instance_ids(run, row)
            room -= row.count
    ids = [id for some in wanted.values() for id in some]
    states: dict[str, TaskStatus] = {}
    for first in range(0, len(ids), STATES_BATCH):
        states |= await store.task_states(ids[first : first + STATES_BATCH])
    for step, some in wanted.items():
        ended = [states[id] for id in some if states.get(id) in TERMINAL]
        done = ended.count(TaskStatus.COMPLETED)
        found[step] = InstanceCounts(done, len(ended) - done)
    return found
