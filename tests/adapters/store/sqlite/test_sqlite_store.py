"""The SQLite store does what every store must, and what one file on one disk needs."""

import asyncio
import math
import sqlite3
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.adapters.store.sql.maintenance import Operation, Steps
from crawlfleet.adapters.store.sql.rows import EVENT, NODE, TASK
from crawlfleet.adapters.store.sql.schema import tasks
from crawlfleet.adapters.store.sqlite import statements
from crawlfleet.adapters.store.sqlite.store import SqliteStore
from crawlfleet.adapters.store.sqlite.writer import Writer
from crawlfleet.errors import ConfigError, InvalidRequest, StoreUnavailable
from crawlfleet.model.task import TaskStatus
from crawlfleet.ports.kernel_tables import CLUSTERS
from crawlfleet.ports.store import Change, Store
from crawlfleet.testing.store_suite import DurableStoreSuite
from crawlfleet.testing.store_suite.samples import make_event, make_node, make_task
from tests.adapters.sqlite_scenes import run
from tests.sampling import SOAK, examples

pytestmark = pytest.mark.slow


class TestSqliteStore(DurableStoreSuite):
    def make_store(self, folder: Path) -> Store:
        return SqliteStore(path=folder / "store.db")


def test_commits_that_wait_together_share_one_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    work = Writer.work

    def counting(self: Writer, jobs: list) -> list:
        groups.append(len(jobs))
        return work(self, jobs)

    monkeypatch.setattr(Writer, "work", counting)

    async def scenario(store: SqliteStore) -> None:
        groups.clear()
        changes = [Change(tasks=(make_task(n),)) for n in range(300)]
        await asyncio.gather(*(store.commit([change]) for change in changes))
        assert await store.count_tasks() == {TaskStatus.PENDING: 300}

    run(tmp_path, scenario)
    assert sum(groups) == 300
    assert len(groups) < 30


def test_commit_is_answered_soon_beside_a_loop_that_computes_all_the_time(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        slowest = 0.0
        for batch in range(40):
            changes = [Change(tasks=(make_task(batch * 100 + n),)) for n in range(100)]
            began = time.perf_counter()
            waiting = asyncio.ensure_future(store.commit(changes))
            while not waiting.done():
                sum(range(20_000))
                await asyncio.sleep(0)
            slowest = max(slowest, time.perf_counter() - began)
        assert slowest < 1.0

    run(tmp_path, scenario)


def test_operations_and_commits_in_one_group_are_all_answered(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        answers = await asyncio.gather(
            store.commit([Change(tasks=(make_task(1),))]),
            store.move_cursor("c", 3),
            store.lead("me"),
            store.commit([Change(tasks=(make_task(2),), events=(make_event(),))]),
            store.remove_finished(before=0.0, limit=5),
        )
        assert answers[0].refusals == answers[3].refusals == (None,)
        assert answers[2] is not None
        assert answers[2].epoch == 1
        assert await store.cursor("c") == 3

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "unfit",
    [
        make_task(2, dead_reason="\ud800"),
        make_task(2, token=2**70),
        make_task(2, not_before=math.nan),
        make_task(2, parameters=msgspec.Raw(b'"\xff"')),
        make_task(2, task_type=object()),
    ],
    ids=["surrogate", "large integer", "not a number", "not UTF-8", "object"],
)
def test_value_that_cannot_be_stored_fails_alone(tmp_path: Path, unfit: object) -> None:
    async def scenario(store: SqliteStore) -> None:
        before, bad, after = await asyncio.gather(
            store.commit([Change(tasks=(make_task(1),), events=(make_event(),))]),
            store.commit([Change(tasks=(unfit,), events=(make_event(),))]),
            store.commit([Change(tasks=(make_task(3),), events=(make_event(),))]),
            return_exceptions=True,
        )
        assert isinstance(bad, InvalidRequest)
        assert before.refusals == after.refusals == (None,)
        found = await store.tasks(["task-0001", "task-0002", "task-0003"])
        assert [task.id for task in found] == ["task-0001", "task-0003"]
        assert [event.seq for event in await store.events(after=0, limit=9)] == [1, 2]

    run(tmp_path, scenario)


def pragma(setting: str) -> Operation:
    def steps(_: object) -> Steps:
        ((value,),) = yield f"PRAGMA {setting}", {}
        return value

    return steps


def test_full_disk_is_explained_and_nothing_is_half_written(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await store._write(pragma("max_page_count=60"))
        large = msgspec.Raw(b'"' + b"x" * 1_000_000 + b'"')
        changes = [
            Change(tasks=(make_task(1),), events=(make_event(),)),
            Change(tasks=(make_task(2, parameters=large),)),
        ]
        with pytest.raises(StoreUnavailable, match=r"disk is full.*free some space") as caught:
            await store.commit(changes)
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert await store.tasks(["task-0001", "task-0002"]) == []
        await store._write(pragma("max_page_count=100000"))
        committed = await store.commit(changes)
        assert committed.refusals == (None, None)
        assert committed.last_seq == 1

    run(tmp_path, scenario)


def test_lock_of_another_program_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlfleet.adapters.store.sqlite.store.BUSY_S", 0.05)

    async def scenario(store: SqliteStore) -> None:
        intruder = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        intruder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="another program has locked it"):
            await store.commit([Change(tasks=(make_task(),))])
        intruder.execute("ROLLBACK")
        intruder.close()
        assert (await store.commit([Change(tasks=(make_task(),))])).refusals == (None,)

    run(tmp_path, scenario)


def test_second_master_on_the_same_file_is_refused(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        second = SqliteStore(path=tmp_path / "store.db")
        with pytest.raises(StoreUnavailable, match=r"in use by the process \d+"):
            await second.open()
        await store.close()
        await second.open()
        await second.close()

    run(tmp_path, scenario)


def test_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"not a database, but longer than a header " * 20)
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match="not a SQLite store"):
        asyncio.run(SqliteStore(path=path).open())
    assert path.read_bytes() == before


