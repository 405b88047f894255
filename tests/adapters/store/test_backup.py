"""All rows into a file and into another store: whole, checked, fenced, or not at all."""

import asyncio
import gzip
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.adapters.store.backup_file import (
    FORMAT,
    FORMAT_VERSION,
    Backup,
    Header,
    write_backup,
)
from crawlfleet.adapters.store.sql.archive import TABLES
from crawlfleet.adapters.store.sql.migrations import HEAD
from crawlfleet.compose.by_url import open_archive, open_store
from crawlfleet.errors import BackupUnusable, Conflict, StoreUnavailable
from crawlfleet.model.change import NEVER
from crawlfleet.model.log import LogLevel, LogLine, LogPart
from crawlfleet.model.node import NodeStatus
from crawlfleet.model.node_sample import NodeSample
from crawlfleet.model.task import TaskStatus
from crawlfleet.ports.store import Change, Store
from crawlfleet.ports.store_archive import Portion
from crawlfleet.testing.store_suite.harness import must, take_lead
from crawlfleet.testing.store_suite.quality_samples import FULL_MEASURED
from crawlfleet.testing.store_suite.samples import (
    AWKWARD,
    FULL_BUNDLE,
    FULL_CLUSTER,
    FULL_EVENT,
    FULL_EXECUTION,
    FULL_FIRING,
    FULL_KEY,
    FULL_NODE,
    FULL_PROJECT,
    FULL_SCHEDULE,
    FULL_TASK,
    NOW,
    make_claim,
    make_configuration,
    make_entry,
    make_event,
    make_execution,
    make_node,
    make_secret,
    make_session,
    make_task,
)
from crawlfleet.testing.store_suite.usages import FULL_USAGE
from crawlfleet.testing.store_suite.webhook_samples import (
    FULL_DELIVERY,
    FULL_RULE,
    FULL_WEBHOOK,
)
from crawlfleet.testing.store_suite.workflow_samples import (
    FULL_RUN,
    FULL_RUN_STEP,
    FULL_VERSION,
    FULL_WORKFLOW,
)

pytestmark = pytest.mark.slow

HEADER = Header(
    format=FORMAT,
    format_version=FORMAT_VERSION,
    schema_version=HEAD,
    made_at=NOW,
    made_by="a test",
)


