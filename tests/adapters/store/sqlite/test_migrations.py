"""Older stores are brought up to date, newer ones are left alone."""

import asyncio
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from crawlfleet.adapters.store.sql.migrations import HEAD, SCRIPTS
from crawlfleet.adapters.store.sqlite.migrate import migrate, prepare
from crawlfleet.adapters.store.sqlite.store import SqliteStore
from crawlfleet.errors import StoreTooNew, StoreUnavailable
from crawlfleet.ports.store import Change
from crawlfleet.testing.store_suite.samples import make_task

NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"


def upgrade() -> None:
    op.add_column("crawler_tasks", sa.Column("mood", sa.Text()))
    op.execute("UPDATE crawler_tasks SET mood = 'fine'")
    {more}
"""


def schema_of(path: Path) -> list[str]:
    """Each table as its sorted parts: a column that was added stands behind the constraints."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        return sorted(" ".join(sorted(_parts(sql))) for (sql,) in rows)


def _parts(sql: str) -> list[str]:
    head, _, rest = re.sub(r"\s+", " ", sql).partition("(")
    body, _, tail = rest.rpartition(")")
    return [re.sub(r"\s+", "", part) for part in (head, tail, *re.split(r",(?![^(]*\))", body))]


def tomorrow(folder: Path, more: str = "") -> Path:
    """The scripts of a program with one more revision than this one."""
    scripts = folder / "migrations %"
    shutil.copytree(SCRIPTS, scripts)
    (scripts / "versions" / "9999_next.py").write_text(NEXT.format(head=HEAD, more=more))
    return scripts


def make_old_store(path: Path) -> None:
    async def fill() -> None:
        store = SqliteStore(path=path)
        await store.open()
        await store.commit([Change(tasks=(make_task(),))])
        await store.close()

    asyncio.run(fill())


def revision_of(path: Path) -> str:
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]


def test_head_is_the_newest_script() -> None:
    assert ScriptDirectory(str(SCRIPTS)).get_current_head() == HEAD


def test_migrated_schema_equals_the_created_one(tmp_path: Path) -> None:
    prepare(tmp_path / "created.db")
    migrate(tmp_path / "migrated.db")
    assert schema_of(tmp_path / "created.db") == schema_of(tmp_path / "migrated.db")
    assert revision_of(tmp_path / "created.db") == revision_of(tmp_path / "migrated.db") == HEAD


def test_preparing_a_present_store_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make_old_store(path)
    before = path.read_bytes()
    prepare(path)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("*.before-*"))


def test_older_store_is_copied_and_then_migrated_with_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make_old_store(path)
    prepare(path, scripts=tomorrow(tmp_path), head="9999")
    assert revision_of(path) == "9999"
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT id, mood FROM crawler_tasks").fetchall() == [
            ("task-0001", "fine")
        ]
    copy = tmp_path / "store.db.before-9999"
    assert revision_of(copy) == HEAD
    with sqlite3.connect(copy) as connection:
        assert connection.execute("SELECT id FROM crawler_tasks").fetchall() == [("task-0001",)]


def test_migration_that_fails_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make_old_store(path)
    before = schema_of(path)
    scripts = tomorrow(tmp_path, more='op.execute("SELECT nonsense")')
    with pytest.raises(StoreUnavailable, match=r"is as it was.*\n*.*nonsense"):
        prepare(path, scripts=scripts, head="9999")
    assert schema_of(path) == before
    assert revision_of(path) == HEAD
    prepare(path)


def test_newer_store_is_refused_with_both_revisions_and_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make_old_store(path)
    prepare(path, scripts=tomorrow(tmp_path), head="9999")
    store = SqliteStore(path=path)
    with pytest.raises(StoreTooNew) as caught:
        asyncio.run(store.open())
    message = str(caught.value)
    assert "9999" in message
    assert HEAD in message
    assert "Install that version again" in message
    assert "store.db.before-9999" in message
    assert revision_of(path) == "9999"


def test_copy_from_before_a_migration_opens_again(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make_old_store(path)
    prepare(path, scripts=tomorrow(tmp_path), head="9999")

    async def read() -> None:
        store = SqliteStore(path=tmp_path / "store.db.before-9999")
        await store.open()
        assert await store.tasks(["task-0001"]) == [make_task()]
        await store.close()

    asyncio.run(read())
