"""Migrations: brings a store's schema to what this program knows, created whole or step by step.

To change the schema: edit `schema.py` or the declaration of a `Table`, add `versions/NNNN_what.py`
that makes the same change to an existing store, and set `HEAD`. The tests compare both ways, for
each database. A step is also turned into SQL text beforehand, for PostgreSQL: it writes SQL and
reads nothing. Masters of the version before may still be at work on the same PostgreSQL, so that a
step only adds.
"""

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from crawlfleet.adapters.store.sql.schema import metadata

if TYPE_CHECKING:
    from alembic.config import Config

HEAD: Final = "0001"
SCRIPTS: Final = Path(__file__).parent


def creation(dialect: Dialect, version_table: str, head: str) -> Iterator[str]:
    """The statements that make the present schema in an empty store."""
    for table in metadata.sorted_tables:
        yield str(CreateTable(table).compile(dialect=dialect))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            yield str(CreateIndex(index).compile(dialect=dialect))
    # As Alembic itself makes it.
    yield (
        f"CREATE TABLE {version_table} (version_num VARCHAR(32) NOT NULL, "
        f"CONSTRAINT {version_table}_pkc PRIMARY KEY (version_num))"
    )
    yield f"INSERT INTO {version_table} VALUES ('{head}')"  # noqa: S608 (our own names)


def is_known(revision: str, scripts: Path) -> bool:
    """Return whether there is a script for the revision."""
    from alembic.script import ScriptDirectory  # costs 0.2 s, and almost no start needs it

    directory = ScriptDirectory(str(scripts))
    return any(script.revision == revision for script in directory.walk_revisions())


def alembic_config(scripts: Path, version_table: str) -> "Config":
    """Return the configuration for `migrations/env.py`."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.attributes["version_table"] = version_table
    return config


def as_sql(
    dialect_name: str, version_table: str, *, found: str | None, scripts: Path, head: str
) -> str:
    """The steps from the revision `found` to `head` as SQL text, without a transaction."""
    from alembic import command

    config = alembic_config(scripts, version_table)
    config.attributes["dialect_name"] = dialect_name
    config.output_buffer = text = StringIO()
    command.upgrade(config, f"{found}:{head}" if found else head, sql=True)
    return text.getvalue()
