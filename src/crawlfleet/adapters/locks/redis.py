"""Locks in Redis: each a hash in a slot of its own, changed by scripts on the server's clock.

What holds: a Redis that restarts (with its file of commands) goes on with the same holds and
tokens. One that was emptied, or restored from a backup, has forgotten holds: for up to a lease two
may believe that they hold a lock, but the tokens go on growing, since they are at least the
server's clock in microseconds, and at least what this process has seen; so a guard that compares
them still refuses the older one. That it happened is seen by a mark that is gone, and logged.
"""

import secrets
from typing import Any, Final

from crawlfleet.adapters import redis
from crawlfleet.adapters.redis import Redis, RedisError, answer
from crawlfleet.errors import LocksUnavailable
from crawlfleet.model.wire.locks import LockHold, LockOccupied
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
PREFIX: Final = "crawlfleet:lock:"
MARK: Final = "crawlfleet:locks:mark"
KEPT_MS: Final = 7 * 86_400_000
"""Milliseconds after which an unused lock is removed."""


class RedisLocks:
    """Implements `crawlfleet.ports.locks.Locks`."""

    def __init__(self, *, url: str) -> None:
        self._url = url
        self._client: Redis | None = None
        self._scripts: dict[str, Any] = {}
        self._mark = ""
        self._floor = 0

    async def open(self) -> None:
        if self._client is not None:
            return
        try:
            client = await redis.opened(self._url)
        except RedisError as error:
            raise self._unavailable(error) from error
        self._client = client
        try:
            self._mark = await _mark(client)
        except RedisError as error:
            await self.close()
            raise self._unavailable(error) from error
        self._scripts = {
            name: client.register_script(redis.script(__package__, name))
            for name in ("take", "renew", "release", "look")
        }

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def take(self, name: str, holder: str, lease_s: float) -> LockHold | LockOccupied:
        await self._look_for_mark()
        lease_ms = int(lease_s * 1000)
        kept_ms = _kept_ms(lease_s)
        held, token, *others = await self._run("take", name, holder, lease_ms, self._floor, kept_ms)
        if not held:
            return LockOccupied(holder=others[0], token=token, free_in_s=others[1] / 1000)
        self._floor = max(self._floor, token + 1)
        return LockHold(name=name, holder=holder, token=token, lease_s=lease_s)

    async def renew(self, hold: LockHold) -> bool:
        return bool(
            await self._run("renew", hold.name, hold.holder, hold.token, _kept_ms(hold.lease_s))
        )

    async def release(self, hold: LockHold) -> bool:
        return bool(await self._run("release", hold.name, hold.holder, hold.token))

    async def look(self, name: str) -> LockOccupied | None:
        found = await self._run("look", name)
        if not found:
            return None
        return LockOccupied(token=found[0], holder=found[1], free_in_s=found[2] / 1000)

    async def _look_for_mark(self) -> None:
        if self._client is None:
            raise self._closed()
        try:
            mark = await _mark(self._client)
        except RedisError as error:
            raise self._unavailable(error) from error
        if mark != self._mark:
            self._mark = mark
            log.error(
                "the Redis of the locks was emptied or restored",
                redis=redis.shown(self._url),
                means="holds from before are forgotten; their tokens are refused where they count",
            )

    async def _run(self, script: str, name: str, *arguments: object) -> Any:
        if self._client is None:
            raise self._closed()
        try:
            return await self._scripts[script](keys=[PREFIX + name], args=list(arguments))
        except RedisError as error:
            raise self._unavailable(error) from error

    def _closed(self) -> LocksUnavailable:
        return LocksUnavailable(f"the locks in {redis.shown(self._url)} are closed")

    def _unavailable(self, error: Exception) -> LocksUnavailable:
        return LocksUnavailable(
            f"the locks in {redis.shown(self._url)} cannot be used: {error}; "
            "check that it runs, and its address in the setting `locks`"
        )


def _kept_ms(lease_s: float) -> int:
    return KEPT_MS + int(lease_s * 1000)


async def _mark(client: Redis) -> str:
    """The mark that is there, or a new one where there is none."""
    mine = secrets.token_hex(8)
    found = await answer(client.get(MARK))
    while found is None:
        await answer(client.set(MARK, mine, nx=True))
        found = await answer(client.get(MARK))
    return str(found)


def from_url(url: str) -> RedisLocks:
    """The locks of a URL such as `redis://user:password@host:6379/0`."""
    return RedisLocks(url=url)
