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
from typing import Final

from crawlfleet.core.pages.xpath import without_xpath
from crawlfleet.crawl.extract.limited_reader import (
    LENGTH_BYTES,
    PageAnswer,
    PageRequest,
    ReaderSettings,
)
from crawlfleet.crawl.extract.page_reader import PageReader, decoded, read_failed
from crawlfleet.crawl.process_messages import decode, encode
from crawlfleet.model.crawl.reading import Reading

MEMORY_BYTES: Final = 3_000_000_000
"""The page with its tree, and all that is found on it. A page of ten megabytes takes a third."""


def main() -> None:
    """Read pages until nobody wants any more."""
    # Ctrl-C in the terminal is meant for the process of the crawl.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
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
        signal.setitimer(signal.ITIMER_PROF, page.cpu_s)
        try:
            reading = _read(full if page.with_xpath else reduced, page)
            answer = encode(PageAnswer(reading))
        except Exception as error:
            answer = encode(PageAnswer(None, read_failed(error)))
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(connection, answer)


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