def test_database_of_another_program_is_refused(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "store.db")
    other.execute("CREATE TABLE recipes (id)")
    other.close()
    with pytest.raises(ConfigError, match="another program"):
        asyncio.run(SqliteStore(path=tmp_path / "store.db").open())


def test_folder_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="check that its folder exists"):
        asyncio.run(SqliteStore(path=tmp_path / "file" / "store.db").open())


def test_new_store_is_made_soon_even_in_a_folder_with_an_odd_name(tmp_path: Path) -> None:
    began = time.perf_counter()
    run(tmp_path / "a %20 ?#'爬 folder", lambda store: store.find(CLUSTERS.where()))
    assert time.perf_counter() - began < (5.0 if SOAK else 30.0)


def test_loop_that_ended_while_it_waited_does_not_stop_the_writer(tmp_path: Path) -> None:
    store = SqliteStore(path=tmp_path / "store.db")

    async def abandon() -> None:
        await store.open()
        changes = [Change(tasks=(make_task(number),)) for number in range(50)]
        waiting = [asyncio.ensure_future(store.commit([change])) for change in changes]
        await asyncio.sleep(0)
        assert not any(commit.done() for commit in waiting)

    async def go_on() -> None:
        await store.commit([Change(tasks=(make_task(99),))])
        assert await store.tasks(["task-0099"]) == [make_task(99)]
        await store.close()

    asyncio.run(abandon())
    asyncio.run(go_on())


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.dictionaries(TEXT, JSON, max_size=4),
    TEXT,
    st.floats(allow_nan=False),
    st.integers(-(2**63), 2**63 - 1),
    st.lists(TEXT, max_size=3),
)
def test_any_value_survives_the_way_through_a_row(
    values: dict, text: str, real: float, number: int, texts: list[str]
) -> None:
    raw = msgspec.Raw(msgspec.json.encode(values))
    task = make_task(
        parameters=raw,
        result=raw,
        capabilities=values,
        categories=tuple(texts),
        idempotency_key=text,
        not_before=real,
        token=number,
        dead_reason=text,
    )
    node = make_node(labels=dict.fromkeys(texts, text), name=text, task_types=tuple(texts))
    event = make_event(text, details=values, seq=1)
    with sqlite3.connect(":memory:") as connection:
        for mapping, row in ((TASK, task), (NODE, node), (EVENT, event)):
            names = ", ".join(column.name for column in mapping.table.columns)
            connection.execute(f"CREATE TABLE t ({names})")
            encoded = mapping.encode([row])
            connection.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(encoded))})", encoded)
            assert mapping.decode(connection.execute("SELECT * FROM t").fetchone()) == row
            connection.execute("DROP TABLE t")


def test_empty_values_cost_no_text_in_the_row() -> None:
    row = dict(zip(tasks.columns.keys(), TASK.encode([make_task()]), strict=True))
    for name in ("min_resources", "capabilities", "content_features", "options", "error"):
        assert row[name] is None


def test_chunks_hold_all_rows_in_few_statements_of_few_sizes() -> None:
    width = len(EVENT.columns)
    sizes = set()
    for count in range(1100):
        values = [*range(count * width)]
        chunks = list(statements.chunks(EVENT, values))
        assert [value for _, rows, bound in chunks for value in bound[: rows * width]] == values
        assert all(bound[-1] == rows <= size for size, rows, bound in chunks)
        assert all(len(bound) == size * width + 1 for size, _, bound in chunks)
        assert len(chunks) == -(-count // statements.LARGEST_CHUNK)
        sizes.update(size for size, _, _ in chunks)
    assert sizes == {1 << power for power in range(9)}
