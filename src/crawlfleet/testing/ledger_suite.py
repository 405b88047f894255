"""Conformance tests for books of the politeness ledger: subclass the suite, and pytest finds the
rest.

    class TestMyBook(LedgerBookSuite):
        def make_book(self, folder: Path) -> LedgerBook:
            return MyBook(url=...)

Each test gets a book that was just made and opened, and must find it empty.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from crawlfleet.core.politeness import ledger
from crawlfleet.model.crawl.politeness_entry import LedgerEntry
from crawlfleet.model.wire.politeness import (
    LedgerReply,
    LedgerRequest,
    Pause,
    Return,
    Terms,
    WindowRequest,
)
from crawlfleet.ports.ledger import LedgerBook

DEADLINE_S = 60.0
POLITE = Terms("host:a", 1.0, 1)


class LedgerHarness:
    def make_book(self, folder: Path) -> LedgerBook:
        """A book that is not open yet; for the same folder, the same."""
        raise NotImplementedError


H = TypeVar("H", bound=LedgerHarness)


def on_book(test: Callable[[H, LedgerBook], Awaitable[None]]) -> Callable[[H, Path], None]:
    """Make a test of `async def test_…(self, book)`."""

    def run(self: H, tmp_path: Path) -> None:
        async def scenario() -> None:
            book = self.make_book(tmp_path)
            async with asyncio.timeout(DEADLINE_S):
                await book.open()
                try:
                    await test(self, book)
                finally:
                    await book.close()

        asyncio.run(scenario())

    run.__name__ = run.__qualname__ = test.__name__
    run.__doc__ = test.__doc__
    return run


async def say(book: LedgerBook, name: str, ask: LedgerRequest, *, old: bool = True) -> LedgerReply:
    """A whole exchange, as a master does it; `old` as if the book had been begun long ago."""
    keys = sorted(ledger.keys_of(ask))
    while True:
        page = await book.read(keys)
        born = page.now - 1000.0 if old else page.born
        changes, told = ledger.exchange(
            page.entries, ask, name=name, now=page.now, born=born, living=lambda _: True
        )
        if await book.write(page, changes):
            return told


def want(*terms: Terms) -> LedgerRequest:
    return LedgerRequest(wants=(WindowRequest(host="h", keys=terms),))


class LedgerBookSuite(LedgerHarness):
    """Every sentence of `LedgerBook`, and the ledger's decisions on it."""

    @on_book
    async def test_what_was_written_is_read(self, book: LedgerBook) -> None:
        page = await book.read(["x", "y"])
        assert page.entries == {}
        entry = LedgerEntry(paused_until=page.now + 100.0, pause="because", next_at=page.now + 5.0)
        assert await book.write(page, {"x": entry})
        again = await book.read(["x", "y"])
        assert again.entries == {"x": entry}
        assert again.now >= page.now
        assert (await book.browse(10)).entries == {"x": entry}

    @on_book
    async def test_of_two_writes_from_one_page_the_second_is_refused(
        self, book: LedgerBook
    ) -> None:
        page = await book.read(["x", "y"])
        assert await book.write(page, {"x": LedgerEntry(paused_until=page.now + 50.0)})
        later = LedgerEntry(paused_until=page.now + 60.0)
        assert not await book.write(page, {"x": later, "y": later})
        found = await book.read(["x", "y"])
        assert found.entries == {"x": LedgerEntry(paused_until=page.now + 50.0)}
        assert await book.write(page, {"y": later}), "of that one the page is still true"

    @on_book
    async def test_engines_that_ask_at_once_get_one_window(self, book: LedgerBook) -> None:
        told = await asyncio.gather(*(say(book, f"e{n}", want(POLITE)) for n in range(20)))
        assert sum(bool(each.windows) for each in told) == 1
        assert sum(bool(each.refusals) for each in told) == 19

    @on_book
    async def test_window_that_is_given_back_goes_to_the_next(self, book: LedgerBook) -> None:
        assert (await say(book, "a", want(POLITE))).windows
        assert (await say(book, "b", want(POLITE))).refusals
        await say(book, "a", LedgerRequest(returns=(Return(key="host:a"),)))
        (window,) = (await say(book, "b", want(POLITE))).windows
        assert window.delay_s == 1.0

    @on_book
    async def test_pause_is_there_for_all_and_after_a_restart(self, book: LedgerBook) -> None:
        pause = Pause(key="host:a", for_s=100.0, why="Retry-After")
        await say(book, "a", LedgerRequest(pauses=(pause,)))
        await book.close()
        await book.open()
        (refusal,) = (await say(book, "b", want(POLITE))).refusals
        assert refusal.is_pause
        assert refusal.why == "Retry-After"
        assert 90.0 < refusal.again_in_s <= 100.0

    @on_book
    async def test_nothing_is_granted_too_early_after_a_restart(self, book: LedgerBook) -> None:
        """The book remembers the window after a restart, or knows that it may have forgotten
        one."""
        assert (await say(book, "a", want(POLITE))).windows
        await book.close()
        await book.open()
        assert (await say(book, "b", want(POLITE), old=False)).refusals
