"""A frontier for tests and for crawls that need not be resumed: gone with its process."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from crawlfleet.adapters.frontier.books import Books
from crawlfleet.adapters.frontier.sql import Tables
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.crawl.frontier import (
    Commit,
    FrontierCounts,
    FrontierRules,
    HostFigures,
    HostLease,
    Link,
    PartitionFigures,
    UrlRecord,
)


class MemoryFrontier:
    """Implements `crawlfleet.ports.frontier.frontier.Frontier` without a thread or a file.

    It keeps its URLs in the same tables as the SQLite frontier, in RAM: a quarter of the memory of
    as many Python objects. Opened again after `close` it has its former state.
    """

    def __init__(self, *, rules: FrontierRules) -> None:
        self._rules = rules
        self._tables: Tables | None = None
        self._books: Books | None = None

    @property
    def partitions(self) -> int:
        return 1

    def partition_of(self, host: str) -> int:
        return 0

    async def open(self) -> Mapping[str, Any]:
        if self._tables is None:
            self._tables = Tables(sqlite3.connect(":memory:", isolation_level=None))
            self._tables.prepare(self._rules, "memory")
        if self._books is None:
            self._books = Books(self._tables, self._rules)
        return self._books.receipts()

    async def close(self) -> None:
        if self._books is not None:
            self._books.close()
        self._books = None

    def _opened(self) -> Books:
        if self._books is None:
            raise StoreUnavailable("the frontier is closed; open it first")
        return self._books

    async def add(self, seeds: Sequence[Link], at: float) -> int:
        return self._opened().add(seeds, at)

    async def begin_round(self, round: int) -> None:
        self._opened().begin_round(round)

    async def lease(
        self, worker: str, *, hosts: int, urls: int, held: Mapping[str, int], now: float
    ) -> list[HostLease]:
        return self._opened().lease(worker, hosts=hosts, urls=urls, held=held, now=now)

    async def commit(self, worker: str, commit: Commit) -> Sequence[str]:
        return self._opened().commit(worker, commit)

    async def forget(self, worker: str) -> None:
        self._opened().forget(worker)

    async def shares(self) -> Sequence[PartitionFigures]:
        return self._opened().shares()

    async def counts(self) -> FrontierCounts:
        return self._opened().counts()

    async def busiest(self, limit: int) -> Sequence[HostFigures]:
        return self._opened().busiest(limit)

    async def record(self, id: int) -> UrlRecord | None:
        return self._opened().record(id)
