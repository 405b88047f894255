"""The writer of a PostgreSQL store: whole groups of requests in one durable transaction.

All waiting requests are one group. Its transaction holds a lock of which there is one for all
masters, so that it may read first and decide here, and that event numbers become visible in their
order. Until COMMIT is sent a group is simply begun anew on another connection; when the connection
is lost after that, the outcome is unknown, and the callers get that error.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, Final

from crawlfleet.adapters.store.acceptance import Present
from crawlfleet.adapters.store.postgres import statements
from crawlfleet.adapters.store.postgres.connections import Connection, Patience, Server, let_go
from crawlfleet.adapters.store.postgres.errors import (
    explain,
    is_locked_out,
    is_unfit,
    why_unfit,
)
from crawlfleet.adapters.store.postgres.statements import SILENT_S, STATEMENTS, Statement
from crawlfleet.adapters.store.sql.commit_group import Changes, Group, Named, unfit
from crawlfleet.adapters.store.sql.maintenance import Operation, Put
from crawlfleet.adapters.store.sql.rows import CLAIM
from crawlfleet.errors import CrawlfleetError, StoreUnavailable
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
Job = Changes | Operation[Statement]

GROUP: Final = 2_000
"""A group with so many changes takes no more requests: the event loop encodes them all at once."""


class Writer:
    """Owns the writing connection. `run` works off what `ask` is asked for, until `close`."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._name = name
        self._connection: Connection | None = None
        self._waiting: list[tuple[Job, asyncio.Future[Any]]] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._running = asyncio.create_task(self._run(), name="store-writer")

    async def ask(self, job: Job) -> Any:
        """Run a job and return its result. The job of a cancelled caller is done all the same."""
        if self._closing:
            raise self._closed()
        outcome = asyncio.get_running_loop().create_future()
        self._waiting.append((job, outcome))
        self._wake.set()
        return await outcome

    async def close(self) -> None:
        """Finish all jobs, then close the connection."""
        self._closing = True
        self._wake.set()
        try:
            await self._running
        finally:
            connection, self._connection = self._connection, None
            if connection is not None:
                await let_go(connection)

    async def _run(self) -> None:
        group: list[tuple[Job, asyncio.Future[Any]]] = []
        try:
            while self._waiting or not self._closing:
                if not self._waiting:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                group = self._take()
                outcomes = await self._work([job for job, _ in group])
                for (_, future), outcome in zip(group, outcomes, strict=True):
                    _answer(future, outcome)
        finally:
            for _, future in group + self._waiting:
                _answer(future, self._closed())

    def _take(self) -> list[tuple[Job, asyncio.Future[Any]]]:
        size = count = 0
        for job, _ in self._waiting:
            if size >= GROUP:
                break
            count += 1
            size += 1 if callable(job) else len(job)
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        return group

    async def _work(self, jobs: Sequence[Job]) -> list[Any]:
        """One outcome for each job; either all of them are durable, or those that raise are not.

        When a value of one cannot be stored, the others are tried again without it.
        """
        try:
            return await self._transact_patiently(jobs)
        except CrawlfleetError as error:
            return [error] * len(jobs)
        except Exception as error:
            if not is_unfit(error):
                return [explain(error, self._server.address)] * len(jobs)
            if len(jobs) == 1:
                return [unfit(error, why_unfit(error))]
            half = len(jobs) // 2
            return await self._work(jobs[:half]) + await self._work(jobs[half:])

    async def _transact_patiently(self, jobs: Sequence[Job]) -> list[Any]:
        patience = Patience(self._server.address)
        while True:
            try:
                if self._connection is None or self._connection.is_closed():
                    self._connection = await self._server.connect()
                return await self._transact(self._connection, jobs)
            except Exception as error:
                if is_unfit(error):
                    raise
                self._drop()
                if not (is_locked_out(error) and await self._end_silent_writer()):
                    await patience.endure(error)

    async def _end_silent_writer(self) -> bool:
        """Free the lock from a master that hangs; whether that was so."""
        try:
            ended = await self._server.end_silent_writer()
        except Exception as error:
            log.warning("cannot see who holds the lock of the store", error=repr(error))
            return False
        if ended:
            log.warning("ended the transaction of a master that hangs", held_s=SILENT_S)
        return ended

    async def _transact(self, connection: Connection, jobs: Sequence[Job]) -> list[Any]:
        try:
            await connection.execute(statements.BEGIN)
            outcomes, last_seq = await self._do(connection, jobs)
        except Exception as error:
            if is_unfit(error):
                await connection.execute("ROLLBACK")
            raise
        try:
            await connection.execute(
                "COMMIT" if last_seq is None else statements.commit(self._name, last_seq)
            )
        except Exception as error:
            self._drop()
            await self._settle()
            raise StoreUnavailable(
                f"the store {self._server.address} did not say whether it has made the changes, "
                f"which are all there or none ({type(error).__name__}: {error}); read them again"
            ) from error
        return outcomes

    async def _settle(self) -> None:
        """Wait, within reason, for the end of a transaction that may go on without this connection.
        It holds the lock until then; so callers that read after this see its outcome.
        """
        patience = Patience(self._server.address)
        while True:
            try:
                self._connection = await self._server.connect()
                await self._connection.execute(statements.BEGIN)
                await self._connection.execute("ROLLBACK")
                return
            except Exception as error:
                self._drop()
                try:
                    await patience.endure(error)
                except CrawlfleetError:
                    return

    def _closed(self) -> StoreUnavailable:
        return StoreUnavailable(f"the store {self._server.address} is closed; open it first")

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.terminate()

    async def _do(
        self, connection: Connection, jobs: Sequence[Job]
    ) -> tuple[list[Any], int | None]:
        """The outcomes, and the number of the newest event if there are new ones.

        Operations first, then all changes together: callers that wait at once have no order.
        """
        outcomes: list[Any] = [
            await operate(connection, job) if callable(job) else None for job in jobs
        ]
        batches = [(index, job) for index, job in enumerate(jobs) if not callable(job)]
        last_seq: int | None = None
        if batches:
            named = Named([batch for _, batch in batches])
            group = await _load(connection, named)
            before = group.last_seq
            for (index, _), batch in zip(batches, named.batches, strict=True):
                outcomes[index] = group.take(batch)
            written = list(group.encoded())
            if written:
                arrays = [array for each in written for array in statements.by_column(*each)]
                mappings = tuple(mapping for mapping, _ in written)
                await connection.execute(statements.put(mappings), *arrays)
            last_seq = group.last_seq if group.last_seq > before else None
        return outcomes, last_seq


