"""All locks do what the port says, on real servers and between real processes."""

import asyncio
import secrets
import time
from pathlib import Path

import pytest

from crawlfleet import plugins
from crawlfleet.adapters.locks.memory import MemoryLocks
from crawlfleet.adapters.locks.redis import RedisLocks
from crawlfleet.adapters.locks.sqlite import SqliteLocks
from crawlfleet.errors import ConfigError, LocksUnavailable
from crawlfleet.model.wire.locks import LockHold
from crawlfleet.ports.locks import Locks
from crawlfleet.testing.lock_suite import LockSuite, SharedLockSuite
from crawlfleet.testing.lock_suite.harness import must_take
from tests.adapters.schemas import Schemas
from tests.support.servers import PostgresServer, RedisServer, redis_server

pytestmark = pytest.mark.slow


class TestMemoryLocks(LockSuite):
    def make_locks(self, folder: Path) -> Locks:
        self._ahead_s = 0.0
        return MemoryLocks(clock=time.monotonic, now=lambda: time.time() + self._ahead_s)

    def leap(self, folder: Path, seconds: float) -> None:
        self._ahead_s += seconds

    test_clock_set_forward_ends_leases_and_the_holder_hears = None
    """Its leases go by a clock that cannot be set."""


class TestSqliteLocks(SharedLockSuite):
    make = "crawlfleet.adapters.locks.sqlite:from_url"

    def url(self, folder: Path) -> str:
        return f"sqlite:///{folder / 'locks.db'}"

    def make_locks(self, folder: Path) -> Locks:
        self._ahead_s = 0.0
        return SqliteLocks(path=folder / "locks.db", now=lambda: time.time() + self._ahead_s)

    def leap(self, folder: Path, seconds: float) -> None:
        self._ahead_s += seconds


class TestPostgresLocks(SharedLockSuite):
    make = "crawlfleet.adapters.locks.postgres:from_url"

    @pytest.fixture(autouse=True)
    def _on_server(self, schemas: Schemas, postgres: PostgresServer) -> None:
        self._schemas = schemas
        self._postgres = postgres

    def url(self, folder: Path) -> str:
        return self._schemas.url(folder)

    def leap(self, folder: Path, seconds: float) -> None:
        schema = self._schemas.name(folder)
        self._postgres.execute(
            f"UPDATE {schema}.crawler_locks SET expires_at = expires_at - {seconds} "
            "WHERE expires_at > 0"
        )


class TestRedisLocks(SharedLockSuite):
    make = "crawlfleet.adapters.locks.redis:from_url"

    @pytest.fixture(autouse=True)
    def _on_server(self, redis: RedisServer) -> None:
        redis.execute("FLUSHALL")
        self._redis = redis

    def url(self, folder: Path) -> str:
        return self._redis.url()

    def leap(self, folder: Path, seconds: float) -> None:
        self._redis.execute(
            "EVAL",
            "for _, lock in ipairs(redis.call('KEYS', 'crawlfleet:lock:*')) do "
            f"redis.call('HINCRBY', lock, 'until', {int(-seconds * 1000)}) end",
            "0",
        )


@pytest.mark.parametrize("scheme", ["sqlite", "postgresql", "postgres", "redis", "rediss"])
def test_locks_are_found_by_the_scheme_of_their_url(scheme: str) -> None:
    assert plugins.load_one(plugins.LOCKS, scheme)(f"{scheme}:////tmp/somewhere/locks.db")


def test_redis_killed_and_restarted_goes_on_with_holds_and_tokens() -> None:
    async def scenario(server: RedisServer) -> None:
        locks = RedisLocks(url=server.url())
        await locks.open()
        held = await must_take(locks, "a")
        given_up = await must_take(locks, "a", name="window")
        assert await locks.release(given_up)
        await asyncio.to_thread(server.restart, "immediate")
        seen = await locks.look("door")
        assert seen is not None
        assert (seen.holder, seen.token) == ("a", held.token)
        assert await locks.renew(held)
        assert (await must_take(locks, "b", name="window")).token > given_up.token
        await locks.close()

    with redis_server() as server:
        asyncio.run(scenario(server))


def test_emptied_redis_is_noticed_and_its_tokens_go_on_growing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(server: RedisServer) -> None:
        locks = RedisLocks(url=server.url())
        await locks.open()
        before = await must_take(locks, "a")
        await asyncio.to_thread(server.empty)
        assert not await locks.renew(before), "the holder hears that it is lost"
        stranger = RedisLocks(url=server.url())
        await stranger.open()
        after = await must_take(stranger, "b")
        assert after.token > before.token
        assert isinstance(await locks.take("window", "a", 60.0), LockHold)
        await locks.close()
        await stranger.close()

    with redis_server(fsync=False) as server:
        asyncio.run(scenario(server))
    assert "emptied or restored" in caplog.text


def test_emptied_redis_with_its_clock_set_back_gives_nobody_a_token_twice() -> None:
    """To who was there before; a stranger cannot know."""

    async def scenario(server: RedisServer) -> None:
        locks = RedisLocks(url=server.url())
        await locks.open()
        locks._floor = int((time.time() + 3600.0) * 1e6)  # as if the clock had been there
        first = await must_take(locks, "a")
        await asyncio.to_thread(server.empty)
        assert (await must_take(locks, "b")).token > first.token
        await locks.close()

    with redis_server(fsync=False) as server:
        asyncio.run(scenario(server))


def test_redis_that_forgets_at_a_restart_is_refused() -> None:
    with redis_server(fsync=False, settings={"appendonly": "no"}) as server:
        locks = RedisLocks(url=server.url())
        with pytest.raises(ConfigError, match="appendonly yes"):
            asyncio.run(locks.open())


def test_redis_that_is_away_is_trouble_that_may_pass() -> None:
    secret = secrets.token_hex(4)
    locks = RedisLocks(url=f"redis://:{secret}@127.0.0.1:1/0")
    with pytest.raises(LocksUnavailable) as caught:
        asyncio.run(locks.open())
    assert caught.value.retryable
    assert secret not in str(caught.value)


def test_locks_in_a_folder_that_cannot_be_are_trouble(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocksUnavailable, match="folder"):
        asyncio.run(SqliteLocks(path=tmp_path / "file" / "locks.db").open())
