"""One HTTP/1.1 connection: it sends a request and returns the response as a `RawResponse`.

Whatever the other side does, either the response is complete, or `trouble` names the fault. Nothing
is kept beyond the limits: a body that is too long, too slow or not wanted ends the connection. The
hot path is a plain page that comes in one or two reads; it makes no timer, no avoidable copy, and
no object but the response.
"""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Final

import httptools
from httptools.parser.errors import HttpParserError, HttpParserUpgrade

from crawlfleet.crawl.fetch.decoding import Decoder, Overflowing, Undecodable, decoder
from crawlfleet.crawl.fetch.lenient_headers import LONGEST_END, has_end, mended
from crawlfleet.crawl.fetch.response import judge
from crawlfleet.crawl.fetch.timeouts import TimeoutWatch
from crawlfleet.model.crawl.parameters import Limits, Outcome

MAX_HEADERS: Final = 500
MAX_INTERIM: Final = 16
"""Maximum number of interim responses (1xx) before the final one."""
ASIDE_BYTES: Final = 65_536
"""Maximum size of the body of an error or redirect. Longer ones are cut: the status says enough."""
STREAM_BYTES: Final = 65_536
"""Size of the pieces in which an encoded body is decoded; a smaller body is decoded at once."""
FOLD: Final = 256
"""Number of small pieces that are joined at once, since each takes more memory than its bytes."""

_NAMES: Final[dict[bytes, str]] = {}
"""Names of headers as they come and as we write them; the same few all the time."""
_BEYOND_ASCII: Final = re.compile("[\x80-\xff]")
_CLEAN: Final = dict.fromkeys((*range(32), 127), " ")

_NO_HEADER: Final = "Invalid header token"
"""The parser's error for a header line without a valid name."""

_IDLE, _HEAD, _BODY, _DONE = range(4)


class _Stop(Exception):
    """Ends the parsing; the response contains the reason."""


class Wanted:
    """The limits that one request sets for its response."""

    __slots__ = ("conditional", "cut", "head", "max_body_bytes", "takes")

    def __init__(
        self,
        *,
        takes: Callable[[str], bool],
        max_body_bytes: int,
        head: bool = False,
        conditional: bool = False,
        cut: bool = False,
    ) -> None:
        self.takes = takes
        self.max_body_bytes = max_body_bytes
        self.head, self.conditional, self.cut = head, conditional, cut


class RawResponse:
    """The response, as far as it came."""

    __slots__ = (
        "body",
        "content_type",
        "first_at",
        "headers",
        "outcome",
        "reason",
        "reusable",
        "status",
        "wire_bytes",
    )

    def __init__(self) -> None:
        self.outcome = Outcome.BAD_RESPONSE
        self.reason = ""
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.content_type = ""
        self.body = b""
        self.wire_bytes = 0
        self.first_at = 0.0
        """Time of the first byte on the monotonic clock; 0 when nothing came at all."""
        self.reusable = False
        """True when the connection can take another request."""


