"""Chooses the sink of a table by its URL, and loads the driver only when it is needed."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode

from crawlfleet.adapters.sinks.tables.sink import CRAWLS, LONGEST_NAME, read_receipt, shown
from crawlfleet.adapters.sinks.tables.view import VIEWED
from crawlfleet.errors import FieldProblem, InvalidRequest, PluginError
from crawlfleet.model.crawl.parameters import NodeSink, SinkSpec
from crawlfleet.ports.sink import Sink

DEFAULT_TABLE: Final = "items"


def from_spec(spec: SinkSpec) -> Sink:
    """The sink of a crawl's specification; raises `InvalidRequest` when it names no table."""
    url, table = table_of(spec.url)
    if url.startswith("sqlite://"):
        from crawlfleet.adapters.sinks.tables.sqlite import SqliteTable

        path = unquote(url.removeprefix("sqlite://"))
        if not path.startswith("/") or path == "/":
            raise _wrong(spec.url, "names no file", "use sqlite:/// and the path of the file")
        below = Path(spec.folder) if isinstance(spec, NodeSink) else None
        return SqliteTable(path.removeprefix("/"), table, fields=spec.columns, below=below)
    try:
        from crawlfleet.adapters.sinks.tables.postgres import PostgresTable
    except ImportError as error:
        raise PluginError(
            "output to PostgreSQL needs a driver: pip install 'crawlfleet[postgres]'"
        ) from error
    if not isinstance(spec, NodeSink):
        return PostgresTable(url, table, fields=spec.columns)
    if spec.address is None:
        raise _wrong(spec.url, "names no database", "use postgresql://user@host:5432/database")
    from crawlfleet.adapters.sinks.tables.guarded_postgres import GuardedPostgres

    guarded = GuardedPostgres(spec.address, allow_private=spec.allow_private)
    return PostgresTable(url, table, fields=spec.columns, connect=guarded.connect)


async def discard(spec: SinkSpec, receipt: Any) -> None:
    """Remove the crawl that a receipt speaks of from its table; nothing when it is not there."""
    sink: Any = from_spec(spec)
    url, table = table_of(spec.url)
    await sink.discard(read_receipt(receipt, table, shown(url)).crawl)


def table_of(url: str) -> tuple[str, str]:
    """The URL of a database without `?table=`, and the name of the table."""
    place, _, query = url.partition("?")
    parameters = parse_qsl(query, keep_blank_values=True)
    table = dict(parameters).get("table", DEFAULT_TABLE)
    if not table or "\0" in table or len(table.encode()) > LONGEST_NAME:
        remedy = f"use ?table= with a name of 1 to {LONGEST_NAME} bytes"
        raise _wrong(url, f"has {table!r} as its table", remedy)
    if table.lower() in {CRAWLS, VIEWED} or table.lower().startswith("sqlite_"):
        raise _wrong(url, f"names the table {table}, which has another use", "name another table")
    rest = urlencode([(name, value) for name, value in parameters if name != "table"], safe="/")
    return f"{place}?{rest}" if rest else place, table


def _wrong(url: str, message: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(
        [FieldProblem(field="output", message=message, remedy=remedy, value=shown(url))]
    )
