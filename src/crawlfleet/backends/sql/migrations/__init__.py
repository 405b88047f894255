"""Brings a store's schema to the revision that this program knows.

A new file gets the present schema at once; an older one is copied aside and then migrated step
by step, in one transaction; one that a newer program wrote is left alone.

To change the schema: edit `schema.py`, add `versions/NNNN_what.py` that makes the same change
to an existing store, and set `HEAD`. The tests compare both ways.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from crawlfleet.backends.sql.schema import metadata
from crawlfleet.errors import ConfigError, StoreTooNew, StoreUnavailable

HEAD: Final = "0001"
SCRIPTS: Final = Path(__file__).parent
VERSION_TABLE: Final = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
"""As Alembic itself makes it."""


def prepare(path: Path, *, scripts: Path = SCRIPTS, head: str = HEAD) -> None:
    """Create the schema in `path`, or migrate what is there.

    Raises `StoreTooNew`, `ConfigError` for a file of somebody else, `StoreUnavailable` when a
    migration fails, or sqlite3's own errors.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        found = _find_revision(connection, path)
        if found is None:
            _create(connection, head)
        elif found != head:
            _refuse_unknown(path, found, scripts, head)
            _copy_aside(connection, path.with_name(f"{path.name}.before-{head}"))
    if found not in (None, head):
        _migrate(path, scripts, head)


def _find_revision(connection: sqlite3.Connection, path: Path) -> str | None:
    """The revision of the store, or `None` when the file is new."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if not tables:
        return None
    row = None
    if "alembic_version" in tables:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    if row is None:
        raise ConfigError(
            f"{path} is a database of another program, not a crawlfleet store; "
            "name another file in the setting `store`"
        )
    return str(row[0])


def _create(connection: sqlite3.Connection, head: str) -> None:
    dialect = sqlite.dialect()
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("BEGIN IMMEDIATE")
    for table in metadata.sorted_tables:
        connection.execute(str(CreateTable(table).compile(dialect=dialect)))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            connection.execute(str(CreateIndex(index).compile(dialect=dialect)))
    connection.execute(VERSION_TABLE)
    connection.execute("INSERT INTO alembic_version VALUES (?)", (head,))
    connection.execute("COMMIT")


def _copy_aside(connection: sqlite3.Connection, copy: Path) -> None:
    """A whole copy, or none: it gets its name when it is complete."""
    partial = copy.with_name(f"{copy.name}.partial")
    partial.unlink(missing_ok=True)
    connection.execute("VACUUM INTO ?", (str(partial),))
    partial.replace(copy)


def _refuse_unknown(path: Path, found: str, scripts: Path, head: str) -> None:
    from alembic.script import ScriptDirectory  # costs 0.2 s, and almost no start needs it

    known = {script.revision for script in ScriptDirectory(str(scripts)).walk_revisions()}
    if found not in known:
        raise StoreTooNew(
            f"the store {path} has the schema revision {found}, this program knows revisions up "
            f"to {head}: a newer crawlfleet wrote it. Install that version again, or go back to a "
            f"copy from before its migration ({path.name}.before-{found}, if it is there)"
        )


def _migrate(path: Path, scripts: Path, head: str) -> None:
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import NullPool, create_engine, event
    from sqlalchemy.exc import SQLAlchemyError

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(path, isolation_level=None)

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
    # The driver would begin a transaction only before the first row, and not for the schema.
    event.listen(engine, "begin", lambda opened: opened.exec_driver_sql("BEGIN IMMEDIATE"))
    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, head)
    except SQLAlchemyError as error:
        raise StoreUnavailable(
            f"the store {path} could not be migrated to the revision {head} and is as it was: "
            f"{error}. Go on with the version that wrote it, and report this"
        ) from error
