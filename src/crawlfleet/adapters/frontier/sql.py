"""The SQL of a frontier: one connection, used by one thread.

Rows are written many at a time by one statement: the driver gives up the interpreter lock for
each step of a statement and must win it back from a busy event loop.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain
from typing import Any, Final

import msgspec

from crawlfleet.adapters.frontier.host_queue import NEVER, QueuedUrl
from crawlfleet.adapters.frontier.packing import (
    HIGHEST,
    HOST_SHIFT,
    PLACE,
    PLACE_BITS,
    host_range,
)
from crawlfleet.errors import ConfigError
from crawlfleet.model.crawl.frontier import FrontierRules
from crawlfleet.model.own_files import FRONTIER_MARK

MARK: Final = FRONTIER_MARK
"""SQLite's `application_id` of our files."""
VERSION: Final = 2
LARGEST_CHUNK: Final = 256
READ_AT_ONCE: Final = 10_000
PRAGMAS: Final = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "wal_autocheckpoint=2000",
    "journal_size_limit=67108864",
    "cache_size=-8192",
    "temp_store=MEMORY",
)
SCHEMA: Final = f"""
CREATE TABLE urls (
    place INTEGER PRIMARY KEY, id INTEGER NOT NULL, url TEXT NOT NULL, host INTEGER NOT NULL,
    depth INTEGER NOT NULL, hops INTEGER NOT NULL, found_on INTEGER, found_at REAL NOT NULL);
CREATE TABLE queue (key INTEGER PRIMARY KEY);
CREATE TABLE delayed (
    place INTEGER PRIMARY KEY, key INTEGER NOT NULL, host INTEGER NOT NULL, due REAL NOT NULL,
    attempts INTEGER NOT NULL, outcome TEXT NOT NULL, status INTEGER NOT NULL, at REAL NOT NULL,
    note TEXT);
CREATE INDEX delayed_due ON delayed (host, due, place);
CREATE TABLE visits (
    place INTEGER PRIMARY KEY, outcome TEXT NOT NULL, status INTEGER NOT NULL, at REAL NOT NULL,
    attempts INTEGER NOT NULL, counts INTEGER NOT NULL, validator TEXT, note TEXT);
CREATE TABLE earlier (place INTEGER PRIMARY KEY, validator TEXT NOT NULL);
CREATE TABLE links (place INTEGER PRIMARY KEY, ids BLOB, far BLOB, redirect INTEGER);
CREATE TABLE hosts (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, next_at REAL NOT NULL,
    failures INTEGER NOT NULL, state BLOB);
CREATE TABLE receipts (sink TEXT PRIMARY KEY, receipt BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE filter (
    stage INTEGER PRIMARY KEY, capacity INTEGER NOT NULL, held INTEGER NOT NULL,
    bits BLOB NOT NULL);
CREATE TABLE books (
    one INTEGER PRIMARY KEY, life INTEGER NOT NULL, rules BLOB NOT NULL, tally BLOB NOT NULL,
    filtered INTEGER NOT NULL, round INTEGER NOT NULL);
PRAGMA application_id = {MARK};
PRAGMA user_version = {VERSION}
""".split(";")

QUEUED: Final = f"""
SELECT key, place, id, url, depth, hops, 0, NULL FROM queue JOIN urls ON place = key & {PLACE}
WHERE key > ? AND key < ? ORDER BY key LIMIT ?"""
QUEUED_AGAIN: Final = f"""
SELECT key, urls.place, id, url, depth, hops, 0, validator FROM queue
JOIN urls ON urls.place = key & {PLACE} LEFT JOIN earlier ON earlier.place = urls.place
WHERE key > ? AND key < ? ORDER BY key LIMIT ?"""
DUE: Final = """
SELECT key, place, id, url, depth, hops, attempts, validator, due
FROM delayed JOIN urls USING (place) LEFT JOIN earlier USING (place)
WHERE delayed.host = ? AND due <= ? AND (due, place) > (?, ?) ORDER BY due, place LIMIT ?"""
NEXT_DUE: Final = "SELECT min(due) FROM delayed WHERE host = ? AND (due, place) > (?, ?)"
WAITING: Final = f"""
SELECT key, urls.place, id, url, depth, hops, 0, validator FROM queue
JOIN urls ON urls.place = key & {PLACE} LEFT JOIN earlier ON earlier.place = urls.place
WHERE key >= ? AND key < ? AND id IN (SELECT value FROM json_each(?))
UNION ALL SELECT key, place, id, url, depth, hops, attempts, validator
FROM delayed JOIN urls USING (place) LEFT JOIN earlier USING (place)
WHERE delayed.host = ? AND id IN (SELECT value FROM json_each(?))"""
UNQUEUE: Final = "DELETE FROM queue WHERE key IN (SELECT value FROM json_each(?))"
REMOVE_DELAYED: Final = "DELETE FROM delayed WHERE place IN (SELECT value FROM json_each(?))"
REVISIT: Final = (
    "DELETE FROM earlier WHERE place IN (SELECT place FROM visits)",
    "INSERT INTO earlier SELECT place, validator FROM visits WHERE validator IS NOT NULL",
    (
        f"INSERT INTO queue SELECT host << {HOST_SHIFT} | {HIGHEST << PLACE_BITS} | place "
        "FROM visits JOIN urls USING (place) ORDER BY 1"
    ),
    "DELETE FROM visits",
)
RECORD: Final = """
SELECT u.url, h.name, u.depth, u.found_at, p.url, d.due, coalesce(v.attempts, d.attempts),
    coalesce(v.outcome, d.outcome), coalesce(v.status, d.status), coalesce(v.at, d.at),
    coalesce(v.note, d.note), v.place IS NOT NULL
FROM urls u JOIN hosts h ON h.number = u.host LEFT JOIN urls p ON p.place = u.found_on
LEFT JOIN visits v ON v.place = u.place LEFT JOIN delayed d ON d.place = u.place
"""

