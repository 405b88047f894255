"""A store or a frontier whose files are removed, replaced or damaged under it says so, and takes
nothing that would be lost."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from crawlfleet.adapters.frontier.sqlite import SqliteFrontier
from crawlfleet.adapters.store import database_file
from crawlfleet.adapters.store.database_file import DatabaseFile
from crawlfleet.adapters.store.sqlite import errors
from crawlfleet.adapters.store.sqlite.store import SqliteStore
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.crawl.frontier import FrontierRules, Link
from crawlfleet.ports.store import Change
from crawlfleet.testing.store_suite.samples import make_event
from tests.support.machines import filled, small_disk

Fault = Callable[[Path], None]


def _unlink(path: Path) -> None:
    path.unlink()


def _rename(path: Path) -> None:
    path.rename(f"{path}.away")


def _rename_back(path: Path) -> None:
    Path(f"{path}.away").rename(path)


def _replace(path: Path) -> None:
    shutil.copy(path, f"{path}.copy")
    Path(f"{path}.copy").replace(path)


def _remove_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def _remove_index(path: Path) -> None:
    Path(f"{path}-shm").unlink()


def _rename_folder(path: Path) -> None:
    path.parent.rename(f"{path.parent}.away")


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4096)


def _cut_log(path: Path) -> None:
    os.truncate(f"{path}-wal", 0)


def _log_bytes(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


def _overwrite_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"garbage " * 16)


def _overwrite_pages(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"garbage " * 512 * (path.stat().st_size // 4096 - 1))


MISSING: dict[str, tuple[Fault, str]] = {
    "unlinked": (_unlink, "db was removed or moved away"),
    "renamed": (_rename, "db was removed or moved away"),
    "replaced": (_replace, "another file was put in the place of"),
    "without its log": (_remove_log, "db-wal was removed or moved away"),
    "without its index": (_remove_index, "db-shm was removed or moved away"),
    "without its folder": (_rename_folder, "db was removed or moved away"),
}
DAMAGED: dict[str, tuple[Fault, str]] = {
    "truncated": (_truncate, "is damaged: .* was cut from"),
    "with its log cut off": (_cut_log, "is damaged: .*-wal was cut from"),
    "with garbage at its beginning": (_overwrite_header, "is damaged: its beginning was over"),
    "with garbage inside": (_overwrite_pages, "is damaged: another program wrote into it, and now"),
}
FAULTS = MISSING | DAMAGED


def _path(folder: Path) -> Path:
    (folder / "data").mkdir()
    return folder / "data" / "store.db"


async def _opened(path: Path) -> SqliteStore:
    """A store with some rows, all of them in the file, and some more in its log."""
    for _ in range(2):
        store = SqliteStore(path=path)
        await store.open()
        await store.commit([Change(events=(make_event(),))])
        if not (path.parent / "settled").exists():
            await store.close()
            (path.parent / "settled").touch()
    return store


async def _commit_often(store: SqliteStore) -> None:
    for _ in range(1000):
        await store.commit([Change(events=(make_event(),))])


def _rows(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM crawler_events").fetchall()
    connection.close()
    return int(count)


@pytest.mark.parametrize("fault", FAULTS)
def test_store_commits_nothing_into_a_file_that_is_gone_or_damaged(
    tmp_path: Path, fault: str
) -> None:
    break_it, message = FAULTS[fault]

    async def scene(path: Path) -> None:
        store = await _opened(path)
        await store.verify()
        break_it(path)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=message):
                await store.commit([Change(events=(make_event(),))])
        with pytest.raises(StoreUnavailable, match=message):
            await store.verify()
        await store.close()

    asyncio.run(scene(_path(tmp_path)))


@pytest.mark.parametrize("fault", [each for each in FAULTS if each != "with garbage inside"])
def test_idle_store_is_found_to_be_gone_or_damaged(tmp_path: Path, fault: str) -> None:
    break_it, message = FAULTS[fault]

    async def scene(path: Path) -> None:
        store = await _opened(path)
        break_it(path)
        with pytest.raises(StoreUnavailable, match=message):
            await store.verify()
        await store.close()

    asyncio.run(scene(_path(tmp_path)))


def _in_wal_mode(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE rows (text)")
    connection.executemany("INSERT INTO rows VALUES (?)", [("x" * 3000,)] * 100)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("INSERT INTO rows VALUES ('')")
    return connection


def test_damage_done_during_a_transaction_is_found(tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    with closing(_in_wal_mode(path)) as connection:
        file = DatabaseFile(path, name="the store", gone="", halved="", damaged="")
        file.begin()
        connection.execute("INSERT INTO rows VALUES ('x')")
        _overwrite_pages(path)
        file.note()
        with pytest.raises(StoreUnavailable, match="another program wrote into it"):
            file.begin()
        file.close()


def test_file_is_not_read_because_of_what_its_own_process_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    monkeypatch.setattr(database_file, "read_whole", lambda path: read.append(path) or "")
    path = tmp_path / "file.db"
    with closing(_in_wal_mode(path)) as connection:
        file = DatabaseFile(path, name="the store", gone="", halved="", damaged="")
        written = set()
        for _ in range(30):
            file.begin()
            connection.executemany("INSERT INTO rows VALUES (?)", [("x" * 3000,)] * 150)
            file.note()
            written.add(path.stat().st_mtime_ns)
        file.check()
        assert len(written) > 3, "the log was moved into the database a few times"
        assert not read
        file.close()


def test_store_goes_on_when_its_file_is_moved_back(tmp_path: Path) -> None:
    async def scene(path: Path) -> None:
        store = await _opened(path)
        _rename(path)
        with pytest.raises(StoreUnavailable):
            await store.commit([Change(events=(make_event(),))])
        _rename_back(path)
        await store.verify()
        await store.commit([Change(events=(make_event(),))])
        await store.close()

    path = _path(tmp_path)
    asyncio.run(scene(path))
    assert _rows(path) == 3


@pytest.mark.parametrize("fault", ["without its log", "without its index"])
def test_store_without_its_log_saves_what_was_committed_when_it_is_closed(
    tmp_path: Path, fault: str
) -> None:
    async def scene(path: Path) -> None:
        store = await _opened(path)
        MISSING[fault][0](path)
        with pytest.raises(StoreUnavailable):
            await store.commit([Change(events=(make_event(),))])
        await store.close()

    path = _path(tmp_path)
    asyncio.run(scene(path))
    assert _rows(path) == 2


def test_store_does_not_begin_anew_where_one_was(tmp_path: Path) -> None:
    async def scene(path: Path) -> None:
        await (await _opened(path)).close()
        _unlink(path)
        with pytest.raises(StoreUnavailable, match="this folder had one"):
            await SqliteStore(path=path).open()

    path = _path(tmp_path)
    asyncio.run(scene(path))
    assert not path.exists()


def test_older_copy_over_an_open_store_is_not_mixed_with_its_log(tmp_path: Path) -> None:
    async def scene(path: Path) -> None:
        store = await _opened(path)
        await store.close()
        shutil.copyfile(path, tmp_path / "copy")
        for _ in range(2):  # settled into the file, so that it is newer than the copy
            store = SqliteStore(path=path)
            await store.open()
            await store.commit([Change(events=(make_event(),) * 500)])
            await store.close()
        store = SqliteStore(path=path)
        await store.open()
        await store.commit([Change(events=(make_event(),))])
        shutil.copyfile(tmp_path / "copy", path)
        with pytest.raises(StoreUnavailable, match="is damaged"):
            await store.commit([Change(events=(make_event(),))])
        await store.close()
        with pytest.raises(StoreUnavailable, match="db-wal belongs to the former"):
            await SqliteStore(path=path).open()
        _remove_log(path)
        store = SqliteStore(path=path)
        await store.open()
        await store.close()

    path = _path(tmp_path)
    asyncio.run(scene(path))
    assert _rows(path) == 2


def test_writing_of_another_program_that_harms_nothing_is_no_damage(tmp_path: Path) -> None:
    async def scene(path: Path) -> None:
        store = await _opened(path)
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE others (one)")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        connection.close()
        os.utime(path)
        await store.commit([Change(events=(make_event(),))])
        await store.verify()
        await store.close()

    path = _path(tmp_path)
    asyncio.run(scene(path))
    assert _rows(path) == 3


@pytest.mark.parametrize("statement", ["PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM"])
def test_log_that_another_program_has_moved_into_the_database_is_not_cut_off(
    tmp_path: Path, statement: str
) -> None:
    async def scene(path: Path) -> None:
        store = await _opened(path)
        for _ in range(2):
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute(statement).fetchall()
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            assert _log_bytes(path) == 0
            await store.verify()
            await store.commit([Change(events=(make_event(),))])
        await store.close()

    path = _path(tmp_path)
    asyncio.run(scene(path))
    assert _rows(path) == 4


@pytest.mark.slow
def test_store_on_a_full_disk_is_not_usable_until_there_is_room(tmp_path: Path) -> None:
    async def scene(path: Path) -> None:
        store = await _opened(path)
        with filled(path.parent):
            with pytest.raises(StoreUnavailable, match="its disk is full; free some space"):
                await store.commit([Change(events=(make_event(),) * 1000)])
            with pytest.raises(StoreUnavailable, match="its disk is full"):
                await _commit_often(store)  # a little may still fit in
            with pytest.raises(StoreUnavailable, match="its disk is full"):
                await store.verify()
        await store.verify()
        await store.commit([Change(events=(make_event(),) * 1000)])
        await store.close()

    path = _path(tmp_path)
    with small_disk(path.parent, megabytes=2):
        asyncio.run(scene(path))


def test_read_only_file_system_is_not_called_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "is_on_read_only", lambda path: True)
    error = sqlite3.OperationalError("disk I/O error")
    told = str(errors.explain(error, tmp_path / "store.db"))
    assert "its file system is read-only; make it writable again" in told
    assert "room" not in told
    assert "space" not in told


@pytest.mark.parametrize("fault", FAULTS)
def test_frontier_commits_nothing_into_a_file_that_is_gone_or_damaged(
    tmp_path: Path, fault: str
) -> None:
    break_it, message = FAULTS[fault]

    async def scene(path: Path) -> None:
        for _ in range(2):  # first into the file, then into its log
            frontier = SqliteFrontier(path=path, rules=FrontierRules())
            await frontier.open()
            seeds = [Link(n, f"http://a.test/{n}", "http://a.test") for n in range(100)]
            await frontier.add(seeds, 1.0)
            if not (path.parent / "settled").exists():
                await frontier.close()
                (path.parent / "settled").touch()
        break_it(path)
        with pytest.raises(StoreUnavailable, match=message):
            await frontier.add(seeds, 2.0)
        with pytest.raises(StoreUnavailable, match=message):
            await frontier.counts()
        try:
            await frontier.close()
        except StoreUnavailable:
            assert fault in DAMAGED

    asyncio.run(scene(_path(tmp_path)))
