"""Workers that look for their master, and rogues who would like their join tokens."""

import asyncio
import contextlib
import os
import secrets
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trustme

from crawlfleet.client import Client
from crawlfleet.client.discovery import Announcement, Discovery
from crawlfleet.errors import CrawlfleetError
from crawlfleet.tls import Trust, pin_of, with_pin
from tests.support.local_fleet import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240), pytest.mark.xdist_group("discovery")]

KEY, JOIN = secrets.token_hex(32), secrets.token_hex(32)


def certificate(folder: Path, authority: trustme.CA, name: str) -> tuple[str, str]:
    issued = authority.issue_cert("fleet.example")
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(str(key))
    return str(cert), str(key)


class Rogue:
    """Announces itself, shows a certificate, and remembers all that it is told."""

    def __init__(self, cert: str, key: str) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, key)
        self.visits = 0
        self.heard = b""

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        port = free_port()

        async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # Counted before the handshake, which the visitor breaks off.
            self.visits += 1
            try:
                await writer.start_tls(self._context)
                while data := await reader.read(65536):
                    self.heard += data
            except (OSError, ssl.SSLError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(tunnel, "127.0.0.1", port)
        async with server, Announcement("127.0.0.1", port):
            yield


@contextlib.contextmanager
def process(folder: Path, *command: str, **environment: str) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CRAWLFLEET_")}
    log = folder / "output.log"
    with log.open("ab") as file:
        started = subprocess.Popen(
            [sys.executable, "-m", "crawlfleet", *command, "--data", str(folder)],
            env=kept | environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        yield log
    finally:
        started.terminate()
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def told(log: Path, text: str) -> bool:
    return text in log.read_text()


async def online(url: str, trust: Trust) -> int:
    with contextlib.suppress(CrawlfleetError):
        async with Client(url, KEY, trust=trust, patience_s=0) as client:
            return (await client.status()).totals.nodes.get("online", 0)
    return 0


def master(port: int, cert: str, key: str) -> list[str]:
    return ["master", "--port", str(port), "--tls-cert", cert, "--tls-key", key, "--announce"]


@pytest.mark.parametrize("known_by", ["key", "authority"])
def test_a_worker_finds_its_master_and_tells_a_rogue_nothing(tmp_path: Path, known_by: str) -> None:
    ours, theirs = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    cert, key = certificate(tmp_path, ours, "master")
    rogue = Rogue(*certificate(tmp_path, theirs, "rogue"))
    port = free_port()
    url, trust = f"https://127.0.0.1:{port}", Trust(pin=pin_of(cert))
    if known_by == "key":
        flags = ["--join", with_pin(JOIN, pin_of(cert))]
    else:
        flags = ["--join", JOIN, "--ca", str(tmp_path / "ca.pem")]
    secrets_of_master = {"CRAWLFLEET_ADMIN_KEY": KEY, "CRAWLFLEET_JOIN_TOKEN": JOIN}

    async def scene() -> None:
        async with rogue.open(), asyncio.timeout(180):
            with process(tmp_path / "w", "worker", "--discover", *flags) as log:
                # The rogue is all there is, and is not believed.
                while not told(log, "cannot register yet"):
                    await asyncio.sleep(0.1)
                assert rogue.visits
                with process(tmp_path / "m", *master(port, cert, key), **secrets_of_master):
                    while await online(url, trust) < 1:
                        await asyncio.sleep(0.1)
        assert rogue.heard == b""

    asyncio.run(scene())
    assert "session opened" in (tmp_path / "w" / "output.log").read_text()


def test_a_worker_that_cannot_tell_masters_apart_does_not_look_for_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "crawlfleet", "worker", "--discover", "--join", JOIN],
        env=os.environ | {"CRAWLFLEET_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert "join token that names its key" in done.stderr
    assert "--ca" in done.stderr


def test_a_master_is_announced_only_with_tls(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "crawlfleet", "master", "--announce", "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert "server.tls_cert" in done.stderr


def test_masters_come_and_go() -> None:
    async def scene() -> None:
        heard: list[list[str]] = []
        one, two = free_port(), free_port()

        async def until_told(*ports: int) -> None:
            wanted = {f"https://127.0.0.1:{port}" for port in ports}
            async with asyncio.timeout(60):
                while not heard or wanted != {each for each in heard[-1] if each in known}:
                    await asyncio.sleep(0.05)

        known = {f"https://127.0.0.1:{port}" for port in (one, two)}
        async with Discovery(heard.append, host="127.0.0.1"):
            async with Announcement("127.0.0.1", one):
                await until_told(one)
                async with Announcement("127.0.0.1", two):
                    await until_told(one, two)
                await until_told(one)
            # The last one may only be starting anew; it is not the last where others are heard,
            # such as those of a test that runs at the same time.
            await asyncio.sleep(0.5)
            if {each for told in heard for each in told} <= known:
                await until_told(one)

    asyncio.run(scene())
