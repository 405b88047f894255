"""HTTP/2 behind the fetcher's seam: against a server of another make, and what it promises."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import uvloop
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived
from hypercorn.asyncio import serve
from hypercorn.config import Config
from hyperframe.frame import GoAwayFrame, PingFrame, RstStreamFrame

from crawlfleet.crawl.fetch import dial
from crawlfleet.crawl.fetch import fetcher as fetch
from crawlfleet.crawl.fetch.dial import tls_context
from crawlfleet.crawl.fetch.dns import Addresses, Names
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.crawl.fetch.request import Manner
from crawlfleet.model.crawl.parameters import Fetching, Limits, Outcome
from crawlfleet.testing.zoo import Zoo, open_zoo

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zoo")]
LIMITS = Limits(connect_s=5.0, first_byte_s=5.0, idle_s=5.0, total_s=15.0)


@pytest.fixture(scope="module")
def zoo() -> Iterator[Zoo]:
    with open_zoo() as zoo:
        yield zoo


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[Any]], Any]:
    return uvloop.run if request.param == "uvloop" else asyncio.run


def fetcher_for(zoo: Zoo, *, allow_private: bool = True, **options: Any) -> Fetcher:
    context = zoo.certificates.client_context()
    names = options.pop("names", None)
    return Fetcher(
        limits=LIMITS,
        fetching=Fetching(**options),
        allow_private=allow_private,
        tls=context,
        names=names,
    )


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Says how it was asked."""
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"].removeprefix("lifespan.")
            await send({"type": f"lifespan.{kind}.complete"})
            if kind == "shutdown":
                return
    headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
    told = f"{scope['http_version']} {scope['raw_path'].decode()}?{scope['query_string'].decode()}"
    told += f" {headers.get('cookie', '')} {headers.get('accept-encoding', '')}"
    body = told.encode("latin-1") if scope["path"] != "/long" else b"x" * 3_000_000
    fields = [(b"content-type", b"text/html"), (b"etag", b'"1"')]
    status = 304 if headers.get("if-none-match") == '"1"' else 200
    await send({"type": "http.response.start", "status": status, "headers": fields})
    body = b"" if status == 304 or scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def hypercorn(zoo: Zoo, alpn: list[str]) -> AsyncIterator[int]:
    folder = zoo.certificates.authority.parent
    config, over = Config(), asyncio.Event()
    config.bind = ["127.0.0.1:0"]
    config.certfile, config.keyfile = str(folder / "good.pem"), str(folder / "good.key")
    config.alpn_protocols, config.errorlog = alpn, None
    sockets = config.create_sockets()
    config.create_sockets = lambda: sockets  # type: ignore[method-assign]
    sockets.secure_sockets[0].listen()
    port = sockets.secure_sockets[0].getsockname()[1]
    serving = asyncio.create_task(serve(app, config, shutdown_trigger=over.wait))  # type: ignore
    try:
        yield port
    finally:
        over.set()
        await asyncio.wait([serving], timeout=10)


@pytest.mark.parametrize(
    ("offered", "asked", "spoken"),
    [
        (["h2", "http/1.1"], True, "2"),
        (["h2", "http/1.1"], False, "1.1"),
        (["http/1.1"], True, "1.1"),
    ],
)
def test_http2_is_spoken_where_both_sides_offer_it(
    zoo: Zoo, run: Any, offered: list[str], asked: bool, spoken: str
) -> None:
    async def scenario() -> list[Fetched]:
        async with hypercorn(zoo, offered) as port, fetcher_for(zoo, http2=asked) as fetcher:
            if not asked:
                fetcher._dialler._tls.set_alpn_protocols(["http/1.1"])
            url = f"https://localhost:{port}/a%20b?c=d"
            cookie = (("Cookie", "k=\xe9"),)
            pages = [await fetcher.fetch(FetchRequest(url=url, headers=cookie)) for _ in range(3)]
            conditional = FetchRequest(url=url, headers=(("If-None-Match", '"1"'),))
            pages.append(await fetcher.fetch(conditional))
            pages.append(await fetcher.fetch(FetchRequest(url=url, method="HEAD")))
            long = FetchRequest(url=f"https://localhost:{port}/long")
            pages.append(await fetcher.fetch(long))
            assert fetcher._pool.idle == 1, "one connection serves them all"
            return pages

    *pages, unchanged, head, long = run(scenario())
    for page in pages:
        assert page.outcome is Outcome.OK, page.reason
        assert page.body.decode("latin-1").startswith(f"{spoken} /a%20b?c=d k=\xe9 gzip")
        assert page.header("content-type") == "text/html"
        assert page.address == "127.0.0.1"
    assert unchanged.outcome is Outcome.NOT_MODIFIED
    assert (head.outcome, head.body) == (Outcome.OK, b"")
    assert (long.outcome, len(long.body)) == (Outcome.OK, 3_000_000)


def test_many_requests_at_once_each_get_their_own_answer(zoo: Zoo, run: Any) -> None:
    async def scenario() -> list[Fetched]:
        async with hypercorn(zoo, ["h2"]) as port, fetcher_for(zoo) as fetcher:
            urls = [f"https://localhost:{port}/{number}" for number in range(60)]
            return await asyncio.gather(*(fetcher.fetch(FetchRequest(url=url)) for url in urls))

    for number, page in enumerate(run(scenario())):
        assert page.outcome is Outcome.OK, page.reason
        assert page.body.startswith(f"2 /{number}?".encode())


