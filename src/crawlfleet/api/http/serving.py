"""The HTTP server of the API: uvicorn with limits."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from crawlfleet.api.http.authentication import CONNECTION
from crawlfleet.control.nodes.lost_connections import NodeConnection

MAX_HEADER_BYTES: Final = 256 * 1024
BODY_BYTES_UNCOUNTED: Final = 1 << 40


MAX_LINES_PER_MINUTE: Final = 6
_STRANGE: Final = ("Invalid HTTP request received.", "Unsupported upgrade request.")
"""The messages that uvicorn logs for each connection that sends no valid HTTP."""


class InvalidRequestLogFilter(logging.Filter):
    """Limits the log lines about connections that send no HTTP to a few per minute, so that a
    client that opens thousands of them does not fill the log. Each line has the number of lines
    that were left out before it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._minute = -1
        self._lines = self._suppressed_lines = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if str(record.msg).startswith("No supported WebSocket library"):
            return False  # there are none here, and nobody is to install one
        if record.msg not in _STRANGE:
            return True
        minute = int(self._clock() / 60.0)
        if minute != self._minute:
            self._minute, self._lines = minute, 0
        self._lines += 1
        if self._lines > MAX_LINES_PER_MINUTE:
            self._suppressed_lines += 1
            return False
        if self._suppressed_lines:
            record.msg = (
                f"{record.msg} So did {self._suppressed_lines} before that were not told of."
            )
            self._suppressed_lines = 0
        return True


INVALID_REQUEST_LOG_FILTER: Final = InvalidRequestLogFilter()


class TrackedConnection(HttpToolsProtocol):
    """A connection that its requests can refer to, and that is marked as lost when it ends.

    It is closed when the headers of a request exceed `MAX_HEADER_BYTES`: the client has not shown a
    key by then.
    """

    _unfinished_bytes = 0
    _is_closed_here = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._connection = NodeConnection()

    def data_received(self, data: bytes) -> None:
        self._unfinished_bytes += len(data)
        super().data_received(data)
        if self._unfinished_bytes > MAX_HEADER_BYTES:
            self.transport.close()

    def on_headers_complete(self) -> None:
        # The body is counted, and bounded, where it is read.
        self._unfinished_bytes = -BODY_BYTES_UNCOUNTED
        self.scope[CONNECTION] = self._connection  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._unfinished_bytes = 0
        super().on_message_complete()

    def timeout_keep_alive_handler(self) -> None:
        self._is_closed_here = True
        super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        self._is_closed_here = True
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        # Not by how it ends: over TLS both sides may end it with the same error.
        answered = self.cycle is not None and self.cycle.response_complete
        is_last = answered and not self.cycle.keep_alive
        self._connection.lose(by_peer=not (self._is_closed_here or is_last))


class ApiServer(uvicorn.Server):
    """uvicorn without its signal handlers: they would end the process before the store is
    closed."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        logging.getLogger("uvicorn.error").addFilter(INVALID_REQUEST_LOG_FILTER)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
