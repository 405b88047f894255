"""The durable frontier of one crawl: one SQLite file, one process, one thread.

A commit is one transaction (`synchronous=FULL`) and is answered when it is on the disk. Its thread
alone reads, writes and moves the log into the file, so that the log stays short.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from crawlfleet.adapters.frontier.books import Books
from crawlfleet.adapters.frontier.sql import PRAGMAS, Tables
from crawlfleet.adapters.store.database_file import DatabaseFile
from crawlfleet.adapters.store.sqlite.errors import explain, is_damage
from crawlfleet.adapters.threads import DriverThread
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.crawl.frontier import (
    Commit,
    FrontierCounts,
    FrontierRules,
    Holdings,
    HostFigures,
    HostLease,
    Link,
    PartitionFigures,
    UrlRecord,
)
from crawlfleet.private_file import hold

Job = Callable[[Books], Any]

WAITING_JOBS: Final = 64
GONE: Final = (
    "The crawl is not finished. Move the file back that was there, and go on; or begin the crawl "
    "anew"
)
HALVED: Final = (
    "The crawl is not finished. When it ends, what was in there is saved: then let it go on"
)
DAMAGED: Final = (
    "The crawl is not finished. Put back a copy of the file, without those beside it that end in "
    "-wal and -shm; or begin the crawl anew"
)
BUSY_S: Final = 5.0
"""Seconds to wait for a tool that has locked the file, such as the `sqlite3` shell."""


def stored_receipts(path: Path) -> Mapping[str, Any]:
    """Return the receipts of the last commit, by sink, of a frontier that no process has open; none
    when there is no such file.
    """
    if not path.exists():
        return {}
    try:
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT sink, receipt FROM receipts").fetchall()
    except sqlite3.Error as error:
        raise explain(error, path) from error
    return {sink: msgspec.json.decode(receipt) for sink, receipt in rows}


class _Opened:
    """The lock, the connection and the books of an open frontier."""

    def __init__(self, path: Path, rules: FrontierRules) -> None:
        self._path = path
        self._lock: BinaryIO = hold(
            path.with_name(f"{path.name}.lock"),
            busy=f"the frontier {path} is in use by another process: a crawl runs there already. "
            "Wait for it or stop it, or give this crawl another file",
        )
        try:
            self._connection = sqlite3.connect(
                path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
            try:
                tables = Tables(self._connection)
                tables.prepare(rules, str(path))
                for pragma in PRAGMAS:
                    self._connection.execute(f"PRAGMA {pragma}")
                self.books = Books(tables, rules)
                self._file = DatabaseFile(
                    path, name=f"the frontier {path}", gone=GONE, halved=HALVED, damaged=DAMAGED
                )
            except BaseException:
                self._connection.close()
                raise
        except BaseException:
            self._lock.close()
            raise

    def work(self, jobs: Sequence[Job]) -> list[Any]:
        """Do each job; what the lane calls."""
        try:
            self._file.begin()
            try:
                outcomes = [self._do(job) for job in jobs]
            finally:
                self._file.note()
            self._file.check_names()
        except StoreUnavailable as error:
            return [StoreUnavailable(str(error)) for _ in jobs]
        return outcomes

    def _do(self, job: Job) -> Any:
        try:
            return job(self.books)
        except sqlite3.Error as error:
            if is_damage(error):
                self._file.condemn(str(error))
            return explain(error, self._path)
        except Exception as error:
            return error

    def close(self) -> None:
        """Close the file, and move the rest of its log into it."""
        try:
            if not self._file.damage:
                self.books.close()
        finally:
            self._connection.close()
            self._file.close()
            self._lock.close()


class SqliteFrontier:
    """Implements `crawlfleet.ports.frontier.host.ReclaimableFrontier` in one file, for one process
    at a time.

    `open` raises `ConfigError` when another process has the file, or the file is that of a crawl
    with other rules.
    """

    def __init__(self, *, path: str | Path, rules: FrontierRules) -> None:
        self._path = Path(path)
        self._rules = rules
        self._opened: _Opened | None = None
        self._lane: DriverThread[Job] | None = None

    @property
    def partitions(self) -> int:
        return 1

    def partition_of(self, host: str) -> int:
        return 0

    async def open(self) -> Mapping[str, Any]:
        if self._opened is None:
            try:
                self._opened = await asyncio.to_thread(_Opened, self._path, self._rules)
            except sqlite3.Error as error:
                raise explain(error, self._path) from error
            except OSError as error:
                raise StoreUnavailable(
                    f"the frontier {self._path} cannot be opened: {error}; "
                    "check that its folder exists and may be written"
                ) from error
            self._lane = DriverThread("frontier", self._opened.work, most=WAITING_JOBS)
        receipts: Mapping[str, Any] = await self._ask(Books.receipts)
        return receipts

    async def close(self) -> None:
        opened, lane = self._opened, self._lane
        self._opened = self._lane = None
        if opened and lane:
            await lane.close()
            try:
                await asyncio.to_thread(opened.close)
            except sqlite3.Error as error:
                raise explain(error, self._path) from error

    async def _ask(self, job: Job) -> Any:
        if self._lane is None:
            raise StoreUnavailable(f"the frontier {self._path} is closed; open it first")
        return await self._lane.ask(job)

    async def add(self, seeds: Sequence[Link], at: float) -> int:
        new: int = await self._ask(partial(Books.add, seeds=seeds, at=at))
        return new

    async def begin_round(self, round: int) -> None:
        await self._ask(partial(Books.begin_round, round=round))

    async def lease(
        self, worker: str, *, hosts: int, urls: int, held: Mapping[str, int], now: float
    ) -> list[HostLease]:
        leases: list[HostLease] = await self._ask(
            partial(Books.lease, worker=worker, hosts=hosts, urls=urls, held=dict(held), now=now)
        )
        return leases

    async def commit(self, worker: str, commit: Commit) -> Sequence[str]:
        refused: list[str] = await self._ask(partial(Books.commit, worker=worker, commit=commit))
        return refused

    async def forget(self, worker: str) -> None:
        await self._ask(partial(Books.forget, worker=worker))

    @property
    def life(self) -> int:
        return 0 if self._opened is None else self._opened.books.life

    async def reclaim(self, worker: str, host: str, ids: Sequence[int]) -> int | None:
        token: int | None = await self._ask(
            partial(Books.reclaim, worker=worker, name=host, ids=ids)
        )
        return token

    async def holdings(self) -> Holdings:
        holdings: Holdings = await self._ask(Books.holdings)
        return holdings

    async def shares(self) -> Sequence[PartitionFigures]:
        shares: list[PartitionFigures] = await self._ask(Books.shares)
        return shares

    async def counts(self) -> FrontierCounts:
        counts: FrontierCounts = await self._ask(Books.counts)
        return counts

    async def busiest(self, limit: int) -> Sequence[HostFigures]:
        busiest: list[HostFigures] = await self._ask(partial(Books.busiest, limit=limit))
        return busiest

    async def record(self, id: int) -> UrlRecord | None:
        record: UrlRecord | None = await self._ask(partial(Books.record, id=id))
        return record
