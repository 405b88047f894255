"""Runs a test that is a coroutine on sinks over one output, and makes pages for it."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from crawlfleet.model.crawl.extraction import Item
from crawlfleet.ports.sink import PageRecord, Sink

DEADLINE_S: Final = 60.0
NOW: Final = 1_763_193_600.25
KIND: Final = "products"
COLUMNS: Final = ("title", "price", "tags", "url")
"""The fields of every item."""


class FoundItem(NamedTuple):
    """One piece of output as a reader finds it."""

    url: str
    """URL of the item; where the output is whole pages, of the page."""
    content: Any = None
    """The title; where output is whole pages, the body."""


class SinkHarness:
    """Base of test classes; a sink's class describes it in these attributes."""

    WHOLE_PAGES = False
    """True if the output is pages, not items."""

    def make_sink(self, folder: Path) -> Sink:
        """A sink that is not open yet, for the output of that folder."""
        raise NotImplementedError

    def read(self, folder: Path) -> list[FoundItem]:
        """All that a reader of the finished output finds."""
        raise NotImplementedError

    def spoil(self, folder: Path) -> None:
        """Change the output so that it differs from the committed one, as by mistake."""
        raise NotImplementedError

    def snapshot(self, folder: Path) -> Any:
        """Return the state of the folder that must not change when a sink refuses to open."""
        return {
            path.relative_to(folder): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }

    def expected(self, numbers: Iterable[int]) -> list[FoundItem]:
        """Return the expected output of the pages with these numbers, sorted."""
        found: list[FoundItem] = []
        for number in numbers:
            made = page(number)
            if self.WHOLE_PAGES:
                found.append(FoundItem(made.url, made.body))
            else:
                found += [
                    FoundItem(item.fields["url"], item.fields["title"]) for item in made.items
                ]
        return sorted(found)

    def check(self, folder: Path, numbers: Iterable[int]) -> None:
        """The output has exactly these pages, each once."""
        assert sorted(self.read(folder)) == self.expected(numbers)


H = TypeVar("H", bound=SinkHarness)


def on_sinks(
    test: Callable[[H, Path], Awaitable[None]],
) -> Callable[[H, Path], None]:
    """Make a test of `async def test_…(self, folder)`."""

    def run(self: H, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with asyncio.timeout(DEADLINE_S):
                await test(self, tmp_path)

        asyncio.run(scenario())

    run.__name__ = run.__qualname__ = test.__name__
    run.__doc__ = test.__doc__
    return run


def page(number: int) -> PageRecord:
    """The page with that number: 0 to 3 items, some of them awkward."""
    url = f"https://shop.example/page/{number}"
    id = int.from_bytes(hashlib.blake2b(url.encode(), digest_size=8).digest(), signed=True)
    items = [
        Item(
            kind=KIND,
            fields={
                "title": f'Tea {number}.{at} "Größe", 茶\n2 lines \\u0000',
                "price": number + at / 4,
                "tags": ["green", {"n": at}] if at else None,
                "url": f"{url}#{at}",
            },
        )
        for at in range(number % 4)
    ]
    body = f"<h1>Page {number}</h1>é".encode() * (1 + number % 50)
    return PageRecord(
        id=id,
        url=url,
        at=NOW + number,
        items=items,
        status=200,
        headers=(("content-type", "text/html; charset=utf-8"), ("x-number", str(number))),
        body=body,
        address="192.0.2.7",
    )


def pages(numbers: Iterable[int]) -> list[PageRecord]:
    return [page(number) for number in numbers]


def kept(receipt: Any) -> Any:
    """A receipt as it comes back from where it was committed: as JSON."""
    return msgspec.json.decode(msgspec.json.encode(receipt))


async def begun(sink: Sink) -> Any:
    """Open for the first time; the receipt that is committed before any page."""
    await sink.open(None)
    return kept(await sink.stage([]))
