"""The fetcher's connections: kept, counted, given up and asked again at the right times."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from crawlfleet import __version__
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.model.crawl.parameters import Fetching, Limits, Outcome

LIMITS = Limits(connect_s=5.0, first_byte_s=5.0, idle_s=5.0, total_s=10.0)
PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"


CHUNKS = b"5\r\nhello\r\n0\r\n\r\n"


class Site:
    """A server that answers the n-th request of its m-th connection as told."""

    def __init__(self, answer: Callable[[int, int], bytes | None]) -> None:
        self._answer = answer
        self.heads: list[tuple[int, bytes]] = []
        """Requests with the number of their connection."""
        self.connections = 0
        self.open = self.most = 0
        self.hold: asyncio.Event | None = None

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, self.connections = self.connections, self.connections + 1
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            for turn in range(1000):
                self.heads.append((number, await reader.readuntil(b"\r\n\r\n")))
                if self.hold:
                    await self.hold.wait()
                if (data := self._answer(number, turn)) is None:
                    return
                writer.write(data)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()

    @property
    def used(self) -> list[int]:
        return [number for number, _ in self.heads]


@contextlib.asynccontextmanager
async def serve(answer: Callable[[int, int], bytes | None]) -> AsyncIterator[tuple[Site, str]]:
    site = Site(answer)
    server = await asyncio.start_server(site.talk, "127.0.0.1", 0)
    try:
        yield site, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def make(**settings: object) -> Fetcher:
    limits = settings.pop("limits", LIMITS)
    fetching = settings.pop("fetching", Fetching())
    return Fetcher(limits=limits, fetching=fetching, allow_private=True, **settings)


async def get(fetcher: Fetcher, url: str, **settings: object) -> Fetched:
    return await fetcher.fetch(FetchRequest(url=url, **settings))


def always(data: bytes | None) -> Callable[[int, int], bytes | None]:
    return lambda connection, turn: data


def test_a_connection_is_used_again() -> None:
    async def scenario() -> None:
        async with serve(always(PAGE)) as (site, url), make() as fetcher:
            for _ in range(3):
                assert (await get(fetcher, f"{url}/")).body == b"hello"
            assert site.used == [0, 0, 0]

    asyncio.run(scenario())


def test_a_kept_connection_that_died_is_replaced_once() -> None:
    async def scenario() -> None:
        def answer(connection: int, turn: int) -> bytes | None:
            return PAGE if turn == 0 else None

        async with serve(answer) as (site, url), make() as fetcher:
            for _ in range(3):
                assert (await get(fetcher, f"{url}/")).outcome is Outcome.OK
            assert site.used == [0, 0, 1, 1, 2]

    asyncio.run(scenario())


def test_a_new_connection_that_dies_is_not_replaced() -> None:
    async def scenario() -> None:
        async with serve(always(None)) as (site, url), make() as fetcher:
            page = await get(fetcher, f"{url}/")
            assert page.outcome is Outcome.BAD_RESPONSE
            assert "without an answer" in page.reason
            assert site.used == [0]

    asyncio.run(scenario())


def test_what_was_answered_in_part_is_not_asked_again() -> None:
    async def scenario() -> None:
        connections: list[int] = []

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.append(1)
            for data in (PAGE, PAGE[:30]):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(data)
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with server, make() as fetcher:
            assert (await get(fetcher, url)).outcome is Outcome.OK
            page = await get(fetcher, url)
            assert page.outcome is Outcome.BAD_RESPONSE
            assert "in the middle" in page.reason
            assert connections == [1]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "data",
    [
        PAGE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        PAGE.replace(b"HTTP/1.1", b"HTTP/1.0"),
        PAGE + b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled",
        PAGE + b"HTTP/1.1 2",
        PAGE + b"x",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    ],
    ids=["close", "http/1.0", "second answer", "begin of a second", "junk", "two lengths"],
)
def test_a_connection_in_doubt_is_not_used_again(data: bytes) -> None:
    async def scenario() -> None:
        async with serve(always(data)) as (site, url), make() as fetcher:
            for _ in range(2):
                page = await get(fetcher, f"{url}/")
                assert (page.outcome, page.body) == (Outcome.OK, b"hello")
            assert site.used == [0, 1]

    asyncio.run(scenario())


def test_what_comes_unasked_on_a_kept_connection_answers_nothing() -> None:
    async def scenario() -> None:
        late: list[asyncio.StreamWriter] = []

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            late.append(writer)
            with contextlib.suppress(asyncio.IncompleteReadError):
                while await reader.readuntil(b"\r\n\r\n"):
                    writer.write(PAGE)

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with server, make() as fetcher:
            await get(fetcher, url)
            late[0].write(PAGE.replace(b"hello", b"EVIL!"))
            await asyncio.sleep(0.1)
            assert (await get(fetcher, url)).body == b"hello"
            assert len(late) == 2
            for writer in late:
                writer.close()

    asyncio.run(scenario())


def test_unwanted_bodies_that_came_along_do_not_cost_the_connection() -> None:
    async def scenario() -> None:
        async with serve(always(PAGE)) as (site, url), make() as fetcher:
            for _ in range(2):
                page = await get(fetcher, f"{url}/", content_types=("image/*",))
                assert (page.outcome, page.body) == (Outcome.UNWANTED, b"")
            assert site.used == [0, 0]

    asyncio.run(scenario())


def test_head_has_no_body_whatever_its_length_says() -> None:
    async def scenario() -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"
        async with serve(always(head)) as (site, url), make() as fetcher:
            page = await get(fetcher, f"{url}/", method="HEAD")
            assert (page.outcome, page.body) == (Outcome.OK, b"")
            assert site.heads[0][1].startswith(b"HEAD / HTTP/1.1\r\n")

    asyncio.run(scenario())


def test_the_beginning_of_a_large_body_can_be_had() -> None:
    async def scenario() -> None:
        async with serve(always(PAGE)) as (_, url), make() as fetcher:
            page = await get(fetcher, f"{url}/", max_body_bytes=3, cut=True)
            assert (page.outcome, page.body) == (Outcome.TOO_LARGE, b"hel")
            page = await get(fetcher, f"{url}/", max_body_bytes=3)
            assert (page.outcome, page.body) == (Outcome.TOO_LARGE, b"")

    asyncio.run(scenario())


def test_not_modified_is_believed_when_conditions_were_sent() -> None:
    async def scenario() -> None:
        async with (
            serve(always(b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n")) as (site, url),
            make() as fetcher,
        ):
            page = await get(fetcher, f"{url}/", headers=(("If-None-Match", '"x"'),))
            assert page.outcome is Outcome.NOT_MODIFIED
            assert b'\r\nIf-None-Match: "x"\r\n' in site.heads[0][1]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/grüße?q=ß".encode(), "/gr%C3%BC%C3%9Fe?q=%C3%9F"),
        (b"/s?q=\xd6\xd0", "/s?q=%D6%D0"),
        ("/\xe9?中=".encode() + b"\xe9", "/%C3%A9?%E4%B8%AD=%E9"),
        (b"/a%20b?c", "/a%20b?c"),
    ],
)
def test_the_bytes_of_a_location_are_asked_for_as_they_are(location: bytes, expected: str) -> None:
    """As in Chromium."""

    async def scenario() -> None:
        data = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %s\r\n\r\n" % location
        async with serve(always(data)) as (_, url), make() as fetcher:
            page = await get(fetcher, f"{url}/")
            assert (page.outcome, page.header("location")) == (Outcome.REDIRECT, expected)

    asyncio.run(scenario())


def test_it_says_who_it_is() -> None:
    async def scenario() -> None:
        async with serve(always(PAGE)) as (site, url):
            fetching = Fetching(contact="https://bot.example/", headers={"Accept": "text/html"})
            async with make(fetching=fetching) as fetcher:
                await get(fetcher, f"{url}/a?b=c#d", headers=(("Cookie", "a=b"),))
                await get(fetcher, f"{url}/", headers=(("accept", "*/*"),))
        first, second = (head.decode() for _, head in site.heads)
        assert first.startswith("GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:")
        assert f"\r\nUser-Agent: crawlfleet/{__version__} (+https://bot.example/)\r\n" in first
        assert "\r\nAccept: text/html\r\n" in first
        assert "\r\nCookie: a=b\r\n" in first
        assert second.lower().count("\r\naccept:") == 1
        assert "\r\naccept: */*\r\n" in second

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "settings",
    [
        {"headers": (("X-A", "b\r\nX-C: d"),)},
        {"headers": (("X-A\r\nX-C", "d"),)},
        {"headers": (("X A", "d"),)},
        {"headers": (("Host", "other.example"),)},
        {"headers": (("Transfer-Encoding", "chunked"),)},
        {"proxy": "ftp://proxy.example"},
    ],
)
def test_requests_that_would_be_two_are_not_sent(settings: dict[str, object]) -> None:
    async def scenario() -> None:
        async with serve(always(PAGE)) as (site, url), make() as fetcher:
            page = await get(fetcher, f"{url}/", **settings)
            assert page.outcome is Outcome.REFUSED
            assert page.reason
            assert site.heads == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/a b", b"GET /a%20b HTTP/1.1\r\n"),
        ("/a\r\nX-B: c", b"GET /aX-B:%20c HTTP/1.1\r\n"),
        ("/grüße", b"GET /gr%C3%BC%C3%9Fe HTTP/1.1\r\n"),
        ("?q", b"GET /?q HTTP/1.1\r\n"),
        ("", b"GET / HTTP/1.1\r\n"),
    ],
)
def test_urls_that_are_not_canonical_are_made_so(path: str, line: bytes) -> None:
    async def scenario() -> None:
        async with serve(always(PAGE)) as (site, url), make() as fetcher:
            assert (await get(fetcher, url + path)).outcome is Outcome.OK
            assert site.heads[0][1].startswith(line)

    asyncio.run(scenario())


def test_no_more_connections_than_allowed_and_everyone_has_a_turn() -> None:
    async def scenario() -> None:
        async with (
            serve(always(PAGE)) as (one, url_one),
            serve(always(PAGE)) as (two, url_two),
            make(connections=3, per_host=2) as fetcher,
        ):
            one.hold = two.hold = asyncio.Event()
            asking = [
                asyncio.ensure_future(get(fetcher, f"{url}/"))
                for url in (url_one, url_two)
                for _ in range(20)
            ]
            while one.open + two.open < 3:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            assert (one.open, two.open) == (2, 1)
            one.hold.set()
            pages = await asyncio.gather(*asking)
            assert {page.outcome for page in pages} == {Outcome.OK}
            assert max(one.most, two.most) <= 2

    asyncio.run(scenario())


def test_a_request_that_is_given_up_takes_its_connection_along() -> None:
    async def scenario() -> None:
        async with serve(always(PAGE)) as (site, url), make(per_host=1) as fetcher:
            site.hold = asyncio.Event()
            first = asyncio.ensure_future(get(fetcher, f"{url}/"))
            waiting = [asyncio.ensure_future(get(fetcher, f"{url}/")) for _ in range(3)]
            while not site.heads:
                await asyncio.sleep(0.01)
            waiting[0].cancel()
            first.cancel()
            site.hold.set()
            pages = await asyncio.gather(first, *waiting, return_exceptions=True)
            assert [isinstance(page, asyncio.CancelledError) for page in pages] == [
                True,
                True,
                False,
                False,
            ]
            assert site.used == [0, 1, 1]

    asyncio.run(scenario())


def test_idle_connections_give_way_to_others_and_to_time() -> None:
    async def scenario() -> None:
        async with (
            serve(always(PAGE)) as (one, url_one),
            serve(always(PAGE)) as (two, url_two),
            make(connections=1, keep_s=0.1) as fetcher,
        ):
            await get(fetcher, f"{url_one}/")
            await get(fetcher, f"{url_two}/")
            await asyncio.sleep(0.01)
            assert (one.open, two.open) == (0, 1)
            for _ in range(500):
                if not two.open:
                    break
                await asyncio.sleep(0.01)
            assert two.open == 0

    asyncio.run(scenario())


def test_small_chunks_and_slow_headers_come_out_whole() -> None:
    async def scenario() -> None:
        body = bytes(range(97, 123)) * 200
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            for start in range(0, len(data), 1000):
                writer.write(data[start : start + 1000])
                await writer.drain()
                await asyncio.sleep(0)
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with server, make() as fetcher:
            page = await get(fetcher, url)
            assert (page.outcome, page.body) == (Outcome.OK, body)
            assert page.wire_bytes == len(data)
            assert 0 < page.first_byte_s <= page.elapsed_s
            assert page.address == "127.0.0.1"

    asyncio.run(scenario())