def test_without_the_extra_it_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    offered: list[bool] = []

    def context(*, verify: bool, http2: bool = False) -> ssl.SSLContext:
        offered.append(http2)
        return tls_context(verify=verify, http2=http2)

    async def scenario() -> None:
        for fetching in (Fetching(), Fetching(http2=False)):
            async with Fetcher(limits=LIMITS, fetching=fetching, allow_private=False) as fetcher:
                assert fetcher._dialler._tls  # made when it is needed

    monkeypatch.setattr(dial, "tls_context", context)
    asyncio.run(scenario())
    monkeypatch.setattr(fetch, "find_spec", lambda _: None)
    asyncio.run(scenario())

    assert offered == [True, False, False, False]


def test_the_guard_looks_at_the_address_all_the_same(zoo: Zoo) -> None:
    class Book:
        async def look_up(self, host: str) -> Addresses:
            return Addresses(("127.0.0.1",), 60.0)

        async def close(self) -> None: ...

    async def scenario() -> Fetched:
        async with fetcher_for(zoo, allow_private=False, names=Names(Book())) as fetcher:
            url = f"https://plain.zoo.localhost:{zoo.ports['http2']}/plain"
            return await fetcher.fetch(FetchRequest(url=url))

    assert asyncio.run(scenario()).outcome is Outcome.REFUSED


Turn = Callable[[H2Connection, int, asyncio.StreamWriter], None]


def answer(http: H2Connection, stream: int, writer: asyncio.StreamWriter) -> None:
    http.send_headers(stream, [(":status", "200"), ("content-type", "text/html")])
    http.send_data(stream, b"fine", end_stream=True)
    writer.write(http.data_to_send())


def go_away(http: H2Connection, stream: int, writer: asyncio.StreamWriter) -> None:
    writer.write(GoAwayFrame(0, last_stream_id=stream - 2, error_code=0).serialize())


def refuse(http: H2Connection, stream: int, writer: asyncio.StreamWriter) -> None:
    writer.write(RstStreamFrame(stream, error_code=7).serialize())


def chatter(http: H2Connection, stream: int, writer: asyncio.StreamWriter) -> None:
    answer(http, stream, writer)
    writer.write(PingFrame(0, opaque_data=b"12345678").serialize() * 20_000)


@contextlib.asynccontextmanager
async def scripted(zoo: Zoo, *turns: Turn) -> AsyncIterator[tuple[int, list[int]]]:
    """Answers request after request as it is told; the streams of each connection are noted."""
    left, connections = [*turns], []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = H2Connection(H2Configuration(client_side=False))
        http.initiate_connection()
        writer.write(http.data_to_send())
        connections.append(0)
        mine = len(connections) - 1
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                for event in http.receive_data(data):
                    if isinstance(event, RequestReceived):
                        connections[mine] += 1
                        left.pop(0)(http, event.stream_id or 0, writer)
                writer.write(http.data_to_send())
        writer.close()

    tls = zoo.certificates.server_context("good", http2=True)
    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1], connections
    finally:
        server.close()


@pytest.mark.parametrize("unheard", [go_away, refuse])
def test_a_request_that_a_kept_connection_did_not_take_is_sent_again(
    zoo: Zoo, run: Any, unheard: Turn
) -> None:
    """As one that met a connection that was closed; on a new connection it would be an outcome."""

    async def scenario() -> tuple[list[Fetched], list[int]]:
        async with (
            scripted(zoo, answer, unheard, answer, answer) as (port, connections),
            fetcher_for(zoo) as fetcher,
        ):
            url = f"https://localhost:{port}/"
            pages = [await fetcher.fetch(FetchRequest(url=url)) for _ in range(3)]
            return pages, connections

    pages, connections = run(scenario())
    assert [page.outcome for page in pages] == [Outcome.OK] * 3
    assert connections == [2, 2]


def test_a_server_that_talks_to_itself_is_left(zoo: Zoo, run: Any) -> None:
    async def scenario() -> tuple[list[Fetched], list[int]]:
        async with (
            scripted(zoo, chatter, answer) as (port, connections),
            fetcher_for(zoo) as fetcher,
        ):
            url = f"https://localhost:{port}/"
            pages = [await fetcher.fetch(FetchRequest(url=url))]
            async with asyncio.timeout(60):
                while fetcher._pool.idle:
                    await asyncio.sleep(0.02)
            pages.append(await fetcher.fetch(FetchRequest(url=url)))
            return pages, connections

    pages, connections = run(scenario())
    assert [page.outcome for page in pages] == [Outcome.OK] * 2
    assert connections == [1, 1]


def test_fields_are_those_of_the_request(zoo: Zoo) -> None:
    manner = Manner(Fetching(headers={"X-Own": "1", "TE": "trailers"}, user_agent="me/1"))
    fields = manner.fields("GET", "/a?b", "h:8443", (("Cookie", "a=b"), ("Accept", "*/*")))

    assert fields[:4] == [
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":authority", b"h:8443"),
        (b":path", b"/a?b"),
    ]
    rest = dict(fields[4:])
    assert rest[b"user-agent"] == b"me/1"
    assert (rest[b"x-own"], rest[b"cookie"], rest[b"accept"]) == (b"1", b"a=b", b"*/*")
    assert b"te" not in rest