def run(scenario: Awaitable[Any]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(120):
            return await scenario

    return asyncio.run(limited())


async def with_store(url: str, use: Callable[[Store], Awaitable[Any]]) -> Any:
    store = open_store(url)
    await store.open()
    try:
        return await use(store)
    finally:
        await store.close()


async def fill(store: Store) -> None:
    """Something in every table, live work, and two thousand tasks."""
    await store.lead("a master")
    await must(
        store,
        Change(
            rows=(
                FULL_PROJECT,
                FULL_CLUSTER,
                FULL_KEY,
                FULL_SCHEDULE,
                FULL_BUNDLE,
                make_secret(sealed="1.0.AAAA"),
                FULL_FIRING,
                FULL_WORKFLOW,
                FULL_VERSION,
                FULL_RUN,
                FULL_RUN_STEP,
                FULL_WEBHOOK,
                FULL_DELIVERY,
                FULL_RULE,
                FULL_MEASURED,
                make_configuration(),
            ),
            nodes=(
                FULL_NODE,
                make_node(2, status=NodeStatus.ONLINE, session_id="sess-0002"),
                make_node(3, status=NodeStatus.MAINTENANCE, session_id="sess-0003"),
            ),
            sessions=(make_session(1), make_session(2), make_session(3, ended_at=NOW)),
            tasks=(FULL_TASK, *(make_task(n) for n in range(2, 2001))),
            executions=(FULL_EXECUTION, make_execution(2, task_id="task-0002")),
            claims=(make_claim(expires_at=NEVER), make_claim(key="other")),
            events=(FULL_EVENT, make_event()),
            usage=(FULL_USAGE,),
            audit=make_entry(project_id="shop"),
        ),
    )
    await store.move_cursor("outbox", 1)
    said = LogLine(seq=1, at=NOW, message=AWKWARD, level=LogLevel.WARNING, fields={"n": [1]})
    await store.append_logs([LogPart(execution_id="exec-0001", lines=(said,))])
    await store.append_samples([NodeSample(node_id="node-0001", at=NOW, latency_s=0.1)])


async def save(url: str, file: Path) -> dict[str, int]:
    archive = open_archive(url)
    assert await archive.revision() == HEAD
    return await write_backup(file, HEADER, archive.dump(), lambda table, rows: None)


async def restore(file: Path, url: str, *, force: bool = False) -> None:
    await open_archive(url).load(Backup(file).portions(), force=force, now=NOW + 100)


async def rows_of(url: str) -> dict[str, list[list[Any]]]:
    rows: dict[str, list[list[Any]]] = {}
    async for portion in open_archive(url).dump():
        rows.setdefault(portion.table, []).extend([*row] for row in portion.rows)
    return {table: sorted(found, key=repr) for table, found in rows.items()}


@pytest.fixture
def sqlite(tmp_path: Path) -> Callable[[str], str]:
    return lambda name: f"sqlite:///{tmp_path / name}.db"


@pytest.fixture
def full(sqlite: Callable[[str], str]) -> str:
    """The URL of a store that has something of everything."""
    run(with_store(sqlite("full"), fill))
    return sqlite("full")


def test_every_row_comes_back_and_the_earlier_life_is_fenced_off(
    full: str, sqlite: Callable[[str], str], tmp_path: Path
) -> None:
    file = tmp_path / "a.backup"
    before = run(rows_of(full))

    counts = run(save(full, file))
    run(restore(file, sqlite("new")))

    assert set(counts) == set(TABLES)
    assert counts == {table: len(rows) for table, rows in before.items()}
    assert all(counts.values()), "each table has something to lose"
    assert file.stat().st_mode & 0o077 == 0
    after = run(rows_of(sqlite("new")))
    fenced = {"crawler_nodes", "crawler_node_sessions", "crawler_leadership", "crawler_events"}
    for table, rows in before.items():
        if table not in fenced:
            assert after[table] == rows, table

    async def check(store: Store) -> None:
        assert await store.live_sessions() == []
        ended = await store.session("sess-0001")
        assert ended is not None
        assert (ended.ended_at, ended.version) == (NOW + 100, 2)
        nodes = {node.id: node for node in await store.nodes()}
        assert {node.session_id for node in nodes.values()} == {None}
        assert nodes["node-0001"].status is NodeStatus.UNRESPONSIVE, "it was draining"
        assert nodes["node-0002"].status is NodeStatus.UNRESPONSIVE
        assert nodes["node-0003"].status is NodeStatus.MAINTENANCE
        kinds = [event.kind for event in await store.events(after=0, limit=10)]
        assert kinds[2:] == ["store.restored", "node.unresponsive", "node.unresponsive"]
        assert await take_lead(store, "next") == 3, "1 before the backup, 2 by the restore"
        assert len(await store.live_executions()) == 1
        assert (await store.tasks(["task-0001"])) == [FULL_TASK]
        (refusal,) = (
            await store.commit([Change(claims=(make_claim("task-0002", expires_at=NEVER),))])
        ).refusals
        assert refusal is not None, "a claim that never expires"

    run(with_store(sqlite("new"), check))


def test_a_backup_moves_between_the_databases_and_back(
    full: str, url: str, sqlite: Callable[[str], str], tmp_path: Path
) -> None:
    run(save(full, tmp_path / "1.backup"))
    run(restore(tmp_path / "1.backup", url, force=True))
    there = run(rows_of(url))
    run(save(url, tmp_path / "2.backup"))
    run(restore(tmp_path / "2.backup", sqlite("back")))
    back = run(rows_of(sqlite("back")))

    original = run(rows_of(full))
    changed = {"crawler_nodes", "crawler_node_sessions", "crawler_leadership", "crawler_events"}
    for table in TABLES:
        if table not in changed:
            assert there[table] == original[table] == back[table], table
    assert run(with_store(url, lambda store: take_lead(store, "x"))) == 3
    assert run(with_store(sqlite("back"), lambda store: take_lead(store, "x"))) == 4


def test_a_backup_is_of_one_instant_while_others_write(
    url: str, sqlite: Callable[[str], str], tmp_path: Path
) -> None:
    """Each change writes a task and its event: a backup has both or none."""

    async def scenario(place: str) -> None:
        store = open_store(place)
        await store.open()
        done = asyncio.Event()
        written = 0

        async def write() -> None:
            nonlocal written
            while not done.is_set():
                written += 1
                task = make_task(written, id=f"task-{written:09}")
                await must(store, Change(tasks=(task,), events=(make_event(task.id),)))

        writing = asyncio.create_task(write())
        try:
            for number in range(5):
                while written < (number + 1) * 30:
                    await asyncio.sleep(0.01)
                file = tmp_path / f"{number}.backup"
                counts = await save(place, file)
                tasks, events = counts["crawler_tasks"], counts["crawler_events"]
                assert tasks == events > number * 30
        finally:
            done.set()
            await writing
            await store.close()

    for place in (sqlite("busy"), url):
        run(scenario(place))
        for number in range(5):
            (tmp_path / f"{number}.backup").unlink()


def test_a_store_that_is_not_empty_is_replaced_only_by_force(
    full: str, url: str, sqlite: Callable[[str], str], tmp_path: Path
) -> None:
    file = tmp_path / "a.backup"
    run(save(full, file))
    for place in (sqlite("other"), url):
        run(with_store(place, lambda store: must(store, Change(tasks=(make_task(9999),)))))
        before = run(rows_of(place))
        with pytest.raises(Conflict, match=r"crawler_tasks.*--force"):
            run(restore(file, place))
        assert run(rows_of(place)) == before
        for epoch in range(1, 8):
            assert run(with_store(place, lambda store: take_lead(store, "x"))) == epoch
        run(restore(file, place, force=True))
        assert len(run(rows_of(place))["crawler_tasks"]) == 2000
        assert run(with_store(place, lambda store: take_lead(store, "x"))) == 9, "above both"


def test_a_store_in_use_is_left_alone(full: str, sqlite: Callable[[str], str], tmp_path: Path):
    file = tmp_path / "a.backup"
    run(save(full, file))

    async def scenario(store: Store) -> None:
        with pytest.raises(StoreUnavailable, match="in use"):
            await restore(file, sqlite("used"), force=True)

    run(with_store(sqlite("used"), scenario))


def test_a_server_where_masters_work_is_saved_and_left_alone_even_by_force(
    url: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.backup"

    async def scenario(leader: Store) -> None:
        await fill(leader)
        follower = open_store(url)
        await follower.open()
        try:
            assert await follower.lead("another") is None
            await must(follower, Change(tasks=(make_task(9999),), events=(make_event(),)))
            rows = await save(url, file)
            assert rows["crawler_tasks"] == 2001
            before = await rows_of(url)
            with pytest.raises(Conflict, match="a master is at work"):
                await restore(file, url, force=True)
            assert await rows_of(url) == before
        finally:
            await follower.close()

    run(with_store(url, scenario))
    run(restore(file, url, force=True))
    assert run(with_store(url, lambda store: take_lead(store, "x"))) == 3, "the lead is free again"


def rewritten(file: Path, change: Callable[[list[bytes]], list[bytes]]) -> Path:
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    file.write_bytes(gzip.compress(b"".join(change(lines))))
    return file


def without_a_row(lines: list[bytes]) -> list[bytes]:
    place = next(n for n, line in enumerate(lines) if line.startswith(b'["task-0500'))
    return lines[:place] + lines[place + 1 :]


def with_another_value(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b'"pending"', b'"paused"') for line in lines]


def without_its_end(lines: list[bytes]) -> list[bytes]:
    return lines[:-1]


def without_a_table(lines: list[bytes]) -> list[bytes]:
    first = next(n for n, line in enumerate(lines) if b'"table":"crawler_keys"' in line)
    last = next(n for n, line in enumerate(lines) if b'"end":"crawler_keys"' in line)
    return lines[:first] + lines[last + 1 :]


def of_a_later_format(lines: list[bytes]) -> list[bytes]:
    return [lines[0].replace(b'"format_version":1', b'"format_version":2'), *lines[1:]]


def with_a_strange_column(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b'"dead_reason"', b'"dead_mood"') for line in lines]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (without_a_row, "the checksum of crawler_tasks is wrong"),
        (with_another_value, "the checksum of"),
        (without_its_end, "its end is missing"),
        (without_a_table, "its counts are not those"),
        (of_a_later_format, "has the format 2"),
        (with_a_strange_column, "dead_mood.*does not know"),
        (lambda lines: [b"hello\n"], "is not a backup"),
        (lambda lines: [*lines, b"more\n"], "its counts are not"),
    ],
)
def test_a_damaged_or_strange_file_restores_nothing(
    full: str,
    url: str,
    sqlite: Callable[[str], str],
    tmp_path: Path,
    change: Callable[[list[bytes]], list[bytes]],
    says: str,
) -> None:
    file = tmp_path / "a.backup"
    run(save(full, file))
    rewritten(file, change)
    for place in (sqlite("victim"), url):
        run(with_store(place, lambda store: must(store, Change(tasks=(make_task(9999),)))))
        before = run(rows_of(place))
        with pytest.raises(BackupUnusable, match=says):
            run(restore(file, place, force=True))
        assert run(rows_of(place)) == before


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.99])
def test_a_truncated_file_restores_nothing(
    full: str, sqlite: Callable[[str], str], tmp_path: Path, cut: float
) -> None:
    file = tmp_path / "a.backup"
    run(save(full, file))
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * cut)])
    with pytest.raises(BackupUnusable, match="damaged"):
        run(restore(file, sqlite("new")))
    assert all(len(rows) <= 1 for rows in run(rows_of(sqlite("new"))).values())


