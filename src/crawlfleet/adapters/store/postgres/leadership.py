"""The connection of a master to the others: it receives news of their commits, and holds the lead.

Both depend on one connection. The lead is a lock of that session, so that the kernel frees it when
the process dies, and the server when it has received nothing for a few seconds: a machine that is
gone, a process that hangs. A pulse keeps the session alive. When the connection is lost, so is the
lead; with a new one comes the number of the newest event, so that no commit in between is missed.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from crawlfleet.adapters.store.postgres import statements
from crawlfleet.adapters.store.postgres.connections import (
    CONNECT_S,
    WAIT_OUT_S,
    Connection,
    Server,
    let_go,
)
from crawlfleet.adapters.store.postgres.errors import explain
from crawlfleet.errors import StoreUnavailable
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
PULSE_S: Final = 1.0
ANSWER_S: Final = 4.0
"""A server that does not answer the pulse for so long has perhaps given the lead away."""
SILENT_S: Final = 5
"""So long the server waits for the next pulse before it ends the session."""
IDLE_TIMEOUT_SINCE: Final = 14
"""The PostgreSQL that has `idle_session_timeout`; an older one goes by the TCP connection."""
FIRST_PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 1.0


class Presence:
    """Keeps the connection for as long as it is not closed. `writer` names this master."""

    def __init__(self, server: Server, writer: str) -> None:
        self._server = server
        self._writer = writer
        self._session: _Session | None = None
        self._trouble: Exception | None = None
        self._connected = asyncio.Event()
        self._newest = 0
        self._news = asyncio.Event()
        self._running = asyncio.create_task(self._run(), name="store-presence")

    async def close(self) -> None:
        """Leave; the lead is free at once."""
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running

    async def changes(self) -> AsyncIterator[int]:
        """Yield the numbers of newest events, as the port describes."""
        told = 0
        while True:
            await self._news.wait()
            self._news.clear()
            if self._newest > told:
                told = self._newest
                yield told

    async def take_lead(self) -> "asyncio.Event | None":
        """Lock the others out; an event that is set when the lock is lost, or `None`."""
        session = await self._present()
        if not await session.ask(statements.TRY_LEAD):
            return None
        return session.over

    async def give_up_lead(self, over: asyncio.Event) -> None:
        """Release the lead for other masters, unless the lock was lost anyway."""
        session = self._session
        if session is not None and session.over is over:
            with suppress(StoreUnavailable):
                await session.ask(statements.GIVE_UP_LEAD)

    async def _present(self) -> "_Session":
        try:
            async with asyncio.timeout(WAIT_OUT_S):
                while (session := self._session) is None:
                    self._connected.clear()
                    await self._connected.wait()
        except TimeoutError as error:
            raise explain(self._trouble or error, self._server.address) from error
        return session

    async def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                self._session = await self._begin()
                self._trouble = None
                self._connected.set()
                pause_s = FIRST_PAUSE_S
                await self._session.keep()
            except Exception as error:
                self._trouble = error
                log.warning("lost sight of the other masters", error=str(error) or repr(error))
            finally:
                session, self._session = self._session, None
                if session is not None:
                    await session.end()
            # By chance, so that the masters of a fleet do not all come back at once.
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311
            pause_s = min(pause_s * 2, MAX_PAUSE_S)

    async def _begin(self) -> "_Session":
        connection = await self._server.connect_to_stay()
        session = _Session(connection, self._server.address)
        try:
            if connection.get_server_version().major >= IDLE_TIMEOUT_SINCE:
                await connection.execute(f"SET idle_session_timeout = '{SILENT_S}s'")
            async with asyncio.timeout(CONNECT_S):
                channel = await connection.fetchval(f"SELECT {statements.CHANNEL}")
                await connection.add_listener(channel, self._hear)
                # After that: what is committed from now on is heard, all else is counted here.
                self._learn(await connection.fetchval(statements.NEWEST))
        except BaseException:
            await session.end()
            raise
        return session

    def _hear(self, connection: Connection, pid: int, channel: str, payload: str) -> None:
        writer, _, seq = payload.partition(":")
        if writer != self._writer and seq.isdigit():
            self._learn(int(seq))

    def _learn(self, seq: int) -> None:
        self._newest = max(self._newest, seq)
        self._news.set()


class _Session:
    """One connection from its beginning to its end."""

    def __init__(self, connection: Connection, address: str) -> None:
        self._connection = connection
        self._address = address
        self._turn = asyncio.Lock()
        self.over = asyncio.Event()
        connection.add_termination_listener(lambda _: self.over.set())

    async def keep(self) -> None:
        """Show the server that we are there, until it is over or the server does not answer."""
        while not self.over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(PULSE_S):
                    await self.over.wait()
                    break
            await self.ask("SELECT true")

    async def ask(self, statement: str) -> Any:
        """Run a statement and return its value; without an answer the session is over."""
        try:
            async with asyncio.timeout(ANSWER_S), self._turn:
                return await self._connection.fetchval(statement)
        except Exception as error:
            self.over.set()
            raise explain(error, self._address) from error

    async def end(self) -> None:
        dead = self.over.is_set()
        self.over.set()
        if dead:
            with suppress(Exception):
                self._connection.terminate()
        else:
            await let_go(self._connection)
