"""Animals that speak HTTP/2, or something like it. Each has a name of its own, and robots.txt.

`h2` writes what is right; what is wrong is written as frames, or as bytes. Needs the extra `http2`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import RequestReceived
from h2.settings import SettingCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
)

from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.testing.zoo.animal import PAGE, Animal

HTML: Final = (("content-type", "text/html"),)
LONG: Final = b"<!doctype html><title>Long</title>" + b"<p>All of this has to come.</p>" * 20_000
"""Longer than the window that a connection begins with."""


class Guest:
    """The client of a request on a stream, as a handler sees it."""

    def __init__(
        self,
        http: H2Connection,
        stream: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.http, self.stream = http, stream
        self._reader, self._writer = reader, writer

    async def flush(self) -> None:
        self._writer.write(self.http.data_to_send())
        await self._writer.drain()

    async def head(self, *fields: tuple[str, str], status: int = 200, end: bool = False) -> None:
        self.http.send_headers(self.stream, [(":status", str(status)), *fields], end_stream=end)
        await self.flush()

    async def page(self, body: bytes = PAGE, *fields: tuple[str, str], status: int = 200) -> None:
        """A whole answer, no faster than the guest takes it."""
        await self.head(*HTML, *fields, status=status)
        while body:
            room = self.http.local_flow_control_window(self.stream)
            piece = body[: min(room, self.http.max_outbound_frame_size)]
            if piece:
                body = body[len(piece) :]
                self.http.send_data(self.stream, piece, end_stream=not body)
                await self.flush()
            else:
                await self.listen()

    async def listen(self) -> None:
        """Wait until the client sends something."""
        data = await self._reader.read(65_536)
        if not data:
            raise ConnectionResetError("the guest is gone")
        self.http.receive_data(data)
        await self.flush()

    async def frames(self, *frames: Any) -> None:
        """As they are, right or wrong."""
        await self.raw(b"".join(frame.serialize() for frame in frames))

    async def raw(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise ConnectionResetError("the guest is gone")
        self._writer.write(data)
        await self._writer.drain()
        await asyncio.sleep(0.001)  # neither of them lets others in while there is room

    async def wait(self) -> None:
        while await self._reader.read(65_536):
            pass


Behaviour = Callable[[Guest], Awaitable[None]]


async def _plain(guest: Guest) -> None:
    await guest.page()


async def _long(guest: Guest) -> None:
    await guest.page(LONG)


async def _goaway_kindly(guest: Guest) -> None:
    """Send GOAWAY, and finish the stream that was begun."""
    await guest.head(*HTML)
    await guest.frames(GoAwayFrame(0, last_stream_id=guest.stream, error_code=0))
    guest.http.send_data(guest.stream, PAGE, end_stream=True)
    await guest.flush()


async def _goaway_unheard(guest: Guest) -> None:
    await guest.frames(GoAwayFrame(0, last_stream_id=0, error_code=0))
    await guest.wait()


async def _goaway_angrily(guest: Guest) -> None:
    await guest.head(*HTML)
    await guest.frames(GoAwayFrame(0, last_stream_id=0, error_code=ErrorCodes.ENHANCE_YOUR_CALM))


def _resets(code: ErrorCodes, *, halfway: bool = False) -> Behaviour:
    async def behave(guest: Guest) -> None:
        if halfway:
            await guest.head(*HTML)
            guest.http.send_data(guest.stream, PAGE[:20])
            await guest.flush()
        await guest.frames(RstStreamFrame(guest.stream, error_code=code))
        await guest.wait()

    return behave


async def _giant_headers(guest: Guest) -> None:
    """A few bytes on the wire, and a hundred times as many when they are unpacked."""
    fields = [("x-same", "a" * 4000)] * 100
    await guest.head(*HTML, *fields, end=True)


async def _many_headers(guest: Guest) -> None:
    await guest.head(*HTML, *((f"x-{number}", "1") for number in range(600)), end=True)


async def _endless_headers(guest: Guest) -> None:
    await guest.frames(HeadersFrame(guest.stream, data=b"\x88"))
    while True:
        await guest.frames(ContinuationFrame(guest.stream, data=b"\x00\x01a\x01b" * 20))


async def _starving(guest: Guest) -> None:
    """Announce a body, and send none of it."""
    await guest.head(*HTML)
    await guest.wait()


async def _silent(guest: Guest) -> None:
    await guest.wait()


async def _pinging(guest: Guest) -> None:
    while True:
        await guest.frames(PingFrame(0, opaque_data=b"12345678"))
        await asyncio.sleep(0.05)


async def _settings_flood(guest: Guest) -> None:
    """Sends and sends, and reads nothing."""
    while True:
        await guest.frames(*[SettingsFrame(0, settings={SettingCodes.ENABLE_PUSH: 0})] * 500)


async def _empty_frames(guest: Guest) -> None:
    await guest.head(*HTML)
    while True:
        await guest.frames(*[DataFrame(guest.stream, data=b"")] * 200)


async def _unending_body(guest: Guest) -> None:
    await guest.head(*HTML)
    while True:
        room = guest.http.local_flow_control_window(guest.stream)
        size = min(room, guest.http.max_outbound_frame_size)
        if size:
            guest.http.send_data(guest.stream, b"x" * size)
            await guest.flush()
        else:
            await guest.listen()


async def _giant_frame(guest: Guest) -> None:
    """Send a frame longer than the client's limit."""
    await guest.head(*HTML)
    await guest.frames(DataFrame(guest.stream, data=b"x" * 400_000))
    await guest.wait()


