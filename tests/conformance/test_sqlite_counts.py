"""The writer of a SQLite store knows how many tasks there are, also after its file failed it."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawlfleet.backends.sqlite import SqliteStore
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.task import TaskStatus
from crawlfleet.ports.store import Change
from crawlfleet.testing.store_suite.counts import counted_by_hand
from crawlfleet.testing.store_suite.harness import must
from crawlfleet.testing.store_suite.samples import make_event, make_task
from tests.conformance.sqlite_scenes import run

pytestmark = pytest.mark.slow


class Failing:
    """A connection that fails to commit once: before it is done, or after."""

    def __init__(self, connection: sqlite3.Connection, *, after: bool) -> None:
        self._connection = connection
        self._after = after
        self._fails = True

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement != "COMMIT" or not self._fails:
            return self._connection.execute(statement, *values)
        self._fails = False
        if self._after:
            self._connection.execute(statement)
        raise sqlite3.OperationalError("disk I/O error")

    @property
    def total_changes(self) -> int:
        return self._connection.total_changes

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


def test_who_asks_makes_nobody_read_the_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(store: SqliteStore) -> None:
        task = make_task()
        await must(store, Change(tasks=(task, make_task(2))))
        done = replace(task, version=2, status=TaskStatus.CANCELLED)
        await must(store, Change(tasks=(done,), events=(make_event(from_state="pending"),)))
        monkeypatch.setattr(store, "_read", None)
        expected = {TaskStatus.PENDING: 1, TaskStatus.CANCELLED: 1}
        assert await store.count_tasks() == expected
        assert await store.count_tasks("default") == expected
        assert await store.count_tasks_by_project() == {"default": expected}

    run(tmp_path, scenario)


@pytest.mark.parametrize("after", [False, True])
def test_tasks_are_counted_anew_when_nobody_knows_what_a_commit_did(
    tmp_path: Path, after: bool
) -> None:
    async def scenario(store: SqliteStore) -> None:
        assert store._files is not None
        writer = store._files.writer
        await must(store, Change(tasks=(make_task(1),)))
        writer._connection = Failing(writer._connection, after=after)  # type: ignore[assignment]
        with pytest.raises(StoreUnavailable):
            await store.commit([Change(tasks=(make_task(2),))])
        assert len(await counted_by_hand(store)) == 1 + after
        await must(store, Change(tasks=(make_task(3),)))
        assert len(await counted_by_hand(store)) == 2 + after
        assert writer.counts.known

    run(tmp_path, scenario)


def test_closed_store_counts_nothing(tmp_path: Path) -> None:
    store = SqliteStore(path=tmp_path / "store.db")
    with pytest.raises(StoreUnavailable):
        asyncio.run(store.count_tasks())
    with pytest.raises(StoreUnavailable):
        asyncio.run(store.count_tasks_by_project())
