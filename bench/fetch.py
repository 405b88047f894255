"""What fetching a page costs: our fetcher, aiohttp, and a bare httptools loop beside each other.

    .venv/bin/python -m bench.fetch [--quick] [--pages 20000] [--rounds 3]

Pages of 19 KB with ten headers over kept connections on the loopback, from a server in a process
of its own; CPU is that of the fetching process alone, uvloop everywhere. The bare loop writes a
fixed request and parses what comes: no limits, no guard, no pool, no headers kept, nothing
unpacked. Rounds take turns, so that a busy machine disturbs all alike; the best of each counts.
"""

import argparse
import asyncio
import gzip
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection as Pipe

import aiohttp
import httptools
import uvloop

from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.fetch.messages import FetchRequest
from crawlfleet.model.crawl.parameters import Fetching, Limits, Outcome

AT_ONCE = 16
LINK = '<p>Some words about a thing, and a <a href="/page/{0}">link to page {0}</a>.</p>\n'
PAGE = "".join(["<!doctype html><title>Page</title>\n", *(LINK.format(n) for n in range(240))])
BODY = PAGE.encode()[:19_000]
HEAD = (
    "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sun, 15 Nov 2026 10:00:00 GMT\r\n"
    "Content-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n"
    "Connection: keep-alive\r\nVary: Accept-Encoding\r\nCache-Control: max-age=60\r\n"
    'ETag: "33a64df5"\r\nLast-Modified: Sat, 14 Nov 2026 10:00:00 GMT\r\n{extra}\r\n'
)


class Site(asyncio.Protocol):
    """Answers every request with the same page; zipped at `/gzip`."""

    plain = HEAD.format(length=len(BODY), extra="").encode() + BODY
    _zipped = gzip.compress(BODY, 6)
    zipped = HEAD.format(length=len(_zipped), extra="Content-Encoding: gzip\r\n").encode() + _zipped

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(self.zipped if data.startswith(b"GET /gzip") else self.plain)


def serve(pipe: Pipe) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Site, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(pipe.recv)

    uvloop.run(run())


class Bare(asyncio.Protocol):
    """The least that can fetch."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        self._pieces: list[bytes] = []
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._done

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        self._done.set_result(b"".join(self._pieces))


async def spread(pages: int, one: Callable[[], Awaitable[None]]) -> float:
    """CPU seconds a page when a few are fetched at once."""
    left = iter(range(pages))

    async def work() -> None:
        for _ in left:
            await one()

    for _ in range(AT_ONCE):
        await one()
    began = time.process_time()
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return (time.process_time() - began) / pages


async def ours(url: str, pages: int) -> float:
    limits = Limits()
    async with Fetcher(limits=limits, fetching=Fetching(), allow_private=True) as fetcher:

        async def one() -> None:
            page = await fetcher.fetch(FetchRequest(url=url, content_types=limits.content_types))
            assert page.outcome is Outcome.OK
            assert len(page.body) == len(BODY)

        return await spread(pages, one)


async def by_aiohttp(url: str, pages: int) -> float:
    async with aiohttp.ClientSession() as session:

        async def one() -> None:
            async with session.get(url) as response:
                assert len(await response.read()) == len(BODY)

        return await spread(pages, one)


async def bare(url: str, pages: int) -> float:
    host, _, path = url.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    request = f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    idle = [(await loop.create_connection(Bare, name, int(port)))[1] for _ in range(AT_ONCE)]

    async def one() -> None:
        connection = idle.pop()
        await connection.ask(request)
        idle.append(connection)

    return await spread(pages, one)


WAYS = {"bare httptools loop": bare, "crawlfleet": ours, "aiohttp": by_aiohttp}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.fetch", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer pages")
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    pages = 3000 if options.quick else options.pages
    near, far = multiprocessing.Pipe()
    site = multiprocessing.get_context("spawn").Process(target=serve, args=(far,))
    site.start()
    try:
        address = f"http://127.0.0.1:{near.recv()}"
        for path in ("plain", "gzip"):
            print(f"\n{len(BODY)} bytes a page, {path}, {AT_ONCE} connections")
            best: dict[str, float] = {}
            for _ in range(options.rounds):
                for name, way in WAYS.items():
                    spent = uvloop.run(way(f"{address}/{path}", pages))
                    best[name] = min(spent, best.get(name, spent))
            for name, spent in best.items():
                print(f"{name:<22} {spent * 1e6:7.1f} CPU-us a page {1 / spent:9.0f} pages/CPU-s")
    finally:
        near.send(None)
        site.join()


if __name__ == "__main__":
    main()
