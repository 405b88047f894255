"""Serves the demo shop. The first line that it prints is its address."""

import argparse
import itertools
import os
import sys
import threading
import time
import zlib
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from crawlfleet.testing.demo_shop import pages
from crawlfleet.testing.demo_shop.catalogue import (
    BY_PATH,
    CATEGORIES,
    PER_CATEGORY,
    PER_PAGE,
    POSTS,
    PRODUCTS,
)

SLOW_S: Final = 1.5
ROBOTS: Final = "User-agent: *\nDisallow: /admin/\nCrawl-delay: 0\n"
MOVED: Final = {"/old-shop": "/shop-2019", "/shop-2019": "/shop", "/shop": "/"}
LAST_YEAR: Final = 9999


class ShopAnswer(NamedTuple):
    body: str
    status: int = 200
    kind: str = "text/html; charset=utf-8"
    location: str = ""
    tag: str = ""
    """Changes when the page does; the session in its links does not count."""


class Shop:
    """Finds the answer to a request. Remembers one thing: whether `/flaky` has failed yet."""

    def __init__(self) -> None:
        self._sessions = itertools.count(0xC0FFEE)
        self._failed = False

    def answer(self, target: str) -> ShopAnswer:
        parts = urlsplit(target)
        path, query = parts.path.partition(";")[0], parse_qs(parts.query)
        if path in MOVED:
            return ShopAnswer("", 302, location=MOVED[path])
        if path == "/robots.txt":
            return ShopAnswer(ROBOTS, kind="text/plain; charset=utf-8")
        if path.startswith("/image/"):
            return self._image(path)
        title, body, status = self._content(path, {name: each[0] for name, each in query.items()})
        session = f"{next(self._sessions):032x}"
        tag = f'"{zlib.crc32(f"{title}{body}".encode()):08x}"' if status == 200 else ""
        return ShopAnswer(pages.page(title, body, session=session), status, tag=tag)

    def _content(self, path: str, query: dict[str, str]) -> tuple[str, str, int]:
        if path in BY_PATH:
            return BY_PATH[path].title, pages.product(BY_PATH[path]), 200
        first, *rest = path.strip("/").split("/")
        match first, rest:
            case "", []:
                return "Welcome", pages.home(), 200
            case "category", [name] if name in CATEGORIES:
                number = _number(query.get("page", "1"), 1 + (PER_CATEGORY - 1) // PER_PAGE)
                if number:
                    return name.title(), pages.category(name, number), 200
            case "blog", []:
                return "Blog", pages.blog(), 200
            case "blog", [post] if number := _number(post, len(POSTS)):
                return POSTS[number - 1].title, pages.post(POSTS[number - 1]), 200
            case "search", []:
                number = _number(query.get("page", "1"), sys.maxsize) or 1
                words = query.get("q", "")
                sort, colour = query.get("sort", ""), query.get("colour", "")
                return "Search", pages.search(words, sort, colour, number), 200
            case "calendar", []:
                return "Events", pages.calendar(datetime.now(UTC).year, 1), 200
            case "calendar", [year, month] if _number(year, LAST_YEAR) and _number(month, 12):
                return "Events", pages.calendar(int(year), int(month)), 200
            case _:
                return self._peculiar(first)
        return _missing()

    def _peculiar(self, name: str) -> tuple[str, str, int]:
        match name:
            case "slow":
                time.sleep(SLOW_S)
                return "Warehouse", pages.message("Warehouse", "That took a while."), 200
            case "flaky":
                failed, self._failed = self._failed, True
                if not failed:
                    return "Stock", pages.message("Out of order", "Please come again."), 500
                return "Stock", pages.message("Stock", "Everything is counted now."), 200
            case "account" | "basket":
                return name.title(), pages.message(name.title(), "There is nothing here yet."), 200
            case "admin":
                return "Staff", pages.message("Staff only", "Crawlers are asked to stay out."), 200
        return _missing()

    def _image(self, path: str) -> ShopAnswer:
        number = _number(path.removeprefix("/image/").removesuffix(".png"), sys.maxsize)
        found = [product for product in PRODUCTS if product.number == number]
        if not found:
            return ShopAnswer("no such picture", 404, "text/plain")
        return ShopAnswer(pages.picture(found[0]), kind="image/svg+xml")


def _missing() -> tuple[str, str, int]:
    return "Not found", pages.message("Not found", "There is no such page."), 404


def _number(text: str, most: int) -> int:
    """Return the number in the text if it is between 1 and `most`, otherwise 0."""
    return int(text) if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= most else 0


class Counter(BaseHTTPRequestHandler):
    """Serves requests to the shop."""

    protocol_version = "HTTP/1.1"
    shop: Shop

    def do_GET(self) -> None:
        answer = self.shop.answer(self.path)
        if answer.tag and self.headers.get("If-None-Match") == answer.tag:
            answer = ShopAnswer("", 304, tag=answer.tag)
        body = answer.body.encode()
        self.send_response(answer.status)
        if answer.status != 304:
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(body)))
        if answer.tag:
            self.send_header("ETag", answer.tag)
        if answer.location:
            self.send_header("Location", answer.location)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 (the name that the library looks for)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the log of the crawl is what matters."""


def serve(port: int, *, until_stdin_ends: bool) -> None:
    """Serve on the loopback, until killed."""
    handler = type("Served", (Counter,), {"shop": Shop()})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}/\n")
    sys.stdout.flush()
    if until_stdin_ends:
        # Whoever started this holds the other end: when that is gone, so is this.
        threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="crawlfleet.testing.demo_shop", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="a free one by default")
    parser.add_argument("--until-stdin-ends", action="store_true")
    chosen = parser.parse_args()
    serve(chosen.port, until_stdin_ends=chosen.until_stdin_ends)
