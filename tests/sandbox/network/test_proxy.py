"""The way out of a cell, against servers of this machine."""

import asyncio
import base64
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import TypeVar

import msgspec
import psutil
import pytest

from crawlfleet.core.network.egress import refused_by_lists
from crawlfleet.crawl.fetch import dial
from crawlfleet.crawl.fetch.dial import Dialler
from crawlfleet.crawl.fetch.dns import Addresses, Names
from crawlfleet.model.isolation import Egress
from crawlfleet.ports.sandbox import PUBLIC_HEADER
from crawlfleet.sandbox.network import proxy as egress
from crawlfleet.sandbox.network.proxy import EgressProxy

T = TypeVar("T")


class Book:
    """Answers in turn; the last answer stays."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)

    async def look_up(self, host: str) -> Addresses:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return Addresses((answer,), 0.0)

    async def close(self) -> None:
        return None


def with_proxy(
    scenario: Callable[[EgressProxy, int, int], Awaitable[T]],
    rules: Egress,
    *,
    book: Book | None = None,
    password: str = "",
) -> T:
    """A scenario with the proxy, its port, and the port of a server that answers and echoes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if data.startswith((b"GET", b"POST")):
                body = data
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                break
            writer.write(data)
            await writer.drain()
        writer.close()

    async def main() -> T:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        dialler = None
        if book is not None:
            dialler = Dialler(allow_private=rules.allow_private, connect_s=5, names=Names(book))
        proxy = EgressProxy(
            rules, check_egress=refused_by_lists, password=password, dialler=dialler
        )
        door = socket.create_server(("127.0.0.1", 0))
        port = door.getsockname()[1]
        await proxy.open(door)
        try:
            async with asyncio.timeout(30):
                return await scenario(proxy, port, server.sockets[0].getsockname()[1])
        finally:
            await proxy.close()
            await proxy.close()
            server.close()

    return asyncio.run(main())


