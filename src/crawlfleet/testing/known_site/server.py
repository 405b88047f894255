"""Serves the known site: `python -m crawlfleet.testing.known_site.server SPEC`.

As little as possible happens for a request, so that a server on one core is never what a crawler
on another waits for. The first line that it prints is its address.
"""

import asyncio
import socket
import sys
import time
from array import array
from typing import Final, cast

import msgspec
import uvloop

from crawlfleet.testing.known_site.graph import SiteSpec

LOG_PATH: Final = b"/__log"
NOT_FOUND: Final = (
    b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\nnot found"
)
BUSY: Final = b"HTTP/1.1 503 Busy\r\nContent-Type: text/html\r\n%sContent-Length: 4\r\n\r\nbusy"
MOVED: Final = b"HTTP/1.1 302 Found\r\nLocation: %s%s\r\nContent-Length: 0\r\n\r\n"
LAST: Final = b"\r\nConnection: close"
"""Proxies ask for that, and use a connection once."""
PAGE_PREFIX: Final = b"/p/"
MOVED_PREFIX: Final = b"/m/"
ROBOTS: Final = -1
OTHER: Final = -2


class SiteServer:
    """The answers, and the log of the questions."""

    def __init__(self, spec: SiteSpec) -> None:
        self.spec = spec
        self.pages = array("q")
        self.times = array("d")
        self.hosts = array("h")
        self._beginnings: dict[int, bytes] = {}
        self.busy = array("h")
        self.under_way = [0] * spec.hosts
        asks = spec.retry_after_s
        self._sorry = BUSY % (b"Retry-After: %d\r\n" % asks if asks else b"")
        self._failed: set[int] = set()

    def answer(self, path: bytes, host: int) -> tuple[bytes, float]:
        """The whole answer, and how long it takes."""
        spec, page = self.spec, OTHER
        if path.startswith(PAGE_PREFIX):
            number = path[len(PAGE_PREFIX) :].partition(b".")[0]
            if number.isdigit() and int(number) < spec.pages:
                page = int(number)
        elif path == b"/robots.txt":
            page = ROBOTS
        elif path == LOG_PATH:
            return self._log(), 0.0
        self.pages.append(page)
        self.times.append(time.time())
        self.hosts.append(host)
        self.busy.append(self.under_way[host])
        if path.startswith(MOVED_PREFIX):
            return MOVED % (PAGE_PREFIX, path[len(MOVED_PREFIX) :]), 0.0
        if page == ROBOTS:
            return self._robots(host), 0.0
        if page == OTHER or page % spec.hosts != host:
            return NOT_FOUND, 0.0
        if spec.failing and page not in self._failed and spec.fails_first(page):
            self._failed.add(page)
            return self._sorry, 0.0
        return self._page(page), spec.latency_s(page)

    def _page(self, page: int) -> bytes:
        # Only beginnings are kept: whole pages would be 400 MB for 20,000.
        beginning = self._beginnings.get(page)
        if beginning is None:
            beginning = self._beginnings[page] = self.spec.beginning(page)
        return _ok(self.spec.filled(beginning), b"text/html; charset=utf-8")

    def _robots(self, host: int) -> bytes:
        delays = self.spec.crawl_delay_s
        text = "User-agent: *\nDisallow: /private/\n"
        if host < len(delays) and delays[host]:
            text += f"Crawl-delay: {delays[host]:g}\n"
        return _ok(text.encode(), b"text/plain")

    def _log(self) -> bytes:
        log = {
            "pages": self.pages.tolist(),
            "times": self.times.tolist(),
            "hosts": self.hosts.tolist(),
            "busy": self.busy.tolist(),
        }
        return _ok(msgspec.json.encode(log), b"application/json")


def _ok(body: bytes, content_type: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    return head % (content_type, len(body)) + body


class SiteConnection(asyncio.Protocol):
    """Answers requests one after another."""

    def __init__(self, site: SiteServer) -> None:
        self._site = site
        self._buffer = b""
        self._host = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._host = int(transport.get_extra_info("sockname")[0].rpartition(".")[2])
        self._host -= self._site.spec.first_host

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            request, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            path = request.split(b" ", 2)[1]
            self._site.under_way[self._host] += 1
            answer, delay_s = self._site.answer(path, self._host)
            is_last = LAST in request
            if delay_s:
                asyncio.get_running_loop().call_later(delay_s, self._write, answer, is_last)
            else:
                self._write(answer, is_last)

    def _write(self, answer: bytes, is_last: bool) -> None:
        self._site.under_way[self._host] -= 1
        if not self._transport.is_closing():
            self._transport.write(answer)
            if is_last:
                self._transport.close()


async def serve(spec: SiteSpec) -> None:
    """Listen on the address of every host, until killed."""
    loop = asyncio.get_running_loop()
    addresses = [f"127.0.0.{spec.first_host + host}" for host in range(spec.hosts)]
    first = socket.create_server((addresses[0], spec.port), backlog=1024)
    port = first.getsockname()[1]
    site = SiteServer(msgspec.structs.replace(spec, port=port))
    await loop.create_server(lambda: SiteConnection(site), sock=first)
    for address in addresses[1:]:
        await loop.create_server(lambda: SiteConnection(site), address, port)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    # Whoever started this holds the other end: when that is gone, so is this.
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(serve(msgspec.json.decode(sys.argv[1], type=SiteSpec)))
