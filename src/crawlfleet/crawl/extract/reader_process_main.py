"""A process that reads pages for a crawl: `python -m crawlfleet.crawl.extract.reader_process_main
FD`.

`crawl.extract.limited_reader` starts it. It answers one page after another on a socket. The kernel
ends it when a page takes more CPU or memory than it may, also when the process of the crawl is
gone.
"""

import resource
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from selectolax.lexbor import SelectolaxError

from crawlfleet.core.pages.xpath import without_xpath
from crawlfleet.crawl.extract.limited_reader import (
    LENGTH_BYTES,
    PageAnswer,
    PageRequest,
    ReaderSettings,
)
from crawlfleet.crawl.extract.page_reader import GZIP, PageReader, decoded, read_failed
from crawlfleet.crawl.process_messages import decode, encode
from crawlfleet.model.crawl.reading import Reading

MAX_MEMORY_BYTES: Final = 3_000_000_000
"""The limit for a page of ten megabytes or more with its tree and all that is found on it, and for
a compressed sitemap, which is larger than it looks."""
PAGE_MEMORY_BYTES: Final = 500_000_000
"""The limit for any page; normal pages take a tenth."""
PAGE_MEMORY_PER_BYTE: Final = 250
"""Bytes by which the limit grows for each byte of a page. The parser copies a text again and again
while it joins many pieces: 2 MB of table rows without a table would take 6 GB."""


def main() -> None:
    """Read pages until the parent process closes the connection."""
    # Ctrl-C in the terminal is meant for the process of the crawl.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        try:
            _serve(connection)
        except (EOFError, OSError):
            return


def _serve(connection: socket.socket) -> None:
    settings = decode(_receive(connection), ReaderSettings)
    full = PageReader(settings.plan, product=settings.product)
    reduced = PageReader(without_xpath(settings.plan), product=settings.product)
    _send(connection, b"")
    while True:
        page = decode(_receive(connection), PageRequest)
        limit = memory_limit(page.body)
        _limit_memory(limit)
        signal.setitimer(signal.ITIMER_PROF, page.cpu_s)
        try:
            reading = _read(full if page.with_xpath else reduced, page)
            answer = encode(PageAnswer(reading))
        except (MemoryError, SelectolaxError) as error:
            answer = encode(PageAnswer(None, _memory_failed(error, page.body, limit)))
        except Exception as error:
            answer = encode(PageAnswer(None, read_failed(error)))
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(connection, answer)


def memory_limit(body: bytes) -> int:
    """Return how many bytes of memory reading a page may take."""
    if body.startswith(GZIP):
        return MAX_MEMORY_BYTES
    return min(MAX_MEMORY_BYTES, PAGE_MEMORY_BYTES + PAGE_MEMORY_PER_BYTE * len(body))


def _limit_memory(limit: int) -> None:
    """Limit the process to `limit` more bytes of memory than it has, but never beyond its own hard
    limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit += _data_bytes()
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _data_bytes() -> int:
    """Return the bytes that count towards the memory limit already; 0 where the system does not
    report them."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_bytes().split()[5]) * resource.getpagesize()
    return 0


def _memory_failed(error: Exception, body: bytes, limit: int) -> str:
    """Return the reason for a page whose reading ran out of memory.

    The HTML parser gives no reason when it gives up; too little memory is the only one known.
    """
    begin = "the HTML parser gave up" if isinstance(error, SelectolaxError) else "reading it failed"
    return (
        f"{begin}: it needs more memory than the {limit / 1e6:,.0f} MB that a page of "
        f"{len(body) / 1e6:.1f} MB may have; the page's mark-up is probably broken"
    )


def _read(reader: PageReader, page: PageRequest) -> Reading:
    text = decoded(page.body, page.content_type)
    return reader.read(
        text.utf8,
        page.url,
        charset=text.charset,
        status=page.status,
        content_type=page.content_type,
        robots_tags=page.robots_tags,
        headers=page.headers,
    )


def _receive(connection: socket.socket) -> bytes:
    length = int.from_bytes(_receive_exactly(connection, LENGTH_BYTES), "big")
    return _receive_exactly(connection, length)


def _receive_exactly(connection: socket.socket, length: int) -> bytes:
    message = bytearray(length)
    rest = memoryview(message)
    while rest:
        received = connection.recv_into(rest)
        if not received:
            raise EOFError
        rest = rest[received:]
    return bytes(message)


def _send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(len(message).to_bytes(LENGTH_BYTES, "big"))
    connection.sendall(message)


if __name__ == "__main__":
    main()