async def ask(port: int, request: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    if not (request.startswith("CONNECT") and b" 200 " in answer):
        answer += await reader.read()
    writer.close()
    return answer


OPEN = Egress(allow_private=True)


def test_a_plain_request_is_passed_on_in_the_form_for_servers() -> None:
    async def scenario(proxy: EgressProxy, port: int, server: int) -> bytes:
        return await ask(
            port,
            f"GET http://127.0.0.1:{server}/a?b=c HTTP/1.1\r\nHost: x\r\n"
            "Proxy-Connection: keep-alive\r\nConnection: keep-alive\r\n\r\n",
        )

    answer = with_proxy(scenario, OPEN)
    assert b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" in answer
    assert b"Proxy" not in answer


def test_a_connection_that_a_server_leaves_open_is_not_used_for_another_request() -> None:
    """Its server was asked to close it: else a request for another host would come to this one."""
    asked: list[bytes] = []

    async def stubborn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.read(65536):
            asked.append(head)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async def scenario(proxy: EgressProxy, port: int, _: int) -> list[bytes]:
        server = await asyncio.start_server(stubborn, "127.0.0.1", 0)
        own = server.sockets[0].getsockname()[1]
        answers = []
        for method, body in ((b"GET", b""), (b"POST", b"12345")):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = b"%s http://127.0.0.1:%d/ HTTP/1.1\r\nContent-Length: %d\r\n\r\n"
            writer.write(head % (method, own, len(body)))
            await writer.drain()
            writer.write(body)
            await reader.readuntil(b"ok")
            writer.write(b"GET http://other.example/ HTTP/1.1\r\n\r\n")
            answers.append(await reader.read())
            writer.close()
        server.close()
        return answers

    assert with_proxy(scenario, OPEN) == [b"", b""]
    assert b"other.example" not in b"".join(asked)
    assert b"12345" in b"".join(asked)


def test_what_is_said_to_the_proxy_is_not_passed_on() -> None:
    async def scenario(proxy: EgressProxy, port: int, server: int) -> bytes:
        head = f"GET http://127.0.0.1:{server}/ HTTP/1.1\r\n{PUBLIC_HEADER}:\r\n\r\n"
        return await ask(port, head)

    answer = with_proxy(scenario, OPEN)
    assert b"GET / HTTP/1.1" in answer
    assert PUBLIC_HEADER.encode() not in answer


@pytest.mark.parametrize("length", ["1" * 5000, "-1", "1e3"])
def test_a_length_that_is_none_is_refused(length: str) -> None:
    async def scenario(proxy: EgressProxy, port: int, server: int) -> bytes:
        head = f"POST http://127.0.0.1:{server}/ HTTP/1.1\r\nContent-Length: {length}\r\n\r\n"
        return await ask(port, head)

    assert with_proxy(scenario, OPEN).startswith(b"HTTP/1.1 400")


def serving(
    handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> bytes | str:
    """What comes through a tunnel from a server that answers so, to one who has ended."""

    async def scenario(proxy: EgressProxy, port: int, _: int) -> bytes | str:
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        own = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"CONNECT 127.0.0.1:{own} HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.write_eof()
        try:
            return await reader.read()
        except ConnectionResetError:
            return "broken off"
        finally:
            writer.close()
            server.close()

    return with_proxy(scenario, OPEN)


def test_an_answer_goes_on_while_it_comes_though_whoever_asked_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(egress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(egress, "LINGER_S", 0.05)

    async def scenario(proxy: EgressProxy, port: int, _: int) -> bytes:
        more = asyncio.Semaphore(0)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            for _ in range(4):
                await more.acquire()
                writer.write(b"x")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        own = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"CONNECT 127.0.0.1:{own} HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.write_eof()
        got = b""
        for _ in range(4):
            await asyncio.sleep(0.06)
            now[0] += 0.04
            more.release()
            got += await reader.read(1)
        writer.close()
        server.close()
        return got

    assert with_proxy(scenario, OPEN) == b"x" * 4


def test_an_answer_that_does_not_end_is_broken_off_and_not_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(egress, "LINGER_S", 0.05)

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.write(b"x")
        await asyncio.Event().wait()

    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        egress.reset_connection(writer)

    assert serving(never) == "broken off"
    monkeypatch.setattr(egress, "LINGER_S", 20.0)
    assert serving(breaks) == "broken off"


def test_a_tunnel_carries_bytes_both_ways_and_they_are_counted() -> None:
    async def scenario(proxy: EgressProxy, port: int, server: int) -> dict[str, float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"CONNECT 127.0.0.1:{server} HTTP/1.1\r\n\r\n".encode())
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.close()
        return proxy.figures()

    figures = with_proxy(scenario, OPEN)
    assert figures["egress_sent_bytes"] == 5
    assert figures["egress_received_bytes"] == 5


def test_nothing_goes_through_once_it_is_shut() -> None:
    """Also not what had come by then, and waits for its turn."""

    async def scenario(proxy: EgressProxy, port: int, server: int) -> tuple[bytes, float, bool]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"CONNECT 127.0.0.1:{server} HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"before")
        assert await reader.readexactly(6) == b"before"
        writer.write(b"after")
        proxy.shut()
        said = b""
        with contextlib.suppress(ConnectionError):
            said = await reader.read()
        try:
            await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return said, proxy.figures()["egress_sent_bytes"], True
        return said, proxy.figures()["egress_sent_bytes"], False

    assert with_proxy(scenario, OPEN) == (b"", 6.0, True)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.1", "0x7f.1", "2130706433", "017700000001", "[::1]", "0.0.0.0"),
        *("[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "169.254.169.254", "2852039166"),
        *("10.0.0.1", "[fe80::1]", "100.100.100.200", "[::ffff:169.254.169.254]"),
    ],
)
@pytest.mark.parametrize("form", ["CONNECT {host}:80", "GET http://{host}/"])
def test_private_addresses_are_refused_in_every_spelling(host: str, form: str) -> None:
    async def scenario(proxy: EgressProxy, port: int, server: int) -> tuple[bytes, float]:
        return await ask(port, f"{form.format(host=host)} HTTP/1.1\r\n\r\n"), proxy.refused

    answer, refused = with_proxy(scenario, Egress())
    assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))
    assert refused == 1


