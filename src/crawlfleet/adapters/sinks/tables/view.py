"""The view beside a table of items, which has a column for each field.

The names of fields come from people and from pages: they are quoted, cut to what a database takes
as a name, and told apart where only their case differs. A column that is there stays as it is, and
new fields come after it, so that what reads the view goes on working.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from crawlfleet.errors import SinkUnusable
from crawlfleet.model.crawl.extraction import PAGE_URL
from crawlfleet.ports.sink import PageRecord

VIEWED: Final = "crawlfleet_columns"
"""Name of the table that maps the columns of a view to fields."""
MAX_COLUMNS: Final = 1_000
"""Databases take no view of many more; further fields are in the table alone."""
LONGEST_FIELD: Final = 150
"""Characters of the name of a field that gets a column."""
LONGEST_NAME: Final = 63
"""Bytes of the name of a column, or of a view."""
OWN: Final = ("item_kind", "crawl_id", "visited_at")
"""After the address of the page and before the fields: what else is known of each item."""


class Column(NamedTuple):
    """A column of a view, which shows one field."""

    field: str
    name: str


def view_of(table: str) -> str:
    """Return the name of a table's view."""
    name = f"{table}_fields"
    return name if len(name.encode()) <= LONGEST_NAME else f"fields_{_number_of(table)}"


def with_fields(known: Sequence[Column], fields: Iterable[str]) -> list[Column]:
    """The columns that are known, and one for each further field, as far as there is room. The
    first one is always that of the page's address."""
    columns = [*known] or [Column(PAGE_URL, PAGE_URL)]
    shown = {column.field for column in columns}
    taken = {*OWN, *(column.name.lower() for column in columns)}
    for field in fields:
        if len(columns) >= MAX_COLUMNS:
            break
        if field in shown or len(field) > LONGEST_FIELD or "\0" in field:
            continue
        name = _free(field, taken)
        shown.add(field)
        taken.add(name.lower())
        columns.append(Column(field, name))
    return columns


def fields_in(pages: Sequence[PageRecord]) -> dict[str, None]:
    """The names of all fields of all items, in order."""
    return {name: None for page in pages for item in page.items for name in item.fields}


def quoted(name: str) -> str:
    """Return a name as an SQL identifier, quoted."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text without NUL as an SQL string, quoted."""
    return "'" + text.replace("'", "''") + "'"


def sqlite_view(table: str, columns: Sequence[Column]) -> str:
    """The statement that creates the view in SQLite."""
    moment = "strftime('%Y-%m-%dT%H:%M:%SZ', \"at\", 'unixepoch')"
    return _statement("CREATE VIEW", table, moment, columns, _in_sqlite)


def postgres_view(table: str, columns: Sequence[Column]) -> str:
    """The statement that creates the view in PostgreSQL, or puts further columns after its own."""
    return _statement("CREATE OR REPLACE VIEW", table, 'to_timestamp("at")', columns, _in_postgres)


def taken_name(place: str, table: str) -> SinkUnusable:
    """Return the error for a view name that something else has."""
    return SinkUnusable(
        f"{place} has a {view_of(table)} that is not the view of the table {table}; rename it, or "
        "name another table by ?table="
    )


def _statement(
    begins: str, table: str, moment: str, columns: Sequence[Column], read: Callable[[str], str]
) -> str:
    known = zip(('"url"', '"kind"', '"crawl"', moment), (PAGE_URL, *OWN), strict=True)
    parts = [f"{expression} AS {quoted(name)}" for expression, name in known]
    parts += [f"{read(column.field)} AS {quoted(column.name)}" for column in columns[1:]]
    return f"{begins} {quoted(view_of(table))} AS SELECT {', '.join(parts)} FROM {quoted(table)}"


def _in_sqlite(field: str) -> str:
    # A path cannot spell these; looking through all fields takes longer.
    if any(char in '"\\' or char < " " for char in field):
        return f'(SELECT value FROM json_each("fields") WHERE key = {literal(field)})'
    path = f'$."{field}"'
    return f'json_extract("fields", {literal(path)})'


def _in_postgres(field: str) -> str:
    return f'"fields" ->> {literal(field)}'


def _free(field: str, taken: set[str]) -> str:
    """Return a name for a field's column that no other column has, in any case."""
    for number in range(1, len(taken) + 2):
        ending = "" if number == 1 else f"_{number}"
        name = _cut(field or "field", LONGEST_NAME - len(ending)) + ending
        if name.lower() not in taken:
            break
    return name


def _cut(text: str, most: int) -> str:
    """The beginning of a text, of so many bytes at most."""
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def _number_of(table: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, table)