class Http1Connection(asyncio.Protocol):
    """Use `ask` for one request after another, and `close` in the end."""

    speaks_http2 = False

    def __init__(self, limits: Limits, watch: TimeoutWatch) -> None:
        self.address = ""
        self.asked = 0
        self.on_lost: Callable[[Http1Connection], None] | None = None
        self.idle_since = 0.0
        self._limits = limits
        self._watch = watch
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()  # each time would ask the system who we are
        self._parser = _parser(self)
        self._stage = _IDLE
        self._waiter: asyncio.Future[RawResponse] | None = None

    # The life of the connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._waiter is not None:
            self._end_by_closing(error)
        if self.on_lost is not None:
            self.on_lost(self)

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Close the connection at once; a request under way fails."""
        if self._transport is not None:
            self._transport.abort()

    # One exchange.

    def ask(self, request: bytes, wanted: Wanted, ends_at: float) -> asyncio.Future[RawResponse]:
        """Send a request and return the response before `ends_at`, complete or with the reason why
        it is not. Its outcome is never OK unless all of it has come."""
        now = time.monotonic()
        self.asked += 1
        self._wanted = wanted
        self._answer = RawResponse()
        self.sent_at = self._last_at = now
        self._ends_at = ends_at
        self._read: list[bytes] = []
        """All that has come, while the head has no end."""
        self._odd: bytearray | None = None
        """Likewise, from when a line of the head turned out to be no header."""
        self._is_mended = False
        self._pieces: list[bytes] = []
        self._folded: bytearray | None = None
        self._size = self._fed = 0
        self._interim = 0
        self._decoder: Decoder | None = None
        self._limit = wanted.max_body_bytes
        self._ignored = self._to_close = self._surplus = False
        self._stage = _HEAD
        waiter = self._waiter = self._loop.create_future()
        self._watch.add(self)
        if self._transport is None:
            self._end_by_closing(None)
        else:
            self._transport.write(request)
        return waiter

    def check(self, now: float) -> None:
        """Fail the request when a time limit has passed. The watch calls this now and then."""
        limits = self._limits
        if now >= self._ends_at:
            self._fail(Outcome.TIMEOUT, f"not finished within {limits.total_s:g} s")
        elif not self._answer.wire_bytes:
            if now >= self.sent_at + limits.first_byte_s:
                self._fail(Outcome.TIMEOUT, f"no answer within {limits.first_byte_s:g} s")
        elif now >= self._last_at + limits.idle_s:
            self._fail(Outcome.TIMEOUT, f"silent for {limits.idle_s:g} s in the middle")

    def data_received(self, data: bytes) -> None:
        answer = self._answer if self._stage != _IDLE else None
        if answer is None or self._waiter is None:
            self.close()  # nobody asked
            return
        self._last_at = time.monotonic()
        if not answer.wire_bytes:
            answer.first_at = self._last_at
        answer.wire_bytes += len(data)
        try:
            if self._stage == _HEAD:
                self._feed_head(data)
            else:
                self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._fail(Outcome.BAD_RESPONSE, "it changed the protocol unasked")
            return
        except HttpParserError as error:
            if self._stage != _DONE:
                self._fail_parsing(error)
                return
            self._surplus = True  # after a whole answer: junk
        if self._stage == _DONE:
            self._complete()
        elif self._stage == _HEAD:
            if answer.wire_bytes > self._limits.max_header_bytes:
                self._fail(Outcome.BAD_RESPONSE, "endless headers")
        elif self._ignored:
            self._conclude()
        elif answer.wire_bytes > self._most_wire():
            self._fail(Outcome.TOO_LARGE, "more on the wire than any page needs")

    def _feed_head(self, data: bytes) -> None:
        """Read on; and from the beginning, without the lines that are no headers, where the parser
        has met one."""
        if self._odd is None:
            self._read.append(data)
            try:
                self._parser.feed_data(data)
            except HttpParserError as error:
                if self._stage != _HEAD or self._is_mended or str(error) != _NO_HEADER:
                    raise
                self._odd = bytearray()
                data = b"".join(self._read)
            else:
                return
        seen = len(self._odd)
        self._odd += data
        if has_end(self._odd, seen - LONGEST_END) and (whole := mended(bytes(self._odd))):
            self._is_mended = True
            self._odd = None
            self._interim = 0
            self._answer.headers.clear()
            self._parser = _parser(self)
            self._parser.feed_data(whole)

    # What the parser finds.

    def on_message_begin(self) -> None:
        if self._stage == _DONE:
            self._surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._stage != _HEAD:
            return  # a trailer
        key = _NAMES.get(name) or _header_name(name)
        text = value.decode("latin-1")
        if not text.isprintable():
            text = text.translate(_CLEAN).strip()
        self._answer.headers.append((key, text))

    def on_headers_complete(self) -> None:
        if self._stage != _HEAD:
            return
        answer, wanted = self._answer, self._wanted
        answer.status = self._parser.get_status_code()
        self._bound_headers()
        if 100 <= answer.status < 200:
            return
        headers = dict(answer.headers)
        answer.reusable = self._parser.should_keep_alive()
        answer.outcome, answer.reason = judge(
            answer.status, location="location" in headers, conditional=wanted.conditional
        )
        answer.content_type = headers.get("content-type", "")
        self._stage = _BODY
        length = headers.get("content-length")
        self._to_close = length is None
        if "transfer-encoding" in headers:
            self._check_transfer(length)
        self._ignored = wanted.head
        if answer.outcome is not Outcome.OK:
            self._limit = min(self._limit, ASIDE_BYTES)
            if answer.outcome is Outcome.REDIRECT:
                answer.headers = [_escaped(header) for header in answer.headers]
        elif not wanted.takes(answer.content_type):
            answer.outcome = Outcome.UNWANTED
            answer.reason = f"the body is {answer.content_type[:100]}"
            self._ignored = True
        elif self._is_too_long(length):
            self._stop(Outcome.TOO_LARGE, f"a body of {length} bytes")
        if "content-encoding" in headers and not self._ignored:
            try:
                self._decoder = decoder(self._joined("content-encoding"), self._limit)
            except Undecodable as error:
                self._stop(Outcome.BAD_CONTENT, str(error))

    def on_body(self, data: bytes) -> None:
        if self._ignored or self._stage != _BODY:
            return
        self._size += len(data)
        if self._size > self._limit:
            self._pieces.append(data[: self._limit - self._size])
            self._stop(Outcome.TOO_LARGE, f"a body of more than {self._limit} bytes")
        pieces = self._pieces
        pieces.append(data)
        if len(pieces) >= FOLD:
            self._fold()
        if self._decoder is not None and self._size - self._fed >= STREAM_BYTES:
            self._decode(self._taken())

    def on_message_complete(self) -> None:
        if self._stage == _BODY:
            self._stage = _DONE
        elif self._stage == _HEAD:  # an interim answer, and the real one follows
            self._interim += 1
            self._answer.headers.clear()
            if self._answer.status == 101 or self._interim > MAX_INTERIM:
                self._stop(Outcome.BAD_RESPONSE, "interim answers and no real one")

    # How it ends.

    def _complete(self) -> None:
        """Finish a response of which all has come."""
        if not self._ignored:
            try:
                if self._decoder is None:
                    self._answer.body = self._taken()
                else:
                    self._decode(self._taken())
                    self._answer.body = self._decoder.finish()
            except _Stop:
                self._conclude()
                return
            except Undecodable as error:
                self._note(Outcome.BAD_CONTENT, f"not what its encoding says: {error}")
        self._finish()

    def _conclude(self) -> None:
        """Finish a response early; its rest is not read."""
        self._answer.reusable = False
        if self._wanted.cut or self._answer.outcome is not Outcome.TOO_LARGE:
            self._answer.body = self._taken() if self._decoder is None else self._decoder.taken()
        self._finish()

    def _fail(self, outcome: Outcome, reason: str) -> None:
        self._note(outcome, reason)
        self._conclude()

    def _fail_parsing(self, error: HttpParserError) -> None:
        cause = error.__context__
        if cause is None:
            self._note(Outcome.BAD_RESPONSE, f"not HTTP: {str(error).lower()}")
        elif not isinstance(cause, _Stop):
            raise cause  # a mistake of ours: the loop logs it and ends the connection
        self._conclude()

    def _end_by_closing(self, error: Exception | None) -> None:
        if self._stage == _BODY and self._to_close and error is None:
            self._answer.reusable = False
            self._complete()
        elif self._answer.wire_bytes:
            self._fail(Outcome.BAD_RESPONSE, "the connection was closed in the middle")
        else:
            self._fail(Outcome.BAD_RESPONSE, "the connection was closed without an answer")

    def _finish(self) -> None:
        answer, waiter = self._answer, self._waiter
        if self._surplus or self._transport is None or self._is_mended:
            # Who sends such heads may see ends of answers elsewhere, too.
            answer.reusable = False
        self._stage, self._waiter = _IDLE, None
        self._pieces, self._folded, self._decoder = [], None, None
        self._read, self._odd = [], None
        self._watch.discard(self)
        if not answer.reusable:
            self.close()
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    def _note(self, outcome: Outcome, reason: str) -> None:
        """Record a fault, unless the status shows a worse one."""
        answer = self._answer
        if self._stage == _HEAD or answer.outcome is Outcome.OK:
            answer.outcome, answer.reason = outcome, reason

    def _stop(self, outcome: Outcome, reason: str) -> None:
        self._note(outcome, reason)
        raise _Stop

    # Small steps.

    def _bound_headers(self) -> None:
        headers = self._answer.headers
        if len(headers) > MAX_HEADERS:
            self._stop(Outcome.BAD_RESPONSE, f"{len(headers)} headers")
        if self._answer.wire_bytes > self._limits.max_header_bytes:
            size = sum(len(name) + len(value) + 4 for name, value in headers)
            if size > self._limits.max_header_bytes:
                self._stop(Outcome.BAD_RESPONSE, f"headers of {size} bytes")

    def _check_transfer(self, length: str | None) -> None:
        transfer = self._joined("transfer-encoding")
        codings = {each.strip() for each in transfer.lower().split(",")}
        if not codings <= {"chunked", "identity", ""}:
            self._stop(Outcome.BAD_RESPONSE, f"a transfer encoding nobody asked for: {transfer}")
        self._to_close = "chunked" not in codings
        if length is not None:
            # Two ends for one body: whoever stood in between may have seen another one.
            self._answer.reusable = False

    def _is_too_long(self, length: str | None) -> bool:
        """Return whether the Content-Length alone shows that the body is too large."""
        if length is None or self._ignored or self._wanted.cut:
            return False
        return int(length) > self._limit

    def _joined(self, name: str) -> str:
        return ",".join(value for each, value in self._answer.headers if each == name)

    def _most_wire(self) -> int:
        """Bytes on the wire beyond which the chunks' frames are more than the body can need."""
        return self._limits.max_header_bytes + 2 * self._limit + STREAM_BYTES

    def _fold(self) -> None:
        if self._folded is None:
            self._folded = bytearray()
        self._folded += b"".join(self._pieces)
        self._pieces.clear()

    def _taken(self) -> bytes:
        """Return all pieces since the last call, joined."""
        if self._folded is not None:
            self._fold()
            whole, self._folded = bytes(self._folded), None
            return whole
        pieces, self._pieces = self._pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _decode(self, data: bytes) -> None:
        assert self._decoder is not None
        self._fed = self._size
        try:
            self._decoder.feed(data)
        except Undecodable as error:
            self._stop(Outcome.BAD_CONTENT, f"not what its encoding says: {error}")
        except Overflowing as error:
            self._stop(Outcome.TOO_LARGE, str(error))


def _parser(connection: Http1Connection) -> httptools.HttpResponseParser:
    """Line feeds without carriage return, folded lines and spaces are common and do no harm; a
    length beside chunks is passed over, and the connection not used again."""
    parser = httptools.HttpResponseParser(connection)
    parser.set_dangerous_leniencies(
        lenient_headers=True,
        lenient_optional_cr_before_lf=True,
        lenient_chunked_length=True,
        lenient_spaces_after_chunk_size=True,
    )
    return parser


def _escaped(header: tuple[str, str]) -> tuple[str, str]:
    """Percent-encode bytes beyond ASCII in a Location header as they came, UTF-8 or not, as
    browsers do."""
    name, value = header
    if name != "location" or value.isascii():
        return header
    return name, _BEYOND_ASCII.sub(lambda found: f"%{ord(found[0]):02X}", value)


def _header_name(name: bytes) -> str:
    text = name.decode("latin-1").strip().lower()
    if len(_NAMES) < 1000 and len(name) < 64:
        _NAMES[name] = text
    return text
