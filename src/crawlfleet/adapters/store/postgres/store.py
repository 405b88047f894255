"""The store of a fleet: a PostgreSQL that several masters may share.

Commits of all masters follow one another, each durable (`synchronous_commit`) before it is
answered, and what waits at a master is one transaction. Reads have connections of their own.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from crawlfleet.adapters.store.acceptance import default_rows
from crawlfleet.adapters.store.postgres.archive import PostgresArchive
from crawlfleet.adapters.store.postgres.connections import Connection, Readers, Server, let_go
from crawlfleet.adapters.store.postgres.counts import SNAPSHOT, ByProject, Counting
from crawlfleet.adapters.store.postgres.errors import (
    explain,
    is_storable,
    is_unfit,
    why_unfit,
)
from crawlfleet.adapters.store.postgres.leadership import Presence
from crawlfleet.adapters.store.postgres.migrate import prepare
from crawlfleet.adapters.store.postgres.statements import STATEMENTS, Statement
from crawlfleet.adapters.store.postgres.writer import Job, Writer, operate
from crawlfleet.adapters.store.sql import maintenance
from crawlfleet.adapters.store.sql.commit_group import unfit
from crawlfleet.adapters.store.sql.rows import RowMap
from crawlfleet.adapters.store.sql.statements import Rows, Values
from crawlfleet.adapters.store.sql.store import Choose, SqlStore, decode
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.task import TaskStatus
from crawlfleet.ports.store import Lead

S = TypeVar("S", bound=msgspec.Struct)


def from_url(url: str) -> "PostgresStore":
    """The store of a URL such as `postgresql://user:password@host:5432/database`."""
    return PostgresStore(url=url)


class PostgresStore(SqlStore[Statement]):
    """Implements `crawlfleet.ports.store.Store` in one schema of one database.

    It belongs to the event loop in which it was opened.
    """

    def __init__(self, *, url: str, now: Callable[[], float] = time.time) -> None:
        super().__init__(STATEMENTS)
        self._server = Server(url)
        self._now = now
        self._writer: Writer | None = None
        self._readers: Readers | None = None
        self._presence: Presence | None = None
        self._name = secrets.token_hex(4)
        """Name by which a master tells its own commits from those of others."""
        self._counting: Counting | None = None

    async def open(self) -> None:
        if self._writer is None:
            await self._prepare()
            self._readers = Readers(self._server)
            await self._readers.open()
            self._writer = Writer(self._server, self._name)
            count = super().count_tasks_by_project
            self._counting = Counting(snapshot=self._snapshot, count=count)
            await self._writer.ask(maintenance.start())
        await self.commit([default_rows(self._now())])

    async def close(self) -> None:
        writer, readers, presence = self._writer, self._readers, self._presence
        self._writer = self._readers = self._presence = self._counting = None
        if presence is not None:
            await presence.close()
        if readers is not None:
            await readers.close()
        if writer is not None:
            await writer.close()

    def archive(self) -> PostgresArchive:
        """Return the archive of all rows in bulk, whether or not the store is open."""
        return PostgresArchive(self._server)

    async def lead(self, leader: str) -> Lead | None:
        presence = self._attend()
        over = await presence.take_lead()
        if over is None:
            return None
        return _SessionLead(int(await self._write(maintenance.lead(leader))), presence, over)

    async def changes(self) -> AsyncIterator[int]:
        async for newest in self._attend().changes():
            yield newest

    async def count_tasks(self, project_id: str | None = None) -> dict[TaskStatus, int]:
        found = await self._counted()
        if project_id is not None:
            return {**found.get(project_id, {})}
        counts: Counter[TaskStatus] = Counter()
        for each in found.values():
            counts.update(each)
        return dict(counts)

    async def count_tasks_by_project(self) -> dict[str, dict[TaskStatus, int]]:
        found = await self._counted()
        return {project_id: {**counts} for project_id, counts in found.items()}

    async def _counted(self) -> ByProject:
        if self._counting is None:
            raise self._closed()
        return await self._counting.by_project()

    async def _snapshot(self) -> str:
        ((snapshot,),) = await self._fetch(Statement(SNAPSHOT, ()), {})
        return str(snapshot)

    def _attend(self) -> Presence:
        """Return the presence, which begins with the first call that needs it."""
        if self._writer is None:
            raise self._closed()
        if self._presence is None:
            self._presence = Presence(self._server, self._name)
        return self._presence

    async def _prepare(self) -> None:
        connection = await self._server.connect_patiently()
        try:
            await prepare(connection, self._server.address)
        except Exception as error:
            raise explain(error, self._server.address) from error
        finally:
            await let_go(connection)

    async def _write(self, job: Job) -> Any:
        if self._writer is None:
            raise self._closed()
        return await self._writer.ask(job)

    async def _archive(self, operation: maintenance.Operation[Statement]) -> Any:
        """Run an operation beside the writer, so that it does not hold up commits."""
        if self._readers is None:
            raise self._closed()

        async def work(connection: Connection) -> int:
            await connection.execute("BEGIN READ WRITE")
            try:
                outcome = await operate(connection, operation)
                await connection.execute("COMMIT")
            except BaseException as error:
                with suppress(Exception):
                    await connection.execute("ROLLBACK")
                if isinstance(error, Exception) and is_unfit(error):
                    raise unfit(error, why_unfit(error)) from error
                raise
            return outcome

        return await self._readers.ask(work)

    async def _fetch(self, statement: Statement, values: Values) -> Rows:
        return await self._ask(statement, [values])

    async def _decode(
        self,
        mapping: RowMap[S],
        statement: Statement,
        runs: Sequence[Values],
        choose: Choose | None = None,
    ) -> list[S]:
        return decode(mapping, await self._ask(statement, runs), choose)

    async def _ask(self, statement: Statement, runs: Sequence[Values]) -> Rows:
        if self._readers is None:
            raise self._closed()

        async def query(connection: Connection) -> Rows:
            found: list[Any] = []
            for values in runs:
                try:
                    found += await connection.fetch(statement.text, *_arguments(statement, values))
                except Exception as error:
                    # What cannot be stored is equal to nothing that is.
                    if not is_unfit(error):
                        raise
            return found

        return await self._readers.ask(query)

    def _closed(self) -> StoreUnavailable:
        return StoreUnavailable(f"the store {self._server.address} is closed; open it first")


class _SessionLead:
    """Implements `crawlfleet.ports.store.Lead` by a lock of a session."""

    def __init__(self, epoch: int, presence: Presence, over: asyncio.Event) -> None:
        self.epoch = epoch
        self._presence = presence
        self._over = over

    async def lost(self) -> None:
        await self._over.wait()

    async def resign(self) -> None:
        await self._presence.give_up_lead(self._over)


def _arguments(statement: Statement, values: Values) -> list[Any]:
    return [
        [item for item in value if is_storable(item)] if isinstance(value, list) else value
        for value in statement.arguments(values)
    ]
