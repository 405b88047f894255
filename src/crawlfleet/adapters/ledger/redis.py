"""The ledger book in Redis, for a fleet with several masters.

Entries are JSON under one hash tag, since all keys of a request are granted in one step. A step
reads, decides here, and writes if nothing has changed meanwhile; all by the server's clock. A mark
says when the book was begun: a Redis that was emptied has a new one, and grants nothing until all
earlier grants must be over. Earlier pauses are lost with it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from crawlfleet.adapters import redis
from crawlfleet.adapters.redis import Redis, RedisError
from crawlfleet.errors import LedgerUnavailable
from crawlfleet.model.crawl.politeness_entry import LedgerEntry
from crawlfleet.ports.ledger import LedgerPage

PREFIX: Final = "crawlfleet:{ledger}:"
MARK: Final = "crawlfleet:{ledger}"
KEPT_MS: Final = 60_000
"""Milliseconds for which entries are kept beyond their end, for readers that come late."""
_decode: Final = msgspec.json.Decoder(LedgerEntry).decode


class RedisBook:
    """Implements `crawlfleet.ports.ledger.LedgerBook`."""

    is_shared = True

    def __init__(self, *, url: str) -> None:
        self._url = url
        self._client: Redis | None = None
        self._read: Any = None
        self._write: Any = None

    async def open(self) -> None:
        if self._client is not None:
            return
        try:
            client = await redis.opened(self._url)
        except RedisError as error:
            raise self._unavailable(error) from error
        self._read = client.register_script(redis.script(__package__, "read"))
        self._write = client.register_script(redis.script(__package__, "write"))
        self._client = client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def read(self, keys: Sequence[str]) -> LedgerPage:
        self._opened()
        try:
            found = await self._read(keys=[MARK, *(PREFIX + key for key in keys)])
        except RedisError as error:
            raise self._unavailable(error) from error
        now, born, *texts = found
        versions = {key: text or "" for key, text in zip(keys, texts, strict=True)}
        return LedgerPage(
            now=float(now),
            born=float(born),
            entries={key: _decode(text) for key, text in versions.items() if text},
            versions=versions | {MARK: born},
        )

    async def write(self, page: LedgerPage, changes: Mapping[str, LedgerEntry]) -> bool:
        self._opened()
        arguments: list[object] = [page.versions[MARK]]
        for key, entry in changes.items():
            matters_ms = max(int((entry.over_at - page.now) * 1000), 0) + KEPT_MS
            text = msgspec.json.encode(entry).decode()
            arguments += [page.versions[key], text, matters_ms]
        keys = [MARK, *(PREFIX + key for key in changes)]
        try:
            return bool(await self._write(keys=keys, args=arguments))
        except RedisError as error:
            raise self._unavailable(error) from error

    async def browse(self, limit: int) -> LedgerPage:
        client = self._opened()
        keys: list[str] = []
        try:
            async for key in client.scan_iter(match=f"{PREFIX}*", count=1000):
                keys.append(str(key).removeprefix(PREFIX))
                if len(keys) >= limit:
                    break
        except RedisError as error:
            raise self._unavailable(error) from error
        return await self.read(keys)

    def _opened(self) -> Redis:
        if self._client is None:
            raise LedgerUnavailable("the ledger is closed; open it first")
        return self._client

    def _unavailable(self, error: Exception) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"the ledger in {redis.shown(self._url)} cannot be used: {error}; "
            "check that it runs, and its address in the setting `ledger`"
        )


def from_url(url: str) -> RedisBook:
    """The book of a URL such as `redis://user:password@host:6379/0`."""
    return RedisBook(url=url)