def test_a_name_that_leads_to_a_private_address_is_refused() -> None:
    async def scenario(proxy: EgressProxy, port: int, server: int) -> bytes:
        return await ask(port, f"CONNECT shop.example:{server} HTTP/1.1\r\n\r\n")

    answer = with_proxy(scenario, Egress(), book=Book("127.0.0.1"))
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"loopback" in answer


def test_an_answer_that_changes_after_the_check_has_no_effect() -> None:
    """The address that was judged is the one that is connected to: nobody asks a second time."""

    async def scenario(proxy: EgressProxy, port: int, server: int) -> bytes:
        return await ask(port, f"CONNECT shop.example:{server} HTTP/1.1\r\n\r\n")

    class Once(Book):
        asked = 0

        async def look_up(self, host: str) -> Addresses:
            self.asked += 1
            return await super().look_up(host)

    book = Once("127.0.0.1", "169.254.169.254")
    answer = with_proxy(scenario, OPEN, book=book)
    assert b" 200 " in answer
    assert book.asked == 1


@pytest.mark.parametrize("rules", [Egress(), OPEN])
def test_a_public_address_of_the_machine_is_its_own(
    rules: Egress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dial, "is_own", lambda address: address == "8.8.8.8")

    async def scenario(proxy: EgressProxy, port: int, server: int) -> bytes:
        head = f"CONNECT shop.example:{server} HTTP/1.1\r\n{PUBLIC_HEADER}: yes\r\n\r\n"
        return await ask(port, head)

    answer = with_proxy(scenario, rules, book=Book("8.8.8.8"))
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"8.8.8.8 is an address of this machine" in answer


def test_the_addresses_of_this_machine_are_known_as_its_own() -> None:
    families = (socket.AF_INET, socket.AF_INET6)
    every = [each for found in psutil.net_if_addrs().values() for each in found]
    own = [each.address for each in every if each.family in families and "%" not in each.address]
    assert "127.0.0.1" in own
    assert [each for each in own if not dial.is_own(each)] == []
    assert not any(map(dial.is_own, ("192.0.2.1", "2001:db8::1", "8.8.8.8%1")))


def test_lists_of_domains_decide() -> None:
    async def scenario(proxy: EgressProxy, port: int, server: int) -> list[bytes]:
        hosts = ("shop.example", "a.shop.example", "notshop.example", "bad.shop.example")
        return [
            (await ask(port, f"CONNECT {host}:{server} HTTP/1.1\r\n\r\n"))[9:12] for host in hosts
        ]

    rules = Egress(allow=("shop.example",), deny=("bad.shop.example",), allow_private=True)
    assert with_proxy(scenario, rules, book=Book("127.0.0.1")) == [b"200", b"200", b"403", b"403"]


def test_an_address_that_is_denied_is_so_under_any_name() -> None:
    async def scenario(proxy: EgressProxy, port: int, server: int) -> bytes:
        return await ask(port, f"CONNECT other.example:{server} HTTP/1.1\r\n\r\n")

    rules = Egress(deny=("127.0.0.1",), allow_private=True)
    assert with_proxy(scenario, rules, book=Book("127.0.0.1")).startswith(b"HTTP/1.1 403")


@pytest.mark.parametrize(
    "rules", [Egress(deny=("127.0.0.1",), allow_private=True), Egress(closed_ports=(1,))]
)
def test_nobody_learns_which_ports_of_a_denied_address_are_open(
    rules: Egress, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    async def connect(self: Dialler, addresses: list[str], port: int) -> None:
        tried.append(port)
        raise ConnectionRefusedError

    async def scenario(proxy: EgressProxy, port: int, server: int) -> bytes:
        proxy._rules = msgspec.structs.replace(rules, allow_private=True)
        return await ask(port, "CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n")

    monkeypatch.setattr(Dialler, "_connect", connect)
    assert with_proxy(scenario, OPEN).startswith(b"HTTP/1.1 403")
    assert tried == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "[::ffff:127.0.0.1]", "own.example"])
