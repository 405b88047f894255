"""Connections of the store, and how long it waits for a server that is away.

One connection writes; a small pool reads. The store waits some seconds for the end of all trouble
that a new connection may end: the restart of a server shows only as a delay.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import asyncpg  # type: ignore[import-untyped]

from crawlfleet.adapters.store.postgres import statements
from crawlfleet.adapters.store.postgres.errors import explain, is_passing, misread, shown

R = TypeVar("R")
Connection = Any
"""An asyncpg connection; the package has no types."""

CONNECT_S: Final = 5.0
CLOSE_S: Final = 2.0
COMMAND_S: Final = 30.0
"""Seconds of silence after which a server is given up."""
WAIT_OUT_S: Final = 5.0
FIRST_PAUSE_S: Final = 0.02
MAX_PAUSE_S: Final = 0.25
READERS: Final = 8

SETTINGS: Final = {
    "application_name": "crawlfleet",
    # Statistics lag behind a table that grows by thousands of rows a second, and a prepared
    # statement keeps its plan: no statement here has a use for a walk through a table.
    "enable_seqscan": "off",
    "jit": "off",
}
WRITING: Final = SETTINGS | {
    "synchronous_commit": "on",
    "default_transaction_read_only": "off",
    # All that the writer asks for, it asks for by key: planning anew each time gains nothing.
    "plan_cache_mode": "force_generic_plan",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # A master that stopped in the middle of a transaction must not keep the others waiting.
    "idle_in_transaction_session_timeout": "5s",
    "lock_timeout": "15s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
STAYING: Final = SETTINGS | {
    # Where the server cannot tell by itself that nobody is there any more, TCP tells it.
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "5000",
}
READING: Final = SETTINGS | {"default_transaction_read_only": "on"}


class Patience:
    """Waits out passing trouble, for a few seconds from its beginning."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._deadline: float | None = None
        self._pause_s = FIRST_PAUSE_S

    async def endure(self, error: Exception) -> None:
        """Sleep before another try; raises what `error` means when there is none."""
        now = asyncio.get_running_loop().time()
        if self._deadline is None:
            self._deadline = now + WAIT_OUT_S
        if not is_passing(error) or now >= self._deadline:
            raise explain(error, self._address)
        # By chance, so that the masters of a fleet do not all come back at once.
        await asyncio.sleep(self._pause_s * random.uniform(0.5, 1.5))  # noqa: S311
        self._pause_s = min(self._pause_s * 2, MAX_PAUSE_S)


class Server:
    """The PostgreSQL that a URL names."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.address = shown(url)

    async def connect(self) -> Connection:
        """A connection for writing. Raises the driver's errors."""
        return await self._connect(WRITING)

    async def connect_to_stay(self) -> Connection:
        """Open a connection that the server drops soon after its owner is gone."""
        return await self._connect(STAYING)

    async def _connect(self, settings: dict[str, str]) -> Connection:
        try:
            return await asyncpg.connect(self._url, **_options(settings))
        except OSError:
            raise
        except ValueError:
            raise misread(self.address) from None

    async def connect_patiently(self) -> Connection:
        """Open a connection as `connect` does, but wait for a server that is just starting."""
        patience = Patience(self.address)
        while True:
            try:
                return await self.connect()
            except Exception as error:
                await patience.endure(error)

    async def end_silent_writer(self) -> bool:
        """End a writer that stopped in the middle of its transaction; whether there was one."""
        connection = await self.connect()
        try:
            return bool(await connection.fetchval(statements.END_SILENT_WRITER, timeout=CONNECT_S))
        finally:
            await let_go(connection)

    async def connect_for_long(self) -> Connection:
        """Open a connection for a backup or a restore, whose statements have no timeout."""
        lasting = {"idle_in_transaction_session_timeout": "0", "lock_timeout": "15s"}
        try:
            return await asyncpg.connect(
                self._url, timeout=CONNECT_S, server_settings=SETTINGS | lasting
            )
        except ValueError:
            raise misread(self.address) from None
        except Exception as error:
            raise explain(error, self.address) from error

    def pool(self, *, writes: bool = False) -> Any:
        """A pool for reading, or for single statements, which connects when it is first used."""
        return asyncpg.create_pool(
            self._url,
            min_size=0,
            max_size=READERS,
            reset=_leave,
            **_options(WRITING if writes else READING),
        )


class Readers:
    """Answers queries on a few connections, on new ones when those are lost."""

    def __init__(self, server: Server, *, writes: bool = False) -> None:
        """Create readers; with `writes`, their statements may change something and be repeated."""
        self._address = server.address
        self._pool = server.pool(writes=writes)

    async def ask(self, query: Callable[[Connection], Awaitable[R]]) -> R:
        """The answer to a query, which may be asked several times."""
        patience = Patience(self._address)
        while True:
            try:
                async with self._pool.acquire(timeout=COMMAND_S) as connection:
                    return await query(connection)
            except Exception as error:
                await patience.endure(error)

    async def open(self) -> None:
        await self._pool

    async def close(self) -> None:
        """Wait a while for running queries, then close the connections."""
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()


async def let_go(connection: Connection) -> None:
    """Close a connection, politely if that is quick."""
    try:
        await connection.close(timeout=CLOSE_S)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()


def _options(settings: dict[str, str]) -> dict[str, Any]:
    return {
        "timeout": CONNECT_S,
        "command_timeout": COMMAND_S,
        "max_cacheable_statement_size": 0,
        "server_settings": settings,
    }


async def _leave(connection: Connection) -> None:
    """Skip the reset of a connection: a read leaves no trace in its session, and a reset is a round
    trip.
    """
