"""How far the steps of a run are that spread over a list."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from crawlfleet.features.workflows.model import Run, RunStep, StepStatus
from crawlfleet.features.workflows.rules import runs
from crawlfleet.model.task import TERMINAL, TaskStatus
from crawlfleet.ports.store import Store

MOST_COUNTED: Final = 20_000
"""Instances that one look at the steps of a run asks for."""
AT_ONCE: Final = 5_000


class Tally(NamedTuple):
    """How many instances of a step have ended."""

    done: int
    """Completed."""
    undone: int
    """Otherwise."""


async def tallies(store: Store, run: Run, rows: Iterable[RunStep]) -> dict[str, Tally]:
    """By step; those of steps beyond the first `MOST_COUNTED` instances are left out."""
    found: dict[str, Tally] = {}
    wanted: dict[str, list[str]] = {}
    room = MOST_COUNTED
    for row in rows:
        if row.status is StepStatus.COMPLETED or not row.count:
            found[row.step] = Tally(row.count, 0)
        elif row.count <= room:
            wanted[row.step] = runs.instance_ids(run, row)
            room -= row.count
    ids = [id for some in wanted.values() for id in some]
    states: dict[str, TaskStatus] = {}
    for first in range(0, len(ids), AT_ONCE):
        states |= await store.task_states(ids[first : first + AT_ONCE])
    for step, some in wanted.items():
        ended = [states[id] for id in some if states.get(id) in TERMINAL]
        done = ended.count(TaskStatus.COMPLETED)
        found[step] = Tally(done, len(ended) - done)
    return found
