"""A node says how it is to whoever asks, and the master knocks at no other door."""

import asyncio

import pytest

from crawlfleet.client.health_probe import HttpProber
from crawlfleet.errors import ConfigError, CrawlfleetError
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.worker.health_endpoint import (
    HealthAddress,
    HealthEndpoint,
    HealthInfo,
    answering,
    parse_place,
)

HERE = "127.0.0.1"


async def ask(port: int, request: bytes) -> tuple[bytes, bytes]:
    """The status line and the body."""
    reader, writer = await asyncio.open_connection(HERE, port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0], body


def test_alive_and_ready_are_two_things() -> None:
    async def scene() -> None:
        health_info = HealthInfo(node_id="node-1")
        async with HealthEndpoint(HERE, 0, health_info=health_info) as endpoint:
            alive = await ask(endpoint.port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert alive[0] == b"HTTP/1.1 200 OK"
            assert b'"node_id":"node-1"' in alive[1]
            ready = b"GET /readyz HTTP/1.0\r\n\r\n"
            assert (await ask(endpoint.port, ready))[0] == b"HTTP/1.1 503 Service Unavailable"
            health_info.session = True
            assert (await ask(endpoint.port, ready))[0] == b"HTTP/1.1 200 OK"
            assert (await ask(endpoint.port, b"HEAD /readyz HTTP/1.0\r\n\r\n"))[1] == b""

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /healthz HTTP/1.1\r\n\r\n", b"405"),
        (b"\x16\x03\x01\x02\x00\n", b"405"),
        (b"x" * 5000 + b"\n", b""),
    ],
)
def test_nonsense_is_turned_away(request_: bytes, status: bytes) -> None:
    async def scene() -> None:
        async with HealthEndpoint(HERE, 0, health_info=HealthInfo()) as endpoint:
            try:
                line, _ = await ask(endpoint.port, request_)
            except ConnectionError:
                line = b""
            assert line.split(b" ")[1:2] == ([status] if status else [])
            assert (await ask(endpoint.port, b"GET /healthz HTTP/1.0\r\n\r\n"))[0].endswith(b"OK")

    asyncio.run(scene())


def test_a_probe_wants_that_very_node() -> None:
    async def scene() -> None:
        prober = HttpProber(timeout_s=5)
        health_info = HealthInfo(node_id="node-1", session=True)
        async with HealthEndpoint(HERE, 0, health_info=health_info) as endpoint:
            assert await prober.ask(HERE, endpoint.port, "node-1") is None
            other = await prober.ask(HERE, endpoint.port, "node-2")
            assert other == "another node answers there"
            port = endpoint.port
        assert await prober.ask(HERE, port, "node-1") is not None

    asyncio.run(scene())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n<html>",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b'{"node_id":"' + b"x" * 100_000,
        b"",
    ],
)
def test_whatever_answers_there_a_probe_only_says_no(answer: bytes) -> None:
    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    async def scene() -> None:
        async with await asyncio.start_server(stranger, HERE, 0) as server:
            port = server.sockets[0].getsockname()[1]
            assert await HttpProber(timeout_s=5).ask(HERE, port, "node-1") is not None

    asyncio.run(scene())


def test_a_door_that_stays_silent_is_given_up() -> None:
    async def scene() -> None:
        over = asyncio.Event()

        async def stay_silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await over.wait()
            writer.close()

        async with await asyncio.start_server(stay_silent, HERE, 0) as server:
            port = server.sockets[0].getsockname()[1]
            trouble = await HttpProber(timeout_s=0.05).ask(HERE, port, "node-1")
            over.set()
            assert trouble == "no answer within 0.05 s"

    asyncio.run(scene())


def test_what_is_advertised_is_where_it_listens() -> None:
    async def scene() -> None:
        async with answering(WorkerSettings(), HealthInfo()) as place:
            assert place is None
        async with answering(WorkerSettings(health_port=0), HealthInfo()) as place:
            assert place is None
        async with answering(WorkerSettings(advertise="127.0.0.1:0"), HealthInfo()) as place:
            assert place is not None
            assert place.address == HERE
            line, _ = await ask(place.port, b"GET /healthz HTTP/1.0\r\n\r\n")
            assert line.endswith(b"200 OK")
            taken = WorkerSettings(advertise=f"127.0.0.1:{place.port}")
            with pytest.raises(CrawlfleetError, match="health_port"):
                async with answering(taken, HealthInfo()):
                    pass

    asyncio.run(scene())


def test_places_are_addresses_with_ports() -> None:
    assert parse_place("10.0.0.7:8010") == HealthAddress("10.0.0.7", 8010)
    assert parse_place("[2001:db8::7]:0") == HealthAddress("2001:db8::7", 0)
    for wrong in ("", "10.0.0.7", "host:80", "10.0.0.7:x", "10.0.0.7:70000", "10.0.0.7:²"):
        with pytest.raises(ConfigError, match="advertise"):
            parse_place(wrong)