def test_a_masters_port_is_closed_on_every_address_of_the_machine(host: str) -> None:
    async def scenario(proxy: EgressProxy, port: int, server: int) -> bytes:
        proxy._rules = msgspec.structs.replace(OPEN, closed_ports=(server,))
        return await ask(port, f"CONNECT {host}:{server} HTTP/1.1\r\n\r\n")

    book = Book("127.0.0.1") if host == "own.example" else None
    answer = with_proxy(scenario, OPEN, book=book)
    # The server listens on one address only; a spelling that does not reach it is no way in.
    assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 502"))
    assert b"403" in answer[:12] or host == "127.0.0.2"


def test_a_password_keeps_others_out() -> None:
    async def scenario(proxy: EgressProxy, port: int, server: int) -> tuple[bytes, bytes]:
        line = f"CONNECT 127.0.0.1:{server} HTTP/1.1\r\n"
        right = base64.b64encode(b"cell:open").decode()
        return (
            await ask(port, line + "\r\n"),
            await ask(port, line + f"Proxy-Authorization: Basic {right}\r\n\r\n"),
        )

    without, shown = with_proxy(scenario, OPEN, password="open")
    assert without.startswith(b"HTTP/1.1 407")
    assert shown.startswith(b"HTTP/1.1 200")


@pytest.mark.slow
def test_bandwidth_is_what_was_allocated() -> None:
    size = 1_000_000

    async def scenario(proxy: EgressProxy, port: int, server: int) -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"CONNECT 127.0.0.1:{server} HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        began = time.monotonic()
        sending = asyncio.create_task(_send(writer, size))
        await reader.readexactly(size)
        await sending
        writer.close()
        return time.monotonic() - began

    took_s = with_proxy(scenario, Egress(allow_private=True, bandwidth_mbps=8))
    # Two megabytes went through, at one megabyte a second.
    assert took_s > 2 * 0.85
    assert took_s < 2 * 15  # a busy machine may be slower, never faster


async def _send(writer: asyncio.StreamWriter, size: int) -> None:
    for _ in range(size // 10_000):
        writer.write(bytes(10_000))
        await writer.drain()


def test_nonsense_is_answered_and_harms_nobody() -> None:
    async def scenario(proxy: EgressProxy, port: int, server: int) -> list[bytes]:
        wrong = ("x\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET https://a/ HTTP/1.1\r\n\r\n")
        return [(await ask(port, each))[9:12] for each in wrong]

    assert with_proxy(scenario, OPEN) == [b"400", b"400", b"400"]


def test_a_cell_has_its_own_number_of_connections_and_takes_none_of_others() -> None:
    few = Egress(allow_private=True, connections=2)

    async def scenario(proxy: EgressProxy, port: int, server: int) -> list[bytes]:
        other = EgressProxy(few, check_egress=refused_by_lists)
        door = socket.create_server(("127.0.0.1", 0))
        others_port = door.getsockname()[1]
        await other.open(door)
        tunnel = f"CONNECT 127.0.0.1:{server} HTTP/1.1\r\n\r\n".encode()
        held, heard = [], []
        for own in (port, port, port, others_port):
            reader, writer = await asyncio.open_connection("127.0.0.1", own)
            writer.write(tunnel)
            heard.append(await reader.readuntil(b"\r\n\r\n"))
            held.append(writer)
        assert proxy.refused == 1
        assert other.refused == 0
        held[0].close()
        while len(heard) < 5:
            with contextlib.suppress(ConnectionResetError):  # until it is seen that there is room
                if b" 200 " in (answer := await ask(port, tunnel.decode())):
                    heard.append(answer)
        for writer in held[1:]:
            writer.close()
        await other.close()
        return heard

    codes = [answer[9:12] for answer in with_proxy(scenario, few)]
    assert codes == [b"200", b"200", b"503", b"200", b"200"]
