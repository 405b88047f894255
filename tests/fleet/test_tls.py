"""A fleet over TLS: whom workers and clients believe, whom a master lets in, and renewal."""

import asyncio
import base64
import contextlib
import hashlib
import os
import secrets
import signal
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from crawlfleet.client import Client
from crawlfleet.errors import ConfigError, CrawlfleetError, MasterUnreachable
from crawlfleet.tls import ServerCertificate, Trust, pin_of, with_pin
from tests.support.local_fleet import free_port

slow = pytest.mark.slow
JOIN = secrets.token_hex(32)
KEY = secrets.token_hex(32)


class Authority:
    """Makes certificates, and files of them."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder / name
        self._folder.mkdir()
        self._ca = trustme.CA(organization_name=name)
        self.file = str(self._folder / "ca.pem")
        self._ca.cert_pem.write_to_path(self.file)

    def issue(self, to: str, *names: str) -> tuple[str, str]:
        """The files of a certificate and its key; once more replaces them."""
        issued = self._ca.issue_cert(*(names or ("127.0.0.1", "localhost")))
        cert, key = self._folder / f"{to}.pem", self._folder / f"{to}.key"
        cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(key))
        return str(cert), str(key)


@contextlib.contextmanager
def process(folder: Path, *command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of crawlfleet, ended at the end."""
    folder.mkdir(exist_ok=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CRAWLFLEET_")}
    with (folder / "output.log").open("ab") as log:
        started = subprocess.Popen(
            [sys.executable, "-m", "crawlfleet", *command, "--data", str(folder)],
            env=kept | {"CRAWLFLEET_ADMIN_KEY": KEY, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


@contextlib.contextmanager
def a_master(
    folder: Path, cert: str, key: str, *more: str, **settings: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    port = free_port()
    flags = ["--port", str(port), "--tls-cert", cert, "--tls-key", key, *more]
    environment = {
        "CRAWLFLEET_JOIN_TOKEN": JOIN,
        "CRAWLFLEET_SESSION_HEARTBEAT_INTERVAL_S": "0.5",
        "CRAWLFLEET_SESSION_TIMEOUT_S": "4",
        **settings,
    }
    with process(folder, "master", *flags, **environment) as running:
        yield f"https://127.0.0.1:{port}", running


async def until_online(url: str, trust: Trust, *, nodes: int, within_s: float = 60.0) -> None:
    async with Client(url, KEY, trust=trust, patience_s=0) as client, asyncio.timeout(within_s):
        while True:
            with contextlib.suppress(CrawlfleetError):
                if (await client.status()).totals.nodes.get("online", 0) >= nodes:
                    return
            await asyncio.sleep(0.1)


async def reach(url: str, trust: Trust) -> None:
    async with Client(url, KEY, trust=trust, patience_s=0) as client:
        await client.liveness()


def test_a_fingerprint_is_of_the_public_key(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "one")
    cert, key = authority.issue("master")
    parsed = x509.load_pem_x509_certificate(Path(cert).read_bytes())
    spki = parsed.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    wanted = base64.urlsafe_b64encode(hashlib.sha256(spki).digest()).rstrip(b"=").decode()
    assert pin_of(cert) == wanted
    assert pin_of(cert) != pin_of(authority.issue("other")[0])
    with pytest.raises(ConfigError, match="no certificate in PEM form"):
        pin_of(key)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "one")
    cert, _ = authority.issue("master")
    _, other = authority.issue("other")
    with pytest.raises(ConfigError, match=r"master\.pem with the key .*other\.key"):
        ServerCertificate(cert, other)
    with pytest.raises(ConfigError, match=r"authorities in .*missing\.pem"):
        Trust(ca=str(tmp_path / "missing.pem")).context()


def test_half_of_a_renewal_changes_nothing(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "one")
    cert, key = authority.issue("master")
    served = ServerCertificate(cert, key)
    before = served._present
    old_key = Path(key).read_bytes()
    authority.issue("master")
    new_key = Path(key).read_bytes()
    Path(key).write_bytes(old_key)
    served.reload()
    assert served._present is before
    Path(key).write_bytes(new_key)
    served.reload()
    assert served._present is not before


@slow
def test_workers_and_clients_believe_their_authority_and_nobody_else(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path, "one"), Authority(tmp_path, "two")
    cert, key = authority.issue("master")
    ours = Trust(ca=authority.file)

    async def scene(url: str) -> None:
        await until_online(url, ours, nodes=0)
        for trust in (Trust(), Trust(ca=stranger.file)):
            with pytest.raises(MasterUnreachable, match="no trusted connection"):
                await reach(url, trust)
        with pytest.raises(MasterUnreachable, match="no trusted connection"):
            await reach(url, Trust(pin=pin_of(stranger.issue("other")[0])))
        await reach(url, Trust(pin=pin_of(cert)))
        with pytest.raises(MasterUnreachable):
            await reach(url.replace("https", "http"), Trust())
        join = ["worker", "--master", url, "--ca", authority.file, "--join", JOIN]
        with process(tmp_path / "a", *join, "--name", "a"):
            await until_online(url, ours, nodes=1)
        async with Client(url, KEY, trust=ours) as client:
            made = await client.create_join_token(uses=1, expires_in_s=600)
        assert made.join == with_pin(made.secret, pin_of(cert))
        # Neither a file nor a name: the token says by which key the master is known.
        with process(tmp_path / "b", "worker", "--master", url, "--join", made.join, "--name", "b"):
            await until_online(url, ours, nodes=1)
        assert (tmp_path / "b" / "nodes" / "b.json").exists()
        # A node that has joined comes back without a token, and knows its master.
        with process(tmp_path / "b", "worker", "--master", url, "--name", "b"):
            await until_online(url, ours, nodes=1)
            async with Client(url, KEY, trust=ours) as client:
                assert len(await client.nodes()) == 2
        said = (tmp_path / "b" / "output.log").read_text()
        assert "joining as a new node" not in said

    with a_master(tmp_path / "master", cert, key) as (url, _):
        asyncio.run(scene(url))


@slow
def test_a_worker_gives_its_join_token_to_no_master_with_another_key(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "one")
    cert, key = authority.issue("master")
    other, _ = authority.issue("other")

    async def scene(url: str) -> None:
        await until_online(url, Trust(ca=authority.file), nodes=0)
        token = with_pin(JOIN, pin_of(other))
        with process(tmp_path / "w", "worker", "--master", url, "--join", token):
            log = tmp_path / "w" / "output.log"
            async with asyncio.timeout(60):
                while b"its public key is not the one" not in log.read_bytes():
                    await asyncio.sleep(0.1)
        async with Client(url, KEY, trust=Trust(ca=authority.file)) as client:
            assert await client.nodes() == []

    with a_master(tmp_path / "master", cert, key) as (url, _):
        asyncio.run(scene(url))


@slow
def test_a_master_with_client_authorities_answers_nobody_without_their_certificate(
    tmp_path: Path,
) -> None:
    authority, stranger = Authority(tmp_path, "one"), Authority(tmp_path, "two")
    cert, key = authority.issue("master")
    clients = Authority(tmp_path, "clients")
    good = clients.issue("worker", "worker.example")
    bad = stranger.issue("worker", "worker.example")

    async def scene(url: str) -> None:
        ours = Trust(ca=authority.file, cert=good[0], key=good[1])
        await until_online(url, ours, nodes=0)
        for trust in (
            Trust(ca=authority.file),
            Trust(ca=authority.file, cert=bad[0], key=bad[1]),
        ):
            with pytest.raises(MasterUnreachable):
                await reach(url, trust)
        flags = ["--ca", authority.file, "--cert", good[0], "--key", good[1]]
        with process(tmp_path / "w", "worker", "--master", url, "--join", JOIN, *flags):
            await until_online(url, ours, nodes=1)

    with a_master(tmp_path / "master", cert, key, "--tls-client-ca", clients.file) as (url, _):
        asyncio.run(scene(url))


@slow
@pytest.mark.parametrize("knows_clients", [False, True])
def test_handshakes_that_break_off_leave_no_traceback(tmp_path: Path, knows_clients: bool) -> None:
    authority = Authority(tmp_path, "one")
    cert, key = authority.issue("master")
    clients = Authority(tmp_path, "clients")
    good = clients.issue("worker", "worker.example")
    trust = Trust(ca=authority.file, cert=good[0], key=good[1])
    more = ("--tls-client-ca", clients.file) if knows_clients else ()

    def hello() -> bytes:
        """The first words of a client that trusts everybody."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        sent = ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
        return sent.read()

    def leave(port: int, said: bytes, *, resets: bool, reads: int) -> None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=10) as peer,
        ):
            peer.sendall(said)
            peer.recv(reads) if reads else None
            if resets:
                linger = struct.pack("ii", 1, 0)
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def refuse(port: int) -> None:
        """A client that does not believe the master, and one without a certificate of its own."""
        for context in (ssl.create_default_context(), Trust(ca=authority.file).context()):
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), timeout=10) as peer,
                context.wrap_socket(peer, server_hostname="localhost") as secure,
            ):
                secure.sendall(b"GET /healthz HT")

    with a_master(tmp_path / "master", cert, key, *more) as (url, _):
        asyncio.run(until_online(url, trust, nodes=0))
        port = int(url.rpartition(":")[2])
        for resets in (False, True):
            for said, reads in (
                (b"", 0),
                (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 10),
                (hello()[:40], 0),
                (hello(), 0),
                (hello(), 100),
                (hello() + b"\x16\x03\x03\0\5junk!", 10_000),
            ):
                leave(port, said, resets=resets, reads=reads)
            refuse(port)
        asyncio.run(reach(url, trust))
    told = (tmp_path / "master" / "output.log").read_text("utf-8")
    assert "Traceback" not in told
    assert "was never retrieved" not in told


@slow
def test_a_replaced_certificate_is_shown_to_new_connections_and_old_ones_go_on(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path, "one")
    cert, key = authority.issue("master")
    trust = Trust(ca=authority.file)

    async def shown(url: str) -> str:
        host, port = url.removeprefix("https://").split(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=trust.context())
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return ssl.DER_cert_to_PEM_cert(der)

    async def scene(url: str, master: subprocess.Popen[bytes]) -> None:
        await until_online(url, trust, nodes=0)
        async with Client(url, KEY, trust=trust, patience_s=0) as client:
            await client.liveness()
            before = await shown(url)
            authority.issue("master")
            master.send_signal(signal.SIGHUP)
            await asyncio.sleep(0.5)
            renewed = await shown(url)
            assert renewed != before
            # And by themselves, without a signal.
            authority.issue("master")
            async with asyncio.timeout(30):
                while await shown(url) == renewed:
                    await asyncio.sleep(0.2)
            await client.liveness()

    with a_master(tmp_path / "master", cert, key) as (url, master):
        asyncio.run(scene(url, master))


@slow
def test_up_over_tls_needs_no_more_than_the_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "one")
    cert, key = authority.issue("master", "fleet.example")
    port = free_port()
    flags = ["--port", str(port), "--tls-cert", cert, "--tls-key", key, "--workers", "1"]
    with process(tmp_path / "up", "up", *flags):
        asyncio.run(until_online(f"https://127.0.0.1:{port}", Trust(pin=pin_of(cert)), nodes=1))
        status = subprocess.run(
            [sys.executable, "-m", "crawlfleet", "status", "--data", str(tmp_path / "up")],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert status.returncode == 0, status.stderr


@slow
@pytest.mark.parametrize("command", ["master", "up"])
def test_nobody_beyond_this_machine_is_answered_in_the_clear_by_accident(
    tmp_path: Path, command: str
) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "crawlfleet", command, "--host", "0.0.0.0", "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode != 0
    assert "--tls-cert" in refused.stderr
    assert "--plain-http" in refused.stderr
    port = str(free_port())
    flags = ["--host", "0.0.0.0", "--port", port, "--plain-http"]
    with process(tmp_path / "plain", command, *flags):
        asyncio.run(until_online(f"http://127.0.0.1:{port}", Trust(), nodes=0))


@slow
def test_a_worker_that_dies_is_missed_and_one_whose_idle_connections_are_closed_is_not(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path, "one")
    cert, key = authority.issue("master")
    ours = Trust(ca=authority.file)

    async def scene(url: str) -> None:
        join = ["worker", "--master", url, "--ca", authority.file, "--join", JOIN]
        with process(tmp_path / "w", *join, "--name", "w") as worker:
            await until_online(url, ours, nodes=1)
            async with Client(url, KEY, trust=ours) as client:
                # Longer than a connection may be idle, and than it takes to beat again.
                until = asyncio.get_running_loop().time() + 9.0
                while asyncio.get_running_loop().time() < until:
                    assert (await client.nodes())[0].status == "online"
                    await asyncio.sleep(0.2)
                worker.kill()
                async with asyncio.timeout(20):
                    while (await client.nodes())[0].status == "online":
                        await asyncio.sleep(0.1)

    # Nobody is missed for silence.
    patient = {
        "CRAWLFLEET_SESSION_HEARTBEAT_INTERVAL_S": "7",
        "CRAWLFLEET_SESSION_TIMEOUT_S": "120",
        "CRAWLFLEET_SESSION_LONG_POLL_S": "0.1",
    }
    with a_master(tmp_path / "master", cert, key, **patient) as (url, _):
        asyncio.run(scene(url))
