"""The checkpoint of a crawl on Redis: an SQLite file of the master.

It holds what Redis holds, folded: the last word on each URL. Steps come in as they were committed
and count by whole ones, so that the file is always a state in which the crawl has been, a little
earlier; URLs that were leased then wait.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import msgspec

from crawlfleet.adapters.frontier.redis import journal
from crawlfleet.adapters.frontier.redis.receipts import Numbers
from crawlfleet.adapters.frontier.redis.records import SEED, StoredUrl, id_of, read
from crawlfleet.errors import ConfigError, StoreUnavailable
from crawlfleet.model.crawl.frontier import UrlRecord
from crawlfleet.model.crawl.frontier_place import FrontierPlace
from crawlfleet.ports.frontier.host import Handed, Portion, Taken
from crawlfleet.private_file import InUse, hold

T = TypeVar("T")
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS place (one INTEGER PRIMARY KEY, place BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS taken (
    partition INTEGER PRIMARY KEY, steps INTEGER NOT NULL, version INTEGER NOT NULL,
    messages INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS waiting (
    partition INTEGER, number INTEGER, step BLOB NOT NULL, PRIMARY KEY (partition, number));
CREATE TABLE IF NOT EXISTS writers (writer TEXT PRIMARY KEY, number INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS urls (
    id INTEGER PRIMARY KEY, partition INTEGER NOT NULL, place INTEGER NOT NULL,
    record BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS hosts (
    partition INTEGER, number INTEGER, name TEXT NOT NULL, PRIMARY KEY (partition, number))
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (name TEXT PRIMARY KEY, state BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS links (
    partition INTEGER NOT NULL, id INTEGER PRIMARY KEY, links BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS receipts (
    partition INTEGER, sink TEXT, receipt BLOB NOT NULL, PRIMARY KEY (partition, sink))
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS numbers (
    partition INTEGER, name TEXT, value TEXT NOT NULL, PRIMARY KEY (partition, name))
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS messages (
    partition INTEGER, number INTEGER, message BLOB NOT NULL, PRIMARY KEY (partition, number));
"""
FORMAT: Final = 1
PLACE: Final = slice(7, 12)
"""Slice of a record with its place in the order of discovery, in little-endian bytes."""

_encode: Final = msgspec.json.encode
_place: Final = msgspec.json.Decoder(FrontierPlace)


