"""All books of the ledger do what the port says; Redis on the real server."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from crawlfleet import plugins
from crawlfleet.adapters.ledger.memory import MemoryBook
from crawlfleet.adapters.ledger.redis import RedisBook
from crawlfleet.errors import ConfigError, LedgerUnavailable
from crawlfleet.model.crawl.politeness_entry import LedgerEntry
from crawlfleet.model.wire.politeness import LedgerRequest, Pause
from crawlfleet.ports.ledger import LedgerBook
from crawlfleet.testing.ledger_suite import POLITE, LedgerBookSuite, say, want
from tests.support.servers import RedisServer, redis_server

HOUR = LedgerRequest(pauses=(Pause(key="host:a", for_s=3600.0, why="429"),))


class TestMemoryBook(LedgerBookSuite):
    def make_book(self, folder: Path) -> LedgerBook:
        return MemoryBook(path=folder / "pauses.jsonl")


@pytest.mark.slow
class TestRedisBook(LedgerBookSuite):
    @pytest.fixture(autouse=True)
    def _on_server(self, redis: RedisServer) -> None:
        redis.execute("FLUSHALL")
        self._redis = redis

    def make_book(self, folder: Path) -> LedgerBook:
        return RedisBook(url=self._redis.url())


def test_first_book_of_a_fleet_grants_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        for _ in range(2):  # being opened before is not having granted anything
            book = MemoryBook(path=tmp_path / "pauses.jsonl")
            await book.open()
        assert (await say(book, "a", want(POLITE), old=False)).windows

    asyncio.run(scenario())


def test_book_of_one_master_among_several_waits_for_what_others_granted(tmp_path: Path) -> None:
    async def scenario() -> None:
        book = MemoryBook(path=tmp_path / "pauses.jsonl", is_alone=False)
        await book.open()
        assert (await say(book, "a", want(POLITE), old=False)).refusals

    asyncio.run(scenario())


def test_book_that_was_closed_for_long_grants_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pauses.jsonl"

    async def scenario() -> None:
        book = MemoryBook(path=path)
        await book.open()
        assert (await say(book, "a", want(POLITE), old=False)).windows
        await book.close()
        then = time.time() - 100.0
        os.utime(path, (then, then))
        again = MemoryBook(path=path)
        await again.open()
        assert (await say(again, "b", want(POLITE), old=False)).windows

    asyncio.run(scenario())


def test_file_of_pauses_with_a_torn_line_is_read_without_it(tmp_path: Path) -> None:
    path = tmp_path / "pauses.jsonl"

    async def scenario() -> None:
        book = MemoryBook(path=path)
        await book.open()
        await say(book, "a", HOUR)
        await book.close()
        with path.open("ab") as file:
            file.write(b'{"key": "host:b", "unt')
        again = MemoryBook(path=path)
        await again.open()
        page = await again.browse(10)
        assert [*page.entries] == ["host:a"]
        assert path.read_bytes().count(b"\n") == 1

    asyncio.run(scenario())


def test_pause_that_cannot_be_written_down_does_not_count(tmp_path: Path) -> None:
    async def scenario() -> None:
        book = MemoryBook(path=tmp_path / "pauses.jsonl")
        await book.open()
        (tmp_path / "pauses.jsonl").unlink()
        (tmp_path / "pauses.jsonl").mkdir()
        with pytest.raises(LedgerUnavailable):
            await say(book, "a", HOUR)

    asyncio.run(scenario())


@pytest.mark.slow
def test_emptied_redis_grants_nothing_at_first() -> None:
    async def scenario(server: RedisServer) -> None:
        book = RedisBook(url=server.url())
        await book.open()
        assert (await say(book, "a", want(POLITE))).windows
        await asyncio.to_thread(server.empty)
        assert (await say(book, "b", want(POLITE), old=False)).refusals
        await book.close()

    with redis_server(fsync=False) as server:
        asyncio.run(scenario(server))


@pytest.mark.slow
def test_page_from_before_redis_was_emptied_is_not_written() -> None:
    async def scenario(server: RedisServer) -> None:
        book = RedisBook(url=server.url())
        await book.open()
        page = await book.read(["x"])
        await asyncio.to_thread(server.empty)
        assert not await book.write(page, {"x": LedgerEntry(pause="x")})
        await book.close()

    with redis_server(fsync=False) as server:
        asyncio.run(scenario(server))


@pytest.mark.slow
def test_redis_that_forgets_is_refused_and_one_that_is_away_may_come_back() -> None:
    with (
        redis_server(fsync=False, settings={"appendonly": "no"}) as server,
        pytest.raises(ConfigError, match="appendonly yes"),
    ):
        asyncio.run(RedisBook(url=server.url()).open())
    with pytest.raises(LedgerUnavailable):
        asyncio.run(RedisBook(url="redis://127.0.0.1:1/0").open())


def test_ledger_in_redis_is_found_by_its_scheme() -> None:
    assert plugins.load_one(plugins.LEDGERS, "redis")("redis://127.0.0.1:1/0").is_shared
