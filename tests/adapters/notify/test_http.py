"""Deliveries over real sockets: what arrives, what is refused, and what is not believed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from crawlfleet.adapters.notify.by_scheme import SenderByScheme
from crawlfleet.adapters.notify.http import HttpSender
from crawlfleet.ports.sender import OutgoingMessage, SendResult

BODY = b'{"id":"dlv-1"}'
BEYOND_TIME = "Mon, 01 Jan 99999999999999 00:00:00 GMT"
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Receiver:
    def __init__(self, answer: bytes | Answer) -> None:
        self._answer = answer
        self.requests: list[bytes] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                self.requests.append(head + await reader.readexactly(length))
                if isinstance(self._answer, bytes):
                    writer.write(self._answer)
                else:
                    await self._answer(writer)
                    break
        writer.close()


@contextlib.asynccontextmanager
async def receiving(answer: bytes | Answer) -> AsyncIterator[tuple[Receiver, str]]:
    receiver = Receiver(answer)
    server = await asyncio.start_server(receiver.talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield receiver, f"http://127.0.0.1:{port}/in"
    finally:
        server.close()


async def send(url: str, *, allow_private: bool = True, timeout_s: float = 5.0) -> SendResult:
    courier = HttpSender(allow_private=allow_private, timeout_s=timeout_s)
    headers = (("Content-Type", "application/json"), ("Crawlfleet-Delivery", "dlv-1"))
    try:
        return await courier.send(OutgoingMessage(id="dlv-1", url=url, headers=headers, body=BODY))
    finally:
        await courier.close()


def status(line: str, extra: str = "", body: str = "") -> bytes:
    return f"HTTP/1.1 {line}\r\n{extra}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def test_a_parcel_arrives_whole_with_its_headers() -> None:
    async def scene() -> None:
        async with receiving(status("204 No Content")) as (receiver, url):
            sent = await send(url)
        assert (sent.delivered, sent.status) == (True, 204)
        (request,) = receiver.requests
        head, _, body = request.partition(b"\r\n\r\n")
        assert head.startswith(b"POST /in HTTP/1.1\r\n")
        assert b"Crawlfleet-Delivery: dlv-1" in head
        assert f"Content-Length: {len(BODY)}".encode() in head
        assert body == BODY

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("answer", "error", "after_s"),
    [
        (status("500 No"), "answered 500", None),
        (status("404 No"), "answered 404", None),
        (status("503 No", "Retry-After: 7\r\n"), "answered 503", 7.0),
        (status("429 No", "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT\r\n"), "answered 429", 0.0),
        (status("503 No", "Retry-After: soon\r\n"), "answered 503", None),
        (status("503 No", f"Retry-After: {BEYOND_TIME}\r\n"), "answered 503", None),
        (status("302 No", "Location: http://169.254.169.254/\r\n"), "redirects", None),
        (b"nonsense\r\n\r\n", "", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal", "", None),
    ],
)
def test_all_but_2xx_is_a_failure_that_may_be_tried_again(
    answer: bytes, error: str, after_s: float | None
) -> None:
    async def scene() -> None:
        async def once(writer: asyncio.StreamWriter) -> None:
            writer.write(answer)

        async with receiving(once) as (receiver, url):
            sent = await send(url, timeout_s=2.0)
        assert not sent.delivered
        assert not sent.is_final
        assert sent.error
        assert error in sent.error
        assert sent.retry_after_s == after_s
        assert len(receiver.requests) == 1

    asyncio.run(scene())


def test_a_dropped_connection_and_a_closed_port_are_failures() -> None:
    async def scene() -> None:
        async def drop(writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()

        async with receiving(drop) as (_, url):
            dropped = await send(url)
        closed = await send(url)
        for sent in (dropped, closed):
            assert (sent.delivered, sent.is_final, sent.status) == (False, False, 0)
            assert sent.error

    asyncio.run(scene())


def test_a_receiver_that_dawdles_is_given_up_in_time() -> None:
    async def scene() -> None:
        async def dawdle(writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n")
                for _ in range(99):
                    writer.write(b"x")
                    await asyncio.sleep(0.1)

        async with receiving(dawdle) as (_, url):
            sent = await send(url, timeout_s=0.5)
        assert sent.error == "no whole answer within 0.5 s"

    asyncio.run(scene())


def test_a_long_answer_is_not_read_to_its_end() -> None:
    async def scene() -> None:
        async with receiving(status("200 OK", body="x" * 5_000_000)) as (_, url):
            assert (await send(url)).delivered

    asyncio.run(scene())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0x7f000001", "127.1"])
def test_private_addresses_are_refused_for_good_unless_allowed(host: str) -> None:
    async def scene() -> None:
        async with receiving(status("200 OK")) as (receiver, url):
            sent = await send(url.replace("127.0.0.1", host), allow_private=False)
        assert not sent.delivered
        assert sent.is_final
        assert "webhooks.allow_private" in sent.error
        assert receiver.requests == []

    asyncio.run(scene())


def test_metadata_is_refused_though_private_addresses_are_allowed() -> None:
    sent = asyncio.run(send("http://169.254.169.254/latest/"))
    assert sent.is_final
    assert "metadata" in sent.error


def test_connections_are_used_again() -> None:
    async def scene() -> None:
        async with receiving(status("200 OK")) as (receiver, url):
            courier = HttpSender(allow_private=True, timeout_s=5.0)
            for _ in range(3):
                parcel = OutgoingMessage(id="d", url=url, body=BODY)
                assert (await courier.send(parcel)).delivered
            await courier.close()
        assert len(receiver.requests) == 3

    asyncio.run(scene())


def test_an_address_of_no_known_kind_is_given_up() -> None:
    sent = asyncio.run(SenderByScheme({}).send(OutgoingMessage(id="d", url="gopher://x/")))
    assert sent.is_final