class CheckpointFile:
    """Implements `crawlfleet.ports.frontier.host.Checkpoint`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lane = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._connection: sqlite3.Connection | None = None
        self._lock: BinaryIO | None = None
        self.place: FrontierPlace | None = None

    async def open(self) -> None:
        if self._connection is not None:
            return
        self._lane = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        try:
            await self._do(self._open)
        except InUse as error:
            raise StoreUnavailable(
                "another master has the checkpoint of this crawl; ask that one"
            ) from error

    async def close(self) -> None:
        if self._connection is not None:
            await self._do(self._close)
            self._lane.shutdown(wait=False)

    async def put(self, place: FrontierPlace) -> None:
        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO place VALUES (1, ?)", (_encode(place),))
            if self.place is None or place.epoch != self.place.epoch:
                _count_anew(db)

        await self._write(write)
        self.place = place

    async def taken(self, partition: int) -> Taken:
        found = await self._all("SELECT steps, version FROM taken WHERE partition = ?", partition)
        return Taken(*found[0]) if found else Taken(0, 0)

    async def versions(self) -> Sequence[int]:
        found = await self._all("SELECT partition, version FROM taken ORDER BY partition")
        versions = dict(found)
        count = max(versions, default=-1) + 1
        return [int(versions.get(partition, 0)) for partition in range(count)]

    async def take(self, portion: Portion) -> None:
        def write(db: sqlite3.Connection) -> None:
            partition, first, some, version, states = portion
            rows = [(partition, first + at, step) for at, step in enumerate(some, 1)]
            db.executemany("INSERT OR IGNORE INTO waiting VALUES (?, ?, ?)", rows)
            db.execute(
                "INSERT INTO taken (partition, steps, version) VALUES (?1, ?2, ?3) ON CONFLICT DO "
                "UPDATE SET steps = max(steps, ?2), version = max(version, ?3)",
                (partition, first + len(some), version),
            )
            db.executemany("INSERT OR REPLACE INTO states VALUES (?, ?)", states.items())

        await self._write(write)

    async def settle(self, handed: Mapping[int, Handed]) -> None:
        await self._write(lambda db: _settle(db, handed))

    async def receipts(self) -> Mapping[str, Any]:
        rows = await self._all("SELECT sink, receipt FROM receipts")
        return Numbers().load(rows)

    async def record(self, id: int) -> UrlRecord | None:
        return await self._do(lambda: _record(self._opened(), id))

    async def all_of(self, sql: str, *values: int) -> list[Any]:
        """Return rows of the file, to restore a frontier from it."""
        return await self._all(sql, *values)

    async def write(self, sql: str, *values: object) -> None:
        await self._write(lambda db: db.execute(sql, values))

    async def _all(self, sql: str, *values: int) -> list[Any]:
        found: list[Any] = await self._do(lambda: self._opened().execute(sql, values).fetchall())
        return found

    async def _write(self, change: Callable[[sqlite3.Connection], object]) -> None:
        def step() -> None:
            with _transaction(self._opened()) as db:
                change(db)

        await self._do(step)

    async def _do(self, work: Callable[[], T]) -> T:
        """Run `work` in the thread of this file, to its end even if the caller is cancelled."""
        loop = asyncio.get_running_loop()
        if self._connection is None and work != self._open:
            raise StoreUnavailable(f"{self._path} is closed; open it first")
        try:
            return await asyncio.shield(loop.run_in_executor(self._lane, work))
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(f"{self._path} cannot be used: {error}") from error

    def _open(self) -> None:
        self._lock = hold(
            self._path.with_name(f"{self._path.name}.lock"), busy=f"{self._path} is in use"
        )
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._connection = db
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            (format,) = db.execute("PRAGMA user_version").fetchone()
            if format not in (0, FORMAT):
                raise ConfigError(
                    f"{self._path} was written by a newer crawlfleet; update this one"
                )
            db.executescript(SCHEMA)
            db.execute(f"PRAGMA user_version = {FORMAT}")
            found = db.execute("SELECT place FROM place").fetchone()
            self.place = _place.decode(found[0]) if found else None
        except msgspec.DecodeError as error:
            self._close()
            raise ConfigError(
                f"{self._path} is not a checkpoint of this version: {error}"
            ) from error
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        lock, self._lock = self._lock, None
        if connection is not None:
            connection.close()
        if lock is not None:
            lock.close()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreUnavailable(f"{self._path} is closed; open it first")
        return self._connection


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _count_anew(db: sqlite3.Connection) -> None:
    """Begin a new epoch, with steps, versions, writers and messages of its own. Steps that were
    taken and do not count yet never will.
    """
    for table in ("taken", "waiting", "writers"):
        db.execute(f"DELETE FROM {table}")  # noqa: S608 (one of three)
    # In their order, and numbered from 1 again: that is how the next epoch begins with them.
    kept = db.execute(
        "SELECT partition, row_number() OVER (PARTITION BY partition ORDER BY number), message "
        "FROM messages"
    ).fetchall()
    db.execute("DELETE FROM messages")
    db.executemany("INSERT INTO messages VALUES (?, ?, ?)", kept)
    for partition in {row[0] for row in kept}:
        count = sum(row[0] == partition for row in kept)
        db.execute("INSERT INTO taken VALUES (?, 0, 0, ?)", (partition, count))


def _settle(db: sqlite3.Connection, handed: Mapping[int, Handed]) -> None:
    found: dict[int, list[journal.Writing | None]] = {}
    for partition, step in db.execute(
        "SELECT partition, step FROM waiting ORDER BY partition, number"
    ):
        found.setdefault(partition, []).append(journal.writing_of(step))
    known = dict(db.execute("SELECT writer, number FROM writers").fetchall())
    for partition, count in journal.whole(found, known).items():
        numbers = db.execute(
            "SELECT number FROM waiting WHERE partition = ? ORDER BY number LIMIT ?",
            (partition, count),
        ).fetchall()
        for (number,) in numbers:
            this = (partition, number)
            (step,) = db.execute(
                "SELECT step FROM waiting WHERE partition = ? AND number = ?", this
            ).fetchone()
            _fold(db, partition, step)
            db.execute("DELETE FROM waiting WHERE partition = ? AND number = ?", this)
    first = dict(db.execute("SELECT partition, min(number) FROM waiting GROUP BY partition"))
    if all(first.get(partition, end.steps + 1) > end.steps for partition, end in handed.items()):
        # Those to whom they were handed have written down what came of them, and that counts.
        gone = [(partition, end.messages) for partition, end in handed.items()]
        db.executemany("DELETE FROM messages WHERE partition = ? AND number <= ?", gone)


def _fold(db: sqlite3.Connection, partition: int, step: bytes) -> None:
    """Apply a step that counts now."""
    rows: dict[int, list[tuple[object, ...]]] = {}
    messages = []
    for kind, key, value in journal.pieces(step):
        row: tuple[object, ...]
        match kind:
            case journal.URL:
                row = id_of(key), partition, int.from_bytes(value[PLACE], "little"), value
            case journal.HOST:
                row = partition, int.from_bytes(key, "little"), value.decode()
            case journal.RECEIPT:
                row = partition, key.decode(), value
            case journal.NUMBER:
                row = partition, key.decode(), value.decode()
            case journal.LINKS:
                row = partition, id_of(key), value
            case journal.WRITER:
                row = key.decode(), int(value)
            case journal.MESSAGE:
                messages.append(value)
                continue
            case _:
                continue
        rows.setdefault(kind, []).append(row)
    for kind, some in rows.items():
        db.executemany(INTO[kind], some)
    if messages:
        (last,) = db.execute(
            "SELECT messages FROM taken WHERE partition = ?", (partition,)
        ).fetchone()
        numbered = [(partition, last + at, each) for at, each in enumerate(messages, 1)]
        db.executemany("INSERT INTO messages VALUES (?, ?, ?)", numbered)
        db.execute(
            "UPDATE taken SET messages = ? WHERE partition = ?", (last + len(messages), partition)
        )


INTO: Final = {
    journal.URL: "INSERT OR REPLACE INTO urls VALUES (?, ?, ?, ?)",
    journal.HOST: "INSERT OR REPLACE INTO hosts VALUES (?, ?, ?)",
    journal.RECEIPT: "INSERT OR REPLACE INTO receipts VALUES (?, ?, ?)",
    journal.NUMBER: "INSERT OR REPLACE INTO numbers VALUES (?, ?, ?)",
    journal.LINKS: "INSERT OR REPLACE INTO links VALUES (?, ?, ?)",
    # Those of one writer are in several partitions, which come one after another.
    journal.WRITER: "INSERT INTO writers VALUES (?, ?) ON CONFLICT DO UPDATE "
    "SET number = max(number, excluded.number)",
}


def _record(db: sqlite3.Connection, id: int) -> UrlRecord | None:
    found = _found(db, id)
    if found is None:
        return None
    kept, host = found
    page = None
    if kept.partition != SEED and (source := _found(db, id_of(kept.page))) is not None:
        page = source[0].url(source[1])
    return kept.shown(id, host, page)


def _found(db: sqlite3.Connection, id: int) -> tuple[StoredUrl, str] | None:
    row = db.execute("SELECT partition, record FROM urls WHERE id = ?", (id,)).fetchone()
    if row is None:
        return None
    kept = read(row[1])
    (name,) = db.execute(
        "SELECT name FROM hosts WHERE partition = ? AND number = ?", (row[0], kept.host)
    ).fetchone()
    return kept, name