Row = Sequence[Any]


class Tables:
    """Reads and writes rows; decides nothing."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._queued = QUEUED
        self.execute = connection.execute
        self.name = ""
        """Name of the file in messages."""

    def prepare(self, rules: FrontierRules, name: str) -> None:
        """Create the tables, or check that existing ones fit these rules.

        Raises `ConfigError`; `name` is the name of the file in messages.
        """
        self.name = name
        (mark,) = self.execute("PRAGMA application_id").fetchone()
        (version,) = self.execute("PRAGMA user_version").fetchone()
        if not self.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            with self.transaction():
                for statement in SCHEMA:
                    self.execute(statement)
                values = (msgspec.json.encode(rules), b"{}")
                self.execute("INSERT INTO books VALUES (1, 0, ?, ?, 0, 1)", values)
        elif mark != MARK or version != VERSION:
            raise ConfigError(
                f"{name} is not a frontier of this version of crawlfleet; name another file, or "
                "go on with the version that wrote it"
            )
        else:
            (stored,) = self.execute("SELECT rules FROM books").fetchone()
            _check_rules(stored, rules, name)

    def begin_life(self) -> tuple[int, bytes, int, int]:
        """The number of this life of the frontier, the tally, which URLs the saved filter has,
        and the round."""
        with self.transaction():
            self.execute("UPDATE books SET life = life + 1")
        row: tuple[int, bytes, int, int] = self.execute(
            "SELECT life, tally, filtered, round FROM books"
        ).fetchone()
        self._queued = QUEUED if row[3] == 1 else QUEUED_AGAIN
        return row

    def begin_round(self, round: int, tally: bytes) -> None:
        """Queue all visited URLs again, in the order of discovery."""
        with self.transaction():
            for statement in REVISIT:
                self.execute(statement)
            self.execute("UPDATE books SET round = ?, tally = ?", (round, tally))
        self._queued = QUEUED_AGAIN

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all writes inside the block durable at its end, or none of them."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.rollback()
            raise

    def put(self, table: str, rows: Sequence[Row]) -> None:
        """Insert whole rows, or replace those with the same key."""
        start = 0
        while start < len(rows):
            size = min(LARGEST_CHUNK, 1 << ((len(rows) - start).bit_length() - 1))
            values = list(chain.from_iterable(rows[start : start + size]))
            self.execute(_insert(table, len(rows[0]), size), values)
            start += size

    def queue(self, keys: Sequence[int]) -> None:
        if keys:
            self.execute("INSERT INTO queue SELECT value FROM json_each(?)", (_listed(keys),))

    def unqueue(self, keys: Sequence[int]) -> None:
        if keys:
            self.execute(UNQUEUE, (_listed(keys),))

    def remove_delayed(self, places: Sequence[int]) -> None:
        if places:
            self.execute(REMOVE_DELAYED, (_listed(places),))

    def set_tally(self, tally: bytes) -> None:
        self.execute("UPDATE books SET tally = ?", (tally,))

    def lower(self, depths: Sequence[tuple[int, int]]) -> None:
        """Set depths; pairs of depth and place."""
        self._connection.executemany("UPDATE urls SET depth = ? WHERE place = ?", depths)

    def queued(self, host: int, after: int, limit: int) -> list[QueuedUrl]:
        """The next of the host's queue behind the key `after`."""
        first, end = host_range(host)
        return list(
            map(QueuedUrl._make, self.execute(self._queued, (max(after, first - 1), end, limit)))
        )

    def due(
        self, host: int, now: float, after: tuple[float, int], limit: int
    ) -> list[tuple[QueuedUrl, float]]:
        """Return the next delayed URLs of the host that are due, with their due times."""
        rows = self.execute(DUE, (host, now, *after, limit)).fetchall()
        return [(QueuedUrl._make(row[:8]), row[8]) for row in rows]

    def waiting(self, host: int, ids: Iterable[int]) -> list[QueuedUrl]:
        """Return the host's queued or delayed URLs among `ids`; reads all of its queue."""
        listed = _listed(ids)
        values = (*host_range(host), listed, host, listed)
        return list(map(QueuedUrl._make, self.execute(WAITING, values)))

    def next_due(self, host: int, after: tuple[float, int]) -> float:
        """Return when the first delayed URL behind `after` is due; `NEVER` when there is none."""
        (found,) = self.execute(NEXT_DUE, (host, *after)).fetchone()
        return NEVER if found is None else float(found)

    def links(self, place: int) -> tuple[bytes | None, bytes | None, int | None] | None:
        """The stored links of a page that was visited, if any were."""
        found: tuple[bytes | None, bytes | None, int | None] | None = self.execute(
            "SELECT ids, far, redirect FROM links WHERE place = ?", (place,)
        ).fetchone()
        return found

    def host_state(self, number: int) -> bytes | None:
        found: bytes | None = self.execute(
            "SELECT state FROM hosts WHERE number = ?", (number,)
        ).fetchone()[0]
        return found

    def record(self, *, place: int | None = None, id: int = 0) -> Row | None:
        """Return a URL's record by place, or by id, which reads all rows; `None` if unknown."""
        where, value = ("u.id = ?", id) if place is None else ("u.place = ?", place)
        found: Row | None = self.execute(f"{RECORD} WHERE {where}", (value,)).fetchone()
        return found

    def places(self, ids: Iterable[int]) -> Iterator[tuple[int, int]]:
        """id and place of those that are there; looks at all rows once."""
        yield from self.execute(
            "SELECT id, place FROM urls WHERE id IN (SELECT value FROM json_each(?))",
            (_listed(ids),),
        )

    def hosts(self) -> Iterable[tuple[int, str, float, int]]:
        return self.execute("SELECT number, name, next_at, failures FROM hosts ORDER BY number")

    def known(self) -> Iterator[Sequence[tuple[int, ...]]]:
        """Yield the ids, packed values and hosts of all URLs, in large portions."""
        cursor = self.execute(f"SELECT id, depth << {PLACE_BITS} | place, host FROM urls")
        while rows := cursor.fetchmany(READ_AT_ONCE):
            yield list(zip(*rows, strict=True))

    def ids_after(self, place: int) -> Iterable[tuple[int]]:
        return self.execute("SELECT id FROM urls WHERE place > ?", (place,))

    def last_place(self) -> int:
        return int(self.execute("SELECT coalesce(max(place), 0) FROM urls").fetchone()[0])

    def url_counts(self) -> Mapping[int, int]:
        """Return the number of URLs by host. Counted here: SQLite would sort all rows first."""
        return Counter(host for (host,) in self.execute("SELECT host FROM urls"))

    def queue_length(self, host: int) -> int:
        """Host by host, since SQLite would sort all rows for a `GROUP BY`."""
        count = "SELECT count(*) FROM queue WHERE key >= ? AND key < ?"
        return int(self.execute(count, host_range(host)).fetchone()[0])

    def delayed_lengths(self) -> Iterable[tuple[int, int, float]]:
        return self.execute("SELECT host, count(*), min(due) FROM delayed GROUP BY host")

    def receipts(self) -> Iterable[tuple[str, bytes]]:
        return self.execute("SELECT sink, receipt FROM receipts")

    def stages(self) -> Iterable[tuple[int, int, bytes]]:
        return self.execute("SELECT capacity, held, bits FROM filter ORDER BY stage")

    def save_stages(self, upto: int, stages: Sequence[tuple[int, int, bytes]]) -> None:
        """Keep a filter that has all URLs up to a place."""
        with self.transaction():
            self.put("filter", [(number, *stage) for number, stage in enumerate(stages)])
            self.execute("UPDATE books SET filtered = ?", (upto,))


def _check_rules(stored: bytes, rules: FrontierRules, name: str) -> None:
    before = msgspec.json.decode(stored, type=FrontierRules)
    for field in ("max_depth", "dedup"):
        was, now = getattr(before, field), getattr(rules, field)
        if was != now:
            raise ConfigError(
                f"the crawl in {name} was begun with {field}={was!r} and cannot go on with "
                f"{now!r}: go on with {was!r}, or begin a new crawl in another file"
            )


def _listed(numbers: Iterable[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"


@cache
def _insert(table: str, columns: int, rows: int) -> str:
    row = f"({','.join('?' * columns)})"
    return f"INSERT OR REPLACE INTO {table} VALUES {','.join([row] * rows)}"