def _answer(future: asyncio.Future[Any], outcome: Any) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


async def operate(connection: Connection, operation: Operation[Statement]) -> int:
    """Carry out the steps of an operation, in the transaction that there is."""
    steps = operation(STATEMENTS)
    try:
        step = next(steps)
        while True:
            if isinstance(step, Put):
                arrays = statements.by_column(*step)
                await connection.execute(statements.put((step.mapping,)), *arrays)
                step = steps.send(())
                continue
            statement, values = step
            found = await connection.fetch(statement.text, *statement.arguments(values))
            step = steps.send(found)
    except StopIteration as end:
        return int(end.value)


async def _load(connection: Connection, named: Named) -> Group:
    """Return a group with the stored versions of the named rows and claims."""
    present = Present()
    last_seq = 0
    kinds = tuple(
        sorted((kind for kind, ids in named.ids.items() if ids), key=attrgetter("__name__"))
    )
    arrays = [list(named.ids[kind]) for kind in kinds]
    if named.sessions:
        arrays.append(list(named.sessions))
    found = await connection.fetch(statements.load(kinds, bool(named.sessions)), *arrays)
    for place, id, number in found:
        if place >= 0:
            present.versions[kinds[place]][id] = number
        elif place == statements.OPEN_SESSION:
            present.open_sessions[id] = True
        elif place == statements.EPOCH:
            present.epoch = number
        else:
            last_seq = number
    if named.claims:
        scopes, keys = zip(*named.claims, strict=True)
        for row in await connection.fetch(statements.CLAIMS_NAMED, scopes, keys):
            claim = CLAIM.decode(row)
            present.claims[claim.scope, claim.key] = claim
    return Group(present, last_seq)