def test_a_backup_that_fails_leaves_no_file(full: str, tmp_path: Path) -> None:
    async def broken() -> Any:
        yield Portion("projects", ("id",), [["x"]])
        raise StoreUnavailable("gone")

    with pytest.raises(StoreUnavailable):
        run(write_backup(tmp_path / "a.backup", HEADER, broken(), lambda table, rows: None))
    assert not [*tmp_path.glob("a.backup*")]


def test_a_store_that_is_not_there_is_told(tmp_path: Path, url: str) -> None:
    for place in (f"sqlite:///{tmp_path}/nowhere.db", url):
        with pytest.raises(StoreUnavailable, match="no store"):
            run(open_archive(place).revision())
    assert not (tmp_path / "nowhere.db").exists()


def test_a_backup_reads_beside_the_log_without_moving_it(full: str, tmp_path: Path) -> None:
    """Only the writer may move the log into the file, or a commit may be lost."""
    path = Path(full.removeprefix("sqlite:///"))

    async def scenario(store: Store) -> None:
        await must(store, Change(tasks=(make_task(7777, status=TaskStatus.PAUSED),)))
        before = path.read_bytes()  # noqa: ASYNC240
        await save(full, tmp_path / "a.backup")
        assert path.read_bytes() == before  # noqa: ASYNC240

    run(with_store(full, scenario))
    with sqlite3.connect(path) as connection:
        assert connection.execute("select count(*) from crawler_tasks").fetchone() == (2001,)