async def _short(guest: Guest) -> None:
    await guest.page(PAGE, ("content-length", str(len(PAGE) + 5)))


async def _closing(guest: Guest) -> None:
    await guest.head(*HTML)
    guest.http.send_data(guest.stream, PAGE[:20])
    await guest.flush()
    raise ConnectionAbortedError("enough of this guest")


async def _another_language(guest: Guest) -> None:
    """Read as a frame, this has four million bytes of which few come."""
    await guest.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi" * 10)
    await guest.wait()


async def _broken_headers(guest: Guest) -> None:
    frame = HeadersFrame(guest.stream, data=b"\xff" * 40)
    frame.flags.add("END_HEADERS")
    await guest.frames(frame)
    await guest.wait()


async def _interim(guest: Guest) -> None:
    for _ in range(100):
        guest.http.send_headers(guest.stream, [(":status", "103")])
    await guest.flush()
    await guest.page()


async def _pushing(guest: Guest) -> None:
    block = guest.http.encoder.encode(
        [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", "/more")]
    )
    frame = PushPromiseFrame(guest.stream, promised_stream_id=2, data=block)
    frame.flags.add("END_HEADERS")
    await guest.frames(frame)
    await guest.wait()


async def _unwanted(guest: Guest) -> None:
    await guest.head(("content-type", "image/png"))
    while True:
        await guest.frames(DataFrame(guest.stream, data=b"x" * 1000))
        await asyncio.sleep(0.01)


async def _missing(guest: Guest) -> None:
    await guest.page(PAGE, status=404)


async def _moved(guest: Guest) -> None:
    await guest.head(("location", "/plain"), status=301, end=True)


BAD: Final = Outcome.BAD_RESPONSE
_KINDS: Final[tuple[tuple[str, Outcome, Behaviour, dict[str, Any]], ...]] = (
    ("plain", Outcome.OK, _plain, {"body": PAGE}),
    ("long", Outcome.OK, _long, {"body": LONG}),
    ("missing", Outcome.CLIENT_ERROR, _missing, {}),
    ("moved", Outcome.REDIRECT, _moved, {"final": Outcome.OK}),
    ("goaway-kindly", Outcome.OK, _goaway_kindly, {"body": PAGE}),
    ("goaway-unheard", BAD, _goaway_unheard, {}),
    ("goaway-angrily", BAD, _goaway_angrily, {}),
    ("reset", BAD, _resets(ErrorCodes.INTERNAL_ERROR), {}),
    ("reset-halfway", BAD, _resets(ErrorCodes.CANCEL, halfway=True), {}),
    ("refused", BAD, _resets(ErrorCodes.REFUSED_STREAM), {}),
    ("giant-headers", BAD, _giant_headers, {}),
    ("many-headers", BAD, _many_headers, {}),
    ("endless-headers", BAD, _endless_headers, {}),
    ("starving", Outcome.TIMEOUT, _starving, {"slow": True}),
    ("silent", Outcome.TIMEOUT, _silent, {"slow": True}),
    ("pinging", Outcome.TIMEOUT, _pinging, {"slow": True}),
    ("settings-flood", BAD, _settings_flood, {}),
    ("empty-frames", BAD, _empty_frames, {}),
    ("unending", Outcome.TOO_LARGE, _unending_body, {}),
    ("giant-frame", BAD, _giant_frame, {}),
    ("short", BAD, _short, {}),
    ("closing", BAD, _closing, {}),
    ("another-language", Outcome.TIMEOUT, _another_language, {"slow": True}),
    ("broken-headers", BAD, _broken_headers, {}),
    ("interim", BAD, _interim, {}),
    ("pushing", BAD, _pushing, {}),
    ("unwanted", Outcome.UNWANTED, _unwanted, {}),
)

FRAMES: Final = tuple(
    Animal(
        f"h2-{name}",
        outcome,
        url=f"https://{name}.zoo.localhost:{{port:http2}}/{name}",
        **more,
    )
    for name, outcome, _, more in _KINDS
)
_BEHAVIOURS: Final = {f"/{name}": behave for name, _, behave, _ in _KINDS}


async def talk_frames(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve each client, one request after another."""
    http = H2Connection(
        H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    http.initiate_connection()
    writer.write(http.data_to_send())
    while data := await reader.read(65_536):
        for event in http.receive_data(data):
            if isinstance(event, RequestReceived):
                path = dict(event.headers or ())[b":path"].decode()
                guest = Guest(http, event.stream_id or 0, reader, writer)
                await guest.flush()
                if path == "/robots.txt":
                    await guest.page(b"User-agent: *\nAllow: /\n", status=200)
                else:
                    await _BEHAVIOURS.get(path, _missing)(guest)
        writer.write(http.data_to_send())
        await writer.drain()
