"""Connections of cells that know of no proxy: let through by the same rules, and by no others."""

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.core.isolation import at_level, level_of
from crawlfleet.core.network.egress import refused_by_lists
from crawlfleet.crawl.fetch.dial import Dialler
from crawlfleet.crawl.fetch.dns import Addresses, Names, NameUnanswered, NameUnknown
from crawlfleet.crawl.fetch.request import Origin
from crawlfleet.model.isolation import Egress, Isolation, Level, Limits
from crawlfleet.ports.sandbox import CellOrder
from crawlfleet.sandbox import launcher, probe
from crawlfleet.sandbox.folder import Premises
from crawlfleet.sandbox.network import dns, raw_tcp_setup
from crawlfleet.sandbox.network.dns import Trouble
from crawlfleet.sandbox.network.proxy import EgressProxy, Judge, Turned
from crawlfleet.sandbox.network.raw_tcp import RawTcp
from crawlfleet.testing.cells import Run, run_in_cell

in_cells = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="Linux only"),
    pytest.mark.xdist_group("escapes"),
]
LIMITS = Limits(memory_mb=200, pids=40, disk_mb=16, files=128)
PROGRAM = """
import json, socket, struct, sys, time
def reach(host, port, size):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock:
        sock.settimeout(20)
        try:
            sock.connect((host, port))
            sent, got = b"hello" * max(size // 5, 1), b""
            began = time.monotonic()
            sock.sendall(sent)
            while len(got) < len(sent) and (data := sock.recv(65536)):
                got += data
            return {"got": len(got), "took_s": time.monotonic() - began}
        except OSError as error:
            return {"error": type(error).__name__}
def ask(name, server):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(20)
        labels = b"".join(bytes([len(x)]) + x.encode() for x in name.split("."))
        question = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\\0" + b"\\0\\1\\0\\1"
        try:
            sock.sendto(question, (server, 53))
            answer = sock.recv(600)
        except OSError as error:
            return {"error": type(error).__name__}
        count = struct.unpack("!H", answer[6:8])[0]
        address = socket.inet_ntoa(answer[-4:]) if count else ""
        return {"code": answer[3] & 15, "address": address}
for kind, *arguments in json.loads(sys.argv[1]):
    print(json.dumps({"reach": reach, "ask": ask}[kind](*arguments)), flush=True)
"""
LOOPBACK = ("127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "0.0.0.0", "::")
OWN_LOOPBACK = 6
"""Of these, so many are addresses of the cell itself."""
METADATA = (
    *("169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::"),
    *("fd00:ec2::254", "169.254.170.2", "100.100.100.200"),
)
PRIVATE = ("10.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1", "fe80::1", "fc00::1", "::2")


@pytest.fixture(scope="module")
def offer() -> Isolation:
    found = probe.look()
    assert not found.no_raw_tcp, found.no_raw_tcp
    offer, _ = at_level(level_of(frozenset(found.layers)), found)
    assert offer.level >= Level.L2
    return offer


class Here(Dialler):
    """Whatever the guard lets through is found on this machine: only the guard keeps from it."""

    async def _connect(self, addresses: Sequence[str], port: int) -> tuple[socket.socket, str]:
        sock, _ = await super()._connect(["127.0.0.1"], port)
        return sock, addresses[0]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    def proxy(rules: Egress, *, judge: Judge) -> EgressProxy:
        dialler = Here(allow_private=rules.allow_private, connect_s=5)
        return EgressProxy(rules, judge=judge, dialler=dialler)

    monkeypatch.setattr(launcher, "EgressProxy", proxy)


Wishes = Callable[[int], list[Any]]
"""What a program in a cell tries; it is told the port of a server that says everything again."""


def tried(offer: Isolation, folder: Path, *plays: tuple[Egress, Wishes]) -> list[Run]:
    """What came of it, in a cell for each; where ports are closed, it is that of the server."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def main() -> list[Run]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        sandbox = launcher.LocalSandbox(
            isolation=offer, place=Premises(folder / "sandbox"), judge=refused_by_lists
        )
        runs = []
        try:
            for rules, wishes in plays:
                closed = (port,) if rules.closed_ports else ()
                order = CellOrder(
                    command=(sys.executable, "-I", "-c", PROGRAM, json.dumps(wishes(port))),
                    limits=LIMITS,
                    egress=msgspec.structs.replace(rules, closed_ports=closed),
                )
                runs.append(await run_in_cell(sandbox, order))
            return runs
        finally:
            await sandbox.close()
            server.close()

    runs = asyncio.run(main())
    assert [run.code for run in runs] == [0] * len(plays), [run.errors for run in runs]
    return runs


def reached(said: list[dict[str, Any]]) -> list[bool]:
    return [bool(each.get("got")) for each in said]


OPEN = Egress(raw_tcp=True, allow_private=True)


@pytest.mark.usefixtures("here")
class TestInCells:
    pytestmark = in_cells

    def test_a_connection_goes_where_it_wants_and_is_counted_and_slowed_down(
        self, offer: Isolation, tmp_path: Path
    ) -> None:
        def wishes(port: int) -> list[Any]:
            return [["reach", "10.1.2.3", port, 400_000], ["reach", "fd12::1", port, 100_000]]

        rules = Egress(raw_tcp=True, allow_private=True, bandwidth_mbps=8)
        (run,) = tried(offer, tmp_path, (rules, wishes))
        assert [each["got"] for each in run.lines] == [400_000, 100_000]
        # A megabyte both ways together, at one a second.
        assert sum(each["took_s"] for each in run.lines) > 0.8
        assert run.figures["egress_sent_bytes"] == 500_000
        assert run.figures["egress_received_bytes"] == 500_000

    def test_nothing_private_is_reached_in_any_spelling(
        self, offer: Isolation, tmp_path: Path
    ) -> None:
        hosts = (*LOOPBACK, *METADATA, *PRIVATE)

        def wishes(port: int) -> list[Any]:
            return [["reach", host, port, 5] for host in hosts]

        (run,) = tried(offer, tmp_path, (Egress(raw_tcp=True), wishes))
        assert reached(run.lines) == [False] * len(hosts), run.lines
        # What is the cell's own loopback never comes to the agent, and fe80:: needs a wire.
        assert run.figures["egress_refused"] == len(hosts) - OWN_LOOPBACK - 1

    def test_metadata_and_the_master_stay_closed_where_private_addresses_are_open(
        self, offer: Isolation, tmp_path: Path
    ) -> None:
        hosts = (*METADATA, "10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203")

        def wishes(port: int) -> list[Any]:
            return [["reach", host, port, 5] for host in (*hosts, "10.1.2.4")]

        denied = msgspec.structs.replace(OPEN, deny=("10.1.2.3",))
        # The port of a master, on whatever address of this machine.
        closed = msgspec.structs.replace(OPEN, closed_ports=(1,))
        by_address, by_port = tried(offer, tmp_path, (denied, wishes), (closed, wishes))
        assert reached(by_address.lines) == [False] * len(hosts) + [True], by_address.lines
        assert not any(reached(by_port.lines))

    def test_names_are_answered_by_the_agent_and_lists_decide(
        self, offer: Isolation, tmp_path: Path
    ) -> None:
        def wishes(_: int) -> list[Any]:
            return [["ask", "localhost", server] for server in ("192.0.2.53", "127.0.0.1")]

        denied = msgspec.structs.replace(OPEN, deny=("localhost",))
        allowed, private, listed = tried(
            offer, tmp_path, (OPEN, wishes), (Egress(raw_tcp=True), wishes), (denied, wishes)
        )
        assert allowed.lines == [{"code": 0, "address": "127.0.0.1"}] * 2
        for run in (private, listed):
            assert run.lines == [{"code": 5, "address": ""}] * 2

    def test_without_it_there_is_the_proxy_and_nothing_else(
        self, offer: Isolation, tmp_path: Path
    ) -> None:
        def wishes(port: int) -> list[Any]:
            return [["reach", "10.1.2.3", port, 5], ["ask", "localhost", "192.0.2.53"]]

        (run,) = tried(offer, tmp_path, (Egress(allow_private=True), wishes))
        assert all("error" in each for each in run.lines), run.lines

    @pytest.mark.skipif(not os.environ.get("CRAWLFLEET_SOAK"), reason="CRAWLFLEET_SOAK=1")
    def test_nothing_is_left_of_it_when_the_agent_is_killed(self, tmp_path: Path) -> None:
        before = network_of_the_machine()
        agent = subprocess.Popen(
            [sys.executable, "-c", AGENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert agent.stdout is not None
        warden = psutil.Process(int(agent.stdout.readline()))
        theirs, ours = (Path(f"/proc/{each}/ns/net").readlink() for each in (warden.pid, "self"))
        assert theirs != ours
        assert not network_of_the_machine() - before, "nothing is made outside of the cell"
        agent.kill()
        agent.wait()
        warden.wait(20)
        assert not network_of_the_machine() - before


AGENT = """
import asyncio, pathlib, sys
from tests.sandbox.network.test_raw_tcp import *
from crawlfleet.testing.cells import Ear
async def main():
    found = probe.look()
    offer, _ = at_level(level_of(frozenset(found.layers)), found)
    place = Premises(pathlib.Path(sys.argv[1]) / "sandbox")
    sandbox = launcher.LocalSandbox(isolation=offer, place=place, judge=refused_by_lists)
    order = CellOrder(command=("sleep", "60"), limits=LIMITS, egress=OPEN)
    cell, _ = await sandbox.start(order, Ear)
    print(cell.get_pid(), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def network_of_the_machine() -> set[str]:
    """Its interfaces, tables of rules, and rules for routes, by name: what they hold changes by
    itself, with the time that an address has left, or a packet that is counted."""
    told = "nft list tables; ip rule; ip -6 rule"
    said = subprocess.run(["sh", "-c", told], capture_output=True, text=True, check=True).stdout
    return {*said.splitlines(), *(name for _, name in socket.if_nameindex())}


class Book:
    async def look_up(self, host: str) -> Addresses:
        if host.endswith("silent.example"):
            raise NameUnanswered(host)
        if host.endswith("unknown.example"):
            raise NameUnknown(host)
        return Addresses(("127.0.0.1",), 0.0)

    async def close(self) -> None:
        return None


def test_an_address_is_allowed_by_the_names_that_it_was_given_out_for() -> None:
    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hi")
            writer.close()

        rules = Egress(allow=("shop.example",), allow_private=True, raw_tcp=True)
        dialler = Dialler(allow_private=True, connect_s=5, names=Names(Book()))
        proxy = EgressProxy(rules, judge=refused_by_lists, dialler=dialler)
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        addresses, trouble = await proxy.look_up("a.shop.example")
        assert ([*addresses], trouble) == (["127.0.0.1"], Trouble.NONE)
        assert (await proxy.look_up("other.example"))[1] is Trouble.REFUSED
        ours, theirs = socket.socketpair()
        with theirs:
            reader, writer = await asyncio.open_connection(sock=ours)
            origin = Origin(tls=False, host="127.0.0.1", port=port, authority=f"127.0.0.1:{port}")
            with pytest.raises(Turned, match="not among"):
                await proxy.carry(origin, reader, writer)
            with pytest.raises(Turned, match="not among"):
                await proxy.carry(origin, reader, writer, known_as=["other.example"])
            await proxy.carry(origin, reader, writer, known_as=["x.example", "a.shop.example"])
            writer.close()
            assert theirs.recv(10) == b"hi"
        assert proxy.refused == 3
        await proxy.close()
        server.close()

    asyncio.run(main())


class Ear:
    """Hears the answers to questions."""

    def __init__(self) -> None:
        self.codes: list[int] = []

    def is_closing(self) -> bool:
        return False

    def sendto(self, answer: bytes, where: Any) -> None:
        self.codes.append(answer[3] & 15)


def answered(rules: Egress, *names: str) -> tuple[dict[str, str], list[int]]:
    """What is remembered of names that were asked for, and how they were answered."""

    async def main() -> tuple[dict[str, str], list[int]]:
        dialler = Dialler(allow_private=True, connect_s=5, names=Names(Book()))
        raw = RawTcp(EgressProxy(rules, judge=refused_by_lists, dialler=dialler))
        ear: Any = Ear()
        for name in names:
            await raw._answer(question(name), None, ear)
        return {**raw._names}, ear.codes

    return asyncio.run(main())


def test_however_many_names_an_address_has_one_is_remembered_and_none_without_need() -> None:
    names = [f"{number}.shop.example" for number in range(50)]
    allowed, _ = answered(Egress(allow=("shop.example",), allow_private=True), *names)
    assert allowed == {"127.0.0.1": "49.shop.example"}
    assert answered(Egress(allow_private=True), *names) == ({}, [0] * 50)


def test_a_name_of_which_nobody_says_anything_is_not_said_to_be_unknown() -> None:
    names = ("a.silent.example", "a.unknown.example", "a.silent.example")
    assert answered(OPEN, *names)[1] == [Trouble.FAILED, Trouble.UNKNOWN, Trouble.FAILED]


def test_a_question_for_an_odd_address_is_answered() -> None:
    asked = dns.read(question("a.b"))
    assert asked is not None
    told = dns.answer(question("a.b"), asked, ("8.8.8.8%1",), Trouble.NONE)
    assert told.endswith(socket.inet_aton("8.8.8.8"))


def test_a_door_does_not_stay_open_when_the_next_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []

    def door(family: int, host: str, kind: int) -> socket.socket:
        if family == socket.AF_INET6 and kind == socket.SOCK_DGRAM:
            raise OSError("no")
        made.append(socket.socket(socket.AF_INET, kind))
        return made[-1]

    monkeypatch.setattr(raw_tcp_setup, "_door", door)
    monkeypatch.setattr(raw_tcp_setup, "_lead_home", lambda *_: None)
    monkeypatch.setattr(raw_tcp_setup, "_redirect", lambda: None)
    doors = raw_tcp_setup.open_doors()
    assert [each.fileno() >= 0 for each in made] == [True, True, False]

    def broken() -> None:
        raise OSError("no")

    monkeypatch.setattr(raw_tcp_setup, "_redirect", broken)
    with pytest.raises(OSError, match="no"):
        raw_tcp_setup.open_doors()
    assert [each.fileno() >= 0 for each in made[3:]] == [False] * 3
    for each in doors:
        each.close()


def question(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(each)]) + each.encode() for each in name.split("."))
    return struct.pack("!HHHHHH", 9, 0x100, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, kind, 1)


def test_questions_are_read_and_answered() -> None:
    asked = dns.read(question("Shop.Example"))
    assert asked is not None
    assert (asked.name, asked.kind) == ("shop.example", 1)
    both = ("192.0.2.1", "2001:db8::1", "192.0.2.2")
    told = dns.answer(question("Shop.Example"), asked, both, Trouble.NONE)
    assert told[:8] == struct.pack("!HHHH", 9, 0x8180, 1, 2)
    assert told.endswith(socket.inet_aton("192.0.2.2"))
    six = dns.read(question("shop.example", 28))
    assert six is not None
    assert dns.answer(question("shop.example", 28), six, both, Trouble.NONE).endswith(
        socket.inet_pton(socket.AF_INET6, "2001:db8::1")
    )
    unknown = dns.answer(question("a.b"), asked, (), Trouble.UNKNOWN)
    assert unknown[3] & 15 == 3


@settings(deadline=None)
@given(
    st.binary(max_size=80) | st.binary(max_size=40).map(lambda tail: question("a.b")[:12] + tail)
)
def test_nonsense_is_no_question(message: bytes) -> None:
    asked = dns.read(message)
    if asked is not None:
        dns.answer(message, asked, ("192.0.2.1",), Trouble.NONE)
