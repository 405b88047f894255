"""Ways through real proxies on the loopback, and what the guard sees of them."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator

import pytest
import uvloop

from crawlfleet.crawl.fetch.dns import Addresses, Names, NameUnknown
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.crawl.fetch.proxy import BadProxy, Proxy, read_proxy
from crawlfleet.model.crawl.parameters import Fetching, Limits, Outcome
from crawlfleet.testing.zoo import Zoo, open_zoo
from crawlfleet.testing.zoo.animal import PAGE

LIMITS = Limits(connect_s=30.0, first_byte_s=30.0, total_s=60.0)
SECRET = "Basic " + base64.b64encode(b"me:p@ss").decode()


class ProxyServer:
    """An HTTP proxy (CONNECT and whole URLs) and SOCKS5, in as few lines as will do."""

    def __init__(self, *, reply: bytes = b"HTTP/1.1 200 Go on\r\n\r\n") -> None:
        self.reply = reply
        self.asked: list[str] = []
        self.secrets: list[str | None] = []
        self.port = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            first = await reader.readexactly(1)
            await (self._socks if first == b"\x05" else self._http)(first, reader, writer)
        writer.close()

    async def _http(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode()
        line, *headers = head.split("\r\n")
        method, target, _ = line.split(" ")
        self.asked.append(f"{method} {target}")
        secret = [each for each in headers if each.lower().startswith("proxy-authorization: ")]
        self.secrets.append(secret[0].partition(": ")[2] if secret else None)
        if method == "CONNECT":
            writer.write(self.reply)
            if self.reply.startswith(b"HTTP/1.1 200"):
                host, _, port = target.rpartition(":")
                await self._join(reader, writer, host, int(port))
            return
        authority, _, path = target.removeprefix("http://").partition("/")
        host, _, port = authority.rpartition(":")
        near, far = await asyncio.open_connection("127.0.0.1", int(port))
        far.write(f"GET /{path} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        writer.write(await near.read())
        far.close()

    async def _socks(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        methods = await reader.readexactly((await reader.readexactly(1))[0])
        if 2 in methods:
            writer.write(b"\x05\x02")
            _, size = await reader.readexactly(2)
            name = await reader.readexactly(size)
            password = await reader.readexactly((await reader.readexactly(1))[0])
            self.secrets.append(f"{name.decode()}:{password.decode()}")
            writer.write(b"\x01\x00")
        else:
            writer.write(b"\x05\x00")
        _, _, _, kind = await reader.readexactly(4)
        if kind == 3:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        else:
            host = ".".join(map(str, await reader.readexactly(4)))
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.asked.append(f"SOCKS {host}:{port}")
        if not self.reply.startswith(b"HTTP/1.1 200"):
            writer.write(b"\x05\x02\x00\x01" + bytes(6))
            return
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await self._join(reader, writer, host, port)

    async def _join(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
    ) -> None:
        near, far = await asyncio.open_connection("127.0.0.1", port)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    sink.write(data)
            sink.close()

        await asyncio.gather(pump(reader, far), pump(near, writer))


@contextlib.asynccontextmanager
async def serve(proxy: ProxyServer, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    server = await asyncio.start_server(proxy.talk, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.fixture(scope="module")
def zoo() -> Iterator[Zoo]:
    with open_zoo() as zoo:
        yield zoo


class Book:
    def __init__(self, **addresses: str) -> None:
        self.addresses = addresses

    async def look_up(self, host: str) -> Addresses:
        if host not in self.addresses:
            raise NameUnknown(f"{host}: no address")
        return Addresses((self.addresses[host],), 60.0)

    async def close(self) -> None:
        pass


async def get(
    url: str, proxy: str, *, zoo: Zoo | None = None, allow_private: bool = True, **addresses: str
) -> Fetched:
    async with Fetcher(
        limits=LIMITS,
        fetching=Fetching(proxy=proxy),
        allow_private=allow_private,
        names=Names(Book(localhost="127.0.0.1", **addresses)),
        tls=zoo.certificates.client_context() if zoo else None,
    ) as fetcher:
        return await fetcher.fetch(FetchRequest(url=url))


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("kind", ["http", "https", "socks5"])
@pytest.mark.parametrize("target", ["http", "https"])
def test_pages_come_through_every_kind_of_proxy(zoo: Zoo, run, kind: str, target: str) -> None:
    async def scenario() -> None:
        proxy = ProxyServer()
        tls = zoo.certificates.server_context("good") if kind == "https" else None
        async with serve(proxy, tls) as port:
            there = zoo.ports["good" if target == "https" else "plain"]
            page = await get(
                f"{target}://localhost:{there}/plain",
                f"{kind}://me:p%40ss@localhost:{port}",
                zoo=zoo,
            )
            assert (page.outcome, page.body) == (Outcome.OK, PAGE), page.reason
            assert page.address == "127.0.0.1"
            assert proxy.secrets == ["me:p@ss" if kind == "socks5" else SECRET]
            if kind == "socks5":
                assert proxy.asked == [f"SOCKS localhost:{there}"]
            elif target == "https":
                assert proxy.asked == [f"CONNECT localhost:{there}"]
            else:
                assert proxy.asked == [f"GET http://localhost:{there}/plain"]

    run(scenario())


@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        ("http", b"HTTP/1.1 403 No\r\n\r\n"),
        ("http", b"HTTP/1.1 200 Go on\r\n\r\nand more"),
        ("http", b"nonsense\r\n\r\n"),
        ("http", b"x" * 40_000),
        ("http", b""),
        ("socks5", b"no"),
    ],
)
def test_a_proxy_that_refuses_is_no_connection(zoo: Zoo, kind: str, reply: bytes) -> None:
    async def scenario() -> None:
        async with serve(ProxyServer(reply=reply)) as port:
            page = await get(
                f"https://localhost:{zoo.ports['good']}/", f"{kind}://localhost:{port}"
            )
            assert page.outcome is Outcome.CONNECT
            assert page.reason

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["http", "https", "socks5"])
def test_a_proxy_that_is_not_there_is_no_connection(zoo: Zoo, kind: str) -> None:
    page = asyncio.run(get("http://localhost:1/", f"{kind}://localhost:{zoo.ports['closed']}"))

    assert page.outcome is Outcome.CONNECT


def test_the_certificate_behind_a_proxy_is_checked(zoo: Zoo) -> None:
    async def scenario() -> None:
        async with serve(ProxyServer()) as port:
            page = await get(
                f"https://localhost:{zoo.ports['wrong-host']}/plain",
                f"http://localhost:{port}",
                zoo=zoo,
            )
            assert page.outcome is Outcome.TLS

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["http", "https", "socks5"])
def test_the_address_of_the_proxy_is_guarded(kind: str) -> None:
    page = asyncio.run(
        get(
            "http://1.1.1.1/",
            f"{kind}://proxy.example:1",
            allow_private=False,
            **{"proxy.example": "10.0.0.1"},
        )
    )

    assert page.outcome is Outcome.REFUSED
    assert "10.0.0.1" in page.reason


@pytest.mark.parametrize(
    ("url", "allow_private"),
    [
        ("http://169.254.169.254/", True),
        ("http://2852039166/", True),
        ("https://[::ffff:169.254.169.254]/", True),
        ("http://metadata.google.internal/", True),
        ("http://10.0.0.1/", False),
        ("http://localhost/", False),
        ("http://app.localhost/", False),
        ("http://localhost./", False),
        ("http://metadata.google.internal./", True),
        ("http://inside.example/", False),
    ],
)
@pytest.mark.parametrize("kind", ["http", "socks5"])
def test_forbidden_targets_are_refused_before_the_proxy_hears_of_them(
    url: str, allow_private: bool, kind: str
) -> None:
    page = asyncio.run(
        get(
            url,
            f"{kind}://1.1.1.1:9",
            allow_private=allow_private,
            **{"inside.example": "192.168.1.1"},
        )
    )

    assert page.outcome is Outcome.REFUSED


def test_names_that_only_the_proxy_knows_are_left_to_it() -> None:
    async def scenario() -> None:
        proxy = ProxyServer(reply=b"HTTP/1.1 502 No\r\n\r\n")
        async with serve(proxy) as port:
            page = await get("https://far-away.example/", f"http://localhost:{port}")
            assert page.outcome is Outcome.CONNECT
            assert "502" in page.reason
            assert proxy.asked == ["CONNECT far-away.example:443"]

    asyncio.run(scenario())


def test_the_address_of_a_proxy_is_read() -> None:
    assert read_proxy("socks5://a:b%40@h.example") == Proxy("socks5", "h.example", 1080, "a", "b@")
    assert read_proxy("http://h.example:3128").authorization is None
    for url in ("h.example:3128", "ftp://h.example", "http://", "http://h:99999", "http://[::1"):
        with pytest.raises(BadProxy, match="proxy"):
            read_proxy(url)
