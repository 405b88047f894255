"""One HTTP/2 connection, with the limits and outcomes of HTTP/1.1. Needs the extra `http2`.

One request at a time: how many a host gets at once is politeness's matter, and whatever goes wrong
with one answer then concerns no other. `h2` reads and writes frames; the guard has seen the address
of the socket, as ever. After any trouble the connection is not used again.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame

from crawlfleet.crawl.fetch.http1 import (
    _BODY,
    _HEAD,
    MAX_INTERIM,
    Http1Connection,
    RawResponse,
    Wanted,
    _Stop,
)
from crawlfleet.crawl.fetch.timeouts import TimeoutWatch
from crawlfleet.model.crawl.parameters import Limits, Outcome

ALPN: Final = "h2"
WINDOW_BYTES: Final = 1 << 19
"""Number of bytes that a server may send before we acknowledge them."""
SLICE_BYTES: Final = 8192
"""Number of bytes that are read at once: so many can be a thousand frames, each of which takes its
time."""
MAX_UNSENT_BYTES: Final = 1 << 20
"""Maximum size of replies to pings and settings that the server does not read."""
MAX_ASIDES: Final = 1000
"""Maximum number of frames during a request that are no part of the response: pings, settings,
empty ones."""
MAX_IDLE_BYTES: Final = 65_536
"""Number of bytes that a server may send while no request is under way."""

Fields = Sequence[tuple[bytes, bytes]]


class Choice(asyncio.Protocol):
    """Becomes a connection of the protocol that the server has chosen in the TLS handshake."""

    chosen: Http1Connection

    def __init__(self, limits: Limits, watch: TimeoutWatch) -> None:
        self._limits, self._watch = limits, watch

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tls = transport.get_extra_info("ssl_object")
        kind = Http2Connection if tls and tls.selected_alpn_protocol() == ALPN else Http1Connection
        self.chosen = kind(self._limits, self._watch)
        transport.set_protocol(self.chosen)
        self.chosen.connection_made(transport)


class _Frames(H2Connection):
    """Reads on after a GOAWAY: the answers to requests that came before it are still sent."""

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        event = ConnectionTerminated()
        event.error_code = frame.error_code
        event.last_stream_id = frame.last_stream_id
        return [], [event]


class _Head:
    """The head of a response, with the interface of the HTTP/1.1 parser."""

    status = 0

    def get_status_code(self) -> int:
        return self.status

    def should_keep_alive(self) -> bool:
        return True


class Http2Connection(Http1Connection):
    """Use `ask_for` for one request after another, and `close` in the end."""

    speaks_http2 = True

    def __init__(self, limits: Limits, watch: TimeoutWatch) -> None:
        super().__init__(limits, watch)
        self._parser: Any = _Head()
        self._frames = _Frames(H2Configuration(client_side=True, header_encoding=None))
        self._frames.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
                SettingCodes.MAX_HEADER_LIST_SIZE: limits.max_header_bytes,
            },
        )
        self._frames.decoder.max_header_list_size = limits.max_header_bytes
        self._stream = 0
        self._idle_bytes = self._asides = 0
        self._going = False
        """True when the server takes no more requests on this connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._frames.initiate_connection()
        self._frames.increment_flow_control_window(WINDOW_BYTES)
        self._send()

    @property
    def usable(self) -> bool:
        return not self._going and super().usable

    def ask_for(
        self, fields: Fields, wanted: Wanted, ends_at: float
    ) -> asyncio.Future[RawResponse]:
        """As `Http1Connection.ask`; `fields` are the header fields, those with a colon first."""
        self._idle_bytes = self._asides = 0
        try:
            self._stream = self._frames.get_next_available_stream_id()
            self._frames.send_headers(self._stream, fields, end_stream=True)
        except H2Error as error:  # such as a server that allows no stream at all
            answered = super().ask(b"", wanted, ends_at)
            self._fail(Outcome.BAD_RESPONSE, f"no request can be sent: {_told(error)}")
            return answered
        return super().ask(self._frames.data_to_send(), wanted, ends_at)

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            self._idle_bytes += len(data)
        else:
            self._answer.wire_bytes += len(data)
        try:
            for start in range(0, len(data), SLICE_BYTES):
                for event in self._frames.receive_data(data[start : start + SLICE_BYTES]):
                    self._take(event)
        except _Stop:
            self._conclude()
        except H2Error as error:
            self._break(f"not HTTP/2: {_told(error)}")
        self._send()
        if self._waiter is None:
            if self._going or self._idle_bytes > MAX_IDLE_BYTES:
                self.close()
        elif self._stage == _HEAD:
            if self._answer.wire_bytes > self._limits.max_header_bytes + MAX_IDLE_BYTES:
                self._fail(Outcome.BAD_RESPONSE, "endless headers")
        elif self._ignored and self._stage == _BODY:
            self._conclude()
        elif self._answer.wire_bytes > self._most_wire():
            self._fail(Outcome.TOO_LARGE, "more on the wire than any page needs")

    def _take(self, event: Event) -> None:
        if isinstance(event, ConnectionTerminated):
            self._going = True
            if self._waiter is not None and (event.last_stream_id or 0) < self._stream:
                self._refused("the server is going away")
        elif self._waiter is not None:
            if getattr(event, "stream_id", None) == self._stream:
                self._take_part(event)
            else:
                self._pass_over()

    def _pass_over(self) -> None:
        self._asides += 1
        if self._asides > MAX_ASIDES:
            self._stop(Outcome.BAD_RESPONSE, "frames and frames, and no answer in them")

    def _take_part(self, event: Event) -> None:
        """Take an event of the response that the connection waits for."""
        if isinstance(event, DataReceived):
            if length := event.flow_controlled_length:
                self._frames.acknowledge_received_data(length, self._stream)
            if event.data:
                self._last_at = time.monotonic()
                self.on_body(event.data)
            else:
                self._pass_over()
        elif isinstance(event, ResponseReceived):
            self._take_head(event.headers or ())
        elif isinstance(event, StreamEnded):
            self.on_message_complete()
            self._complete()
        elif isinstance(event, StreamReset):
            if event.error_code == ErrorCodes.REFUSED_STREAM:
                self._refused("the server would not take the request")
            else:
                self._break(f"the server broke off ({_code(event.error_code)})")
        elif isinstance(event, InformationalResponseReceived):
            self._interim += 1
            if self._interim > MAX_INTERIM:
                self._stop(Outcome.BAD_RESPONSE, "interim answers and no real one")

    def check(self, now: float) -> None:
        """Fail the request when it exceeds a time limit, as for HTTP/1.1. Only frames of the
        response count as progress."""
        limits = self._limits
        if now >= self._ends_at:
            self._fail(Outcome.TIMEOUT, f"not finished within {limits.total_s:g} s")
        elif self._stage == _HEAD:
            if now >= self.sent_at + limits.first_byte_s:
                self._fail(Outcome.TIMEOUT, f"no answer within {limits.first_byte_s:g} s")
        elif now >= self._last_at + limits.idle_s:
            self._fail(Outcome.TIMEOUT, f"silent for {limits.idle_s:g} s in the middle")

    def _take_head(self, headers: Sequence[Any]) -> None:
        self._last_at = self._answer.first_at = time.monotonic()
        for name, value in headers:
            if name == b":status":
                self._parser.status = int(value)
            else:
                self.on_header(name, value)
        self.on_headers_complete()
        # Here a body has an end of its own: a connection that closes before it has broken off.
        self._to_close = False
        self._answer.reusable = not self._going

    def _refused(self, reason: str) -> None:
        """Nothing was done about the request: it may be sent again elsewhere, as one that met a
        connection that was closed."""
        self._answer.wire_bytes = 0
        self._break(reason)

    def _break(self, reason: str) -> None:
        if self._waiter is not None:
            self._fail(Outcome.BAD_RESPONSE, reason)
        else:
            self.close()

    def _finish(self) -> None:
        if self._going:
            self._answer.reusable = False
        super()._finish()

    def _send(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if data := self._frames.data_to_send():
            transport.write(data)
            if transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
                self._break("it asks and asks, and reads no answer")


def _told(error: H2Error) -> str:
    return (str(error) or type(error).__name__).strip().lower()[:200]


def _code(code: Any) -> str:
    try:
        return ErrorCodes(code).name.replace("_", " ").lower()
    except ValueError:
        return f"code {code}"
