"""What the master answers to executions, when what it keeps is away."""

import asyncio
from pathlib import Path

import pytest

from crawlfleet.adapters.ledger.memory import MemoryBook
from crawlfleet.adapters.locks.redis import RedisLocks
from crawlfleet.errors import Busy
from crawlfleet.features.crawls import ledger
from crawlfleet.features.crawls.ledger import LedgerService
from crawlfleet.features.crawls.locks import LockService


def test_ledger_that_cannot_be_opened_ends_nobody_s_work_and_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "OPEN_EVERY_S", 0.01)
    in_the_way = tmp_path / "data"
    in_the_way.write_text("a file")

    async def scenario() -> None:
        book = MemoryBook(path=in_the_way / "pauses.jsonl")
        asked = LedgerService(state=None, book=book)  # type: ignore[arg-type]
        running = asyncio.create_task(asked.run())
        await asyncio.sleep(0.05)
        assert not running.done()
        with pytest.raises(Busy):
            await asked.hosts()
        in_the_way.unlink()
        async with asyncio.timeout(30):
            while True:
                try:
                    assert await asked.hosts() == []
                    break
                except Busy:
                    await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
        with pytest.raises(Busy):
            await asked.hosts()

    asyncio.run(scenario())


def test_master_starts_while_the_redis_of_its_locks_is_away() -> None:
    async def scenario() -> None:
        locks = RedisLocks(url="redis://127.0.0.1:1/0")
        asked = LockService(locks)
        await asked.open()
        await asked.close()

    asyncio.run(scenario())
