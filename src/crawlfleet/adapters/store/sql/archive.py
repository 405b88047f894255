"""The common part of both SQL stores for reading or replacing all rows."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from sqlalchemy import Dialect, Table, select

from crawlfleet.adapters.store.sql import schema
from crawlfleet.errors import BackupUnusable, Conflict
from crawlfleet.model.node import NodeStatus
from crawlfleet.ports.kernel_tables import CLUSTERS, PROJECTS
from crawlfleet.ports.store_archive import RESTORED_STORE, Portion

PORTION: Final = 1000
TABLES: Final[dict[str, Table]] = {
    str(table.name): table for table in schema.metadata.sorted_tables
}
CAUSE: Final = "the store was restored from a backup"
MADE_BY_ITSELF: Final = {schema.leadership.name, schema.cursors.name}
"""Tables that have rows in a store that nobody has used."""
_DEFAULTS: Final = {PROJECTS.name, CLUSTERS.name}

SESSIONS, NODES, EVENTS = schema.sessions.name, schema.nodes.name, schema.events.name
END_SESSIONS: Final = (
    f"UPDATE {SESSIONS} SET ended_at = {{now!r}}, end_cause = '{CAUSE}', version = version + 1 "
    "WHERE ended_at IS NULL"
)
CONNECTED: Final = f"'{NodeStatus.ONLINE}', '{NodeStatus.DRAINING}'"
CONNECTED_NODES: Final = f"SELECT id, status FROM {NODES} WHERE status IN ({CONNECTED}) ORDER BY id"
PART_NODES: Final = (
    f"UPDATE {NODES} SET status = CASE WHEN status IN ({CONNECTED}) "
    f"THEN '{NodeStatus.UNRESPONSIVE}' ELSE status END, session_id = NULL, "
    "updated_at = {now!r}, version = version + 1 WHERE session_id IS NOT NULL OR "
    f"status IN ({CONNECTED})"
)
"""A node in maintenance stays so: it comes back into it."""
EPOCH: Final = f"SELECT coalesce(max(epoch), 0) FROM {schema.leadership.name}"
RAISE_EPOCH: Final = f"UPDATE {schema.leadership.name} SET epoch = {{epoch}}, leader = 'restored'"
LAST_SEQ: Final = (
    f"SELECT coalesce(max(seq), 0) FROM (SELECT seq FROM {EVENTS} UNION ALL "
    f"SELECT removed_seq FROM {schema.leadership.name}) AS numbers"
)


def reading(dialect: Dialect) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield the name of each table, its columns, and the statement that reads them."""
    for name, table in TABLES.items():
        columns = tuple(str(column.name) for column in table.columns)
        yield name, columns, str(select(table).compile(dialect=dialect))


def presence(name: str) -> str:
    """Return a statement that finds a row of the table, other than those of a new store."""
    made = "WHERE id <> 'default' OR version > 1 " if name in _DEFAULTS else ""
    return f"SELECT 1 FROM {name} {made}LIMIT 1"


def used_tables() -> Iterator[str]:
    """Yield the tables that must be empty, unless they are to be replaced."""
    return (name for name in TABLES if name not in MADE_BY_ITSELF)


def not_empty(where: str, tables: Iterable[str]) -> Conflict:
    """The error for a store that has been used."""
    return Conflict(
        f"the store {where} is not empty ({', '.join(tables)} have rows); restore into a new one, "
        "or replace all that is in it with --force"
    )


def check_portion(portion: Portion) -> Portion:
    """The portion, if this schema has a place for it."""
    table = TABLES.get(portion.table)
    known = {column.name for column in table.columns} if table is not None else set()
    unknown = [name for name in portion.columns if name not in known]
    if table is None or unknown:
        raise BackupUnusable(
            f"the backup has {portion.table} with {', '.join(unknown) or 'no columns'}, which this "
            "program does not know; install the version that wrote it, or a newer one"
        )
    return portion


def event_rows(
    nodes: Iterable[tuple[str, str]], last_seq: int, now: float
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the events that record a restore."""
    changed: list[tuple[str, str, str | None, str | None]] = [
        ("store.restored", RESTORED_STORE, None, None)
    ]
    changed += [
        (f"node.{NodeStatus.UNRESPONSIVE}", id, status, str(NodeStatus.UNRESPONSIVE))
        for id, status in nodes
    ]
    for seq, (kind, subject, before, after) in enumerate(changed, start=last_seq + 1):
        yield {
            "seq": seq,
            "kind": kind,
            "subject": subject,
            "at": now,
            "cause": CAUSE,
            "from_state": before,
            "to_state": after,
            "details": None,
            "project_id": None,
        }
