"""The door of a cell, with the agent's proxy played by hand."""

import asyncio

import pytest

from crawlfleet.crawl.fetch.proxy import read_proxy
from crawlfleet.crawl.fetch.sandbox_proxy import SandboxProxy, SandboxProxyClosed, Unreached
from crawlfleet.model.crawl.parameters import Outcome


def through(*parts: bytes) -> tuple[bytes, str]:
    """What is read first through a door where the proxy says this, and which address it names."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)
        writer.close()

    async def main() -> tuple[bytes, str]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        door = SandboxProxy(read_proxy(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        try:
            async with asyncio.timeout(30):
                way, address = await door.connect("shop.example", 80, public_only=True)
                reader, writer = await asyncio.open_connection(sock=way)
                said = await reader.read()
                writer.close()
                return said, address
        finally:
            server.close()

    return asyncio.run(main())


OPEN = b"HTTP/1.1 200 Connection established\r\nCrawlfleet-Address: 192.0.2.1\r\n\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        (OPEN, b"hello"),
        (OPEN + b"hello",),
        (OPEN[:20], OPEN[20:] + b"hello"),
        (OPEN[:-2], OPEN[-2:] + b"hello"),
    ],
)
def test_what_a_server_says_first_is_there_to_be_read(parts: tuple[bytes, ...]) -> None:
    assert through(*parts) == (b"hello", "192.0.2.1")


def test_refusals_are_told_with_their_reason() -> None:
    with pytest.raises(SandboxProxyClosed, match=r"^a loopback address$"):
        through(b"HTTP/1.1 403 Forbidden\r\n\r\ncrawlfleet: ", b"a loopback address\n")
    with pytest.raises(Unreached, match="no such name") as caught:
        through(b"HTTP/1.1 502 x\r\nCrawlfleet-Outcome: dns\r\n\r\nno such name")
    assert caught.value.outcome is Outcome.DNS
    with pytest.raises(Unreached, match="closed the connection"):
        through(b"HTTP/1.1 200")
