"""The server of the API: uvicorn, within bounds."""

import contextlib
from collections.abc import Iterator
from typing import Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES: Final = 256 * 1024
BODY_BYTES_UNCOUNTED: Final = 1 << 40


class BoundedHeaders(HttpToolsProtocol):
    """Refuses a request whose headers do not end: nobody has shown a key by then."""

    _unfinished_bytes = 0

    def data_received(self, data: bytes) -> None:
        self._unfinished_bytes += len(data)
        super().data_received(data)
        if self._unfinished_bytes > MAX_HEADER_BYTES:
            self.transport.close()

    def on_headers_complete(self) -> None:
        # The body is counted, and bounded, where it is read.
        self._unfinished_bytes = -BODY_BYTES_UNCOUNTED
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._unfinished_bytes = 0
        super().on_message_complete()


class Server(uvicorn.Server):
    """uvicorn, without its signal handlers: they would end the process before the store closes."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
