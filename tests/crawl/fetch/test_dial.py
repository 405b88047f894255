"""The guard on real connections: whatever leads to the loopback is stopped before it connects."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from crawlfleet.crawl.fetch.dns import Addresses, Names, NameUnknown
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.model.crawl.parameters import Fetching, Limits, Outcome

LIMITS = Limits(connect_s=3.0, first_byte_s=5.0, total_s=10.0)


class Book:
    """Answers each question with the next list of addresses."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def look_up(self, host: str) -> Addresses:
        self.asked.append(host)
        await asyncio.sleep(0)
        if not self.answers or not self.answers[0]:
            raise NameUnknown(f"{host}: no address")
        return Addresses(tuple(self.answers.pop(0)), 0.0)

    async def close(self) -> None:
        pass


@asynccontextmanager
async def site() -> AsyncIterator[tuple[int, list[str]]]:
    visits: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        visits.append(head.split(b" ")[1].decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\ninside")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], visits


async def get(url: str, book: Book | None = None, *, allow_private: bool = False) -> Fetched:
    async with Fetcher(
        limits=LIMITS,
        fetching=Fetching(),
        allow_private=allow_private,
        names=Names(book) if book else None,
    ) as fetcher:
        return await fetcher.fetch(FetchRequest(url=url))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::]",
        "[0:0:0:0:0:ffff:7f00:0001]",
        "[64:ff9b::7f00:1]",
        "１２７.0.0.1",
        "127。0。0。1",
    ],
)
def test_no_spelling_of_the_loopback_gets_through(host: str) -> None:
    async def scenario() -> None:
        async with site() as (port, visits):
            page = await get(f"http://{host}:{port}/")
            assert page.outcome is Outcome.REFUSED, page.reason
            assert "loopback" in page.reason or "no destination" in page.reason
            assert visits == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["::ffff:127.0.0.1"], ["::1"]]
)
def test_names_that_lead_inside_are_refused(addresses: list[str]) -> None:
    async def scenario() -> None:
        async with site() as (port, visits):
            page = await get(f"http://inside.example:{port}/", Book(addresses))
            assert page.outcome is Outcome.REFUSED
            assert "inside.example" in page.reason
            assert visits == []

    asyncio.run(scenario())


def test_a_name_that_changes_its_answer_gains_nothing() -> None:
    async def scenario() -> None:
        async with site() as (port, visits):
            book = Book(["127.0.0.1"], ["169.254.169.254"])
            async with Fetcher(
                limits=LIMITS, fetching=Fetching(), allow_private=True, names=Names(book)
            ) as fetcher:
                page = await fetcher.fetch(FetchRequest(url=f"http://a.example:{port}/"))
                assert page.body == b"inside"
                assert len(book.answers) == 1  # one look-up: what was checked was connected to
                page = await fetcher.fetch(FetchRequest(url=f"http://b.example:{port}/"))
                assert page.outcome is Outcome.REFUSED
                assert "metadata" in page.reason
            assert len(visits) == 1

    asyncio.run(scenario())


def test_forbidden_answers_are_left_out_when_others_remain() -> None:
    async def scenario() -> None:
        async with site() as (port, _):
            book = Book(["169.254.169.254", "127.0.0.1", "0.0.0.0"])
            page = await get(f"http://a.example:{port}/", book, allow_private=True)
            assert (page.body, page.address) == (b"inside", "127.0.0.1")

    asyncio.run(scenario())


def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async def scenario() -> None:
        async with site() as (port, _):
            book = Book(["127.0.0.9", "::1", "127.0.0.1"])
            page = await get(f"http://a.example:{port}/", book, allow_private=True)
            assert (page.body, page.address) == (b"inside", "127.0.0.1")

    asyncio.run(scenario())


@pytest.mark.slow
def test_an_address_that_never_answers_gets_only_its_share_of_the_time() -> None:
    async def scenario() -> None:
        async with site() as (port, _):
            with contextlib.ExitStack() as stack:
                deaf = stack.enter_context(socket.socket())
                deaf.bind(("127.0.0.9", port))
                deaf.listen(0)
                for _ in range(3):  # its queue is full then, and nobody takes from it
                    waiting = stack.enter_context(socket.socket())
                    waiting.setblocking(False)
                    waiting.connect_ex(("127.0.0.9", port))
                book = Book(["127.0.0.9", "127.0.0.1"])
                page = await get(f"http://a.example:{port}/", book, allow_private=True)
                assert (page.body, page.address) == (b"inside", "127.0.0.1")
                page = await get(f"http://127.0.0.9:{port}/", allow_private=True)
                assert page.outcome is Outcome.TIMEOUT

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_name_server_that_never_answers_is_a_matter_of_names() -> None:
    class Deaf(Book):
        async def look_up(self, host: str) -> Addresses:
            await asyncio.Event().wait()
            raise AssertionError

    page = asyncio.run(get("http://a.example/", Deaf()))
    assert page.outcome is Outcome.DNS


def test_private_addresses_can_be_allowed() -> None:
    async def scenario() -> None:
        async with site() as (port, _):
            page = await get(f"http://localhost:{port}/", allow_private=True)
            assert page.body == b"inside"

    asyncio.run(scenario())


def test_a_name_is_asked_for_once_however_many_want_it() -> None:
    async def scenario() -> None:
        book = Book(["192.0.2.1"])
        names = Names(book)
        found = await asyncio.gather(*(names.addresses("a.example") for _ in range(20)))
        assert set(found) == {("192.0.2.1",)}
        assert book.asked == ["a.example"]

    asyncio.run(scenario())


def test_whoever_waits_for_a_look_up_asks_again_when_it_was_given_up() -> None:
    async def scenario() -> None:
        class Slow(Book):
            async def look_up(self, host: str) -> Addresses:
                if len(self.asked) == 0:
                    self.asked.append(host)
                    await asyncio.Event().wait()
                return await super().look_up(host)

        names = Names(Slow(["192.0.2.1"]))
        first = asyncio.ensure_future(names.addresses("a.example"))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(names.addresses("a.example"))
        await asyncio.sleep(0)
        first.cancel()
        assert await asyncio.wait_for(second, 5) == ("192.0.2.1",)

    asyncio.run(scenario())


def test_names_are_forgotten_beyond_a_bound() -> None:
    async def scenario() -> None:
        book = Book(*[["192.0.2.1"]] * 4)
        names = Names(book, size=2)
        for host in ("a.example", "b.example", "c.example", "b.example", "a.example"):
            await names.addresses(host)
        assert book.asked == ["a.example", "b.example", "c.example", "a.example"]

    asyncio.run(scenario())


def test_unknown_names_are_remembered_for_a_moment() -> None:
    async def scenario() -> None:
        book = Book()
        names = Names(book)
        for _ in range(3):
            with pytest.raises(NameUnknown, match=r"a\.example"):
                await names.addresses("a.example")
        assert book.asked == ["a.example"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("127.0.0.1", "127.0.0.1 is "),
        ("[::1]", "::1 is "),
        ("localhost", "localhost: "),
    ],
)
def test_a_refusal_names_the_address_once(host: str, words: str) -> None:
    page = asyncio.run(get(f"http://{host}:9/"))
    assert page.outcome is Outcome.REFUSED
    assert page.reason.startswith(words)
    assert page.reason.count("127.0.0.1") + page.reason.count("::1") == 1
