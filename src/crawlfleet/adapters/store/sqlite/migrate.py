"""Creates the schema in a file, or brings the one that is there up to date.

A new file gets the present schema at once; an older one is copied aside and then migrated step
by step, in one transaction; one that a newer program wrote is left alone.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from sqlalchemy.dialects import sqlite

from crawlfleet.adapters.store.sql import migrations
from crawlfleet.adapters.store.sql.migrations import HEAD, SCRIPTS
from crawlfleet.errors import ConfigError, StoreTooNew, StoreUnavailable

VERSION_TABLE: Final = "alembic_version"


def prepare(path: Path, *, scripts: Path = SCRIPTS, head: str = HEAD) -> None:
    """Create the schema in `path`, or migrate an existing one. Raises `StoreTooNew`, `ConfigError`
    for a file of another program, `StoreUnavailable` when a migration fails, or sqlite3's own
    errors.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        found = find_revision(connection, path)
        if found is None:
            _create(connection, head)
        elif found != head:
            refuse_unknown(path, found, scripts, head)
            _copy_aside(connection, path.with_name(f"{path.name}.before-{head}"))
    if found not in (None, head):
        migrate(path, scripts=scripts, head=head)


def find_revision(connection: sqlite3.Connection, path: Path) -> str | None:
    """The revision of the store, or `None` when the file is new."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if not tables:
        return None
    row = None
    if VERSION_TABLE in tables:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    if row is None:
        raise ConfigError(
            f"{path} is a database of another program, not a crawlfleet store; "
            "name another file in the setting `store`"
        )
    return str(row[0])


def _create(connection: sqlite3.Connection, head: str) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("BEGIN IMMEDIATE")
    for statement in migrations.creation(sqlite.dialect(), VERSION_TABLE, head):
        connection.execute(statement)
    connection.execute("COMMIT")


def _copy_aside(connection: sqlite3.Connection, copy: Path) -> None:
    """A whole copy, or none: it gets its name when it is complete."""
    partial = copy.with_name(f"{copy.name}.partial")
    partial.unlink(missing_ok=True)
    connection.execute("VACUUM INTO ?", (str(partial),))
    partial.replace(copy)


def refuse_unknown(path: Path, found: str, scripts: Path, head: str) -> None:
    """Raise `StoreTooNew` for a revision that no script leads to."""
    if not migrations.is_known(found, scripts):
        raise StoreTooNew(
            f"the store {path} has the schema revision {found}, this program knows revisions up "
            f"to {head}: a newer crawlfleet wrote it. Install that version again, or go back to a "
            f"copy from before its migration ({path.name}.before-{found}, if it is there)"
        )


def migrate(path: Path, *, scripts: Path = SCRIPTS, head: str = HEAD) -> None:
    """Run the steps that an older store lacks; all of them, or none."""
    from alembic import command  # costs 0.2 s, and almost no start needs it
    from sqlalchemy import NullPool, create_engine, event
    from sqlalchemy.exc import SQLAlchemyError

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(path, isolation_level=None)

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
    # The driver would begin a transaction only before the first row, and not for the schema.
    event.listen(engine, "begin", lambda opened: opened.exec_driver_sql("BEGIN IMMEDIATE"))
    config = migrations.alembic_config(scripts, VERSION_TABLE)
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, head)
    except SQLAlchemyError as error:
        raise StoreUnavailable(
            f"the store {path} could not be migrated to the revision {head} and is as it was: "
            f"{error}. Go on with the version that wrote it, and report this"
        ) from error
