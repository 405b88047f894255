"""A writer that trusts what changes say answers and stores what one does that reads everything."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.adapters.store.sqlite.store import SqliteStore
from crawlfleet.model.task import (
    EXECUTION_STEPS,
    TASK_STEPS,
    Execution,
    ExecutionStatus,
    Task,
    TaskStatus,
)
from crawlfleet.ports.store import Change, Store
from crawlfleet.testing.store_suite.samples import (
    ERROR,
    FULL_TASK,
    make_event,
    make_execution,
    make_task,
)
from tests.sampling import examples

pytestmark = pytest.mark.slow

ROWS: Final = 4
OTHER: Final = {"error": ERROR}
"""What no usual step changes."""

versions = st.sampled_from((0, 0, 0, 0, 0, 0, 1, -1))
"""How far from the next one."""
row = st.tuples(st.integers(0, ROWS - 1), versions)
step = st.tuples(
    row,
    st.none() | row,
    st.sampled_from((*TASK_STEPS, TaskStatus.PENDING, TaskStatus.CANCELLED)),
    st.sampled_from((*EXECUTION_STEPS, ExecutionStatus.ASSIGNED, ExecutionStatus.STOPPING)),
    st.booleans(),
)
groups = st.lists(st.lists(step, min_size=1, max_size=8), min_size=1, max_size=8)


class Lives:
    """The rows as they are after what fits, and the next changes of them."""

    def __init__(self) -> None:
        self._rows: dict[str, Any] = {}
        self._made = 0

    def change(self, chosen: Any) -> Change:
        (number, ahead), other, status, state, usual = chosen
        self._made += 1
        task = self._next(make_task(number), ahead, status, TASK_STEPS, usual)
        rows: list[Task | Execution] = [task]
        if other is not None:
            attempt = make_execution(other[0])
            rows.append(self._next(attempt, other[1], state, EXECUTION_STEPS, usual))
        if not any(away for _, away in ((number, ahead), other or (0, 0))):
            self._rows.update((each.id, each) for each in rows)
        return Change(
            tasks=(task,),
            executions=tuple(each for each in rows if isinstance(each, Execution)),
            events=(make_event(subject=f"change-{self._made}"),),
            usual=usual,
        )

    def _next(
        self, new: Any, ahead: int, status: Any, steps: Mapping[Any, tuple[str, ...]], usual: bool
    ) -> Any:
        before = self._rows.get(new.id)
        if before is None:
            return replace(new, version=1 + ahead)
        marks = {"result": Raw(b"%d" % self._made), "metrics": {"made": float(self._made)}}
        full = {name: getattr(FULL_TASK, name, self._made + 0.5) for name in steps.get(status, ())}
        changes = {name: marks.get(name, value) for name, value in full.items()}
        if not usual or status not in steps:
            changes |= OTHER
        return replace(before, status=status, version=before.version + 1 + ahead, **changes)


async def everything(store: Store) -> list[Any]:
    ids = [make_task(number).id for number in range(ROWS)]
    return [
        await store.tasks(ids),
        await store.executions(make_execution().task_id),
        [each.subject for each in await store.events(after=0, limit=1000)],
    ]


@settings(max_examples=examples(300), deadline=None)
@given(groups)
def test_trust_changes_neither_answers_nor_rows(chosen: list[list[Any]]) -> None:
    async def scenario(folder: Path) -> None:
        plain, trusting = MemoryStore(), SqliteStore(path=folder / "store.db")
        await plain.open()
        await trusting.open()
        try:
            lives = Lives()
            for group in chosen:
                changes = [lives.change(each) for each in group]
                assert await trusting.commit(changes) == await plain.commit(changes)
                assert await everything(trusting) == await everything(plain)
        finally:
            await trusting.close()

    with TemporaryDirectory() as folder:
        asyncio.run(scenario(Path(folder)))
