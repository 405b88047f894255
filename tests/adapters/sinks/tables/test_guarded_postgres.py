"""The way of a task's sink to PostgreSQL: past the guard, and with nothing of the node's own."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server
from typing import Any

import asyncpg
import pytest

from crawlfleet.adapters.sinks.tables.guarded_postgres import _context
from crawlfleet.crawl.fetch.dial import AddressRefused
from crawlfleet.crawl.output.sinks import on_node, open_sink
from crawlfleet.errors import CrawlfleetError, SinkUnusable
from crawlfleet.model.crawl.extraction import ExtractionPlan
from crawlfleet.model.crawl.parameters import SinkSpec


@contextmanager
def listening() -> Iterator[tuple[int, list[bool]]]:
    """A port, and whether anybody connected to it."""
    with create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        dialled: list[bool] = []
        yield int(server.getsockname()[1]), dialled
        try:
            server.accept()[0].close()
        except BlockingIOError:
            return
        dialled.append(True)


def opened(url: str, **limits: Any) -> Any:
    spec = on_node(
        SinkSpec(url=url), folder="/srv/sinks", **{"allow_private": False, "secrets": {}, **limits}
    )
    return open_sink(spec, ExtractionPlan())


@pytest.mark.parametrize(
    "hosts",
    [
        "127.0.0.1:{port}",
        "localhost:{port}",
        "[::1]:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "192.0.2.1:{port},127.0.0.1:{port}",
        "169.254.169.254:{port}",
    ],
)
def test_no_address_that_the_guard_refuses_is_dialled(hosts: str) -> None:
    with listening() as (port, dialled):
        sink = opened(f"postgresql://me@{hosts.format(port=port)}/shop")
        with pytest.raises(AddressRefused, match=r"worker\.allow_private"):
            asyncio.run(sink.open(None))
        asyncio.run(sink.close())
    assert dialled == []


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.1"])
def test_odd_spellings_of_addresses_lead_nowhere(host: str) -> None:
    with listening() as (port, dialled):
        sink = opened(f"postgresql://me@{host}:{port}/shop")
        with pytest.raises(CrawlfleetError):
            asyncio.run(sink.open(None))
        asyncio.run(sink.close())
    assert dialled == []


def test_nothing_of_the_node_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, Any] = {}

    async def connect(*args: Any, **how: Any) -> None:
        asked.update(how)
        raise asyncpg.InvalidPasswordError("no")

    monkeypatch.setattr(asyncpg, "connect", connect)
    sink = opened(
        "postgresql://me:${secret:PG}@127.0.0.1:7/shop?sslmode=verify-full",
        allow_private=True,
        secrets={"PG": "p@ss"},
    )
    with pytest.raises(SinkUnusable, match="cannot be written") as raised:
        asyncio.run(sink.open(None))
    assert "p@ss" not in str(raised.value)
    assert (asked["host"], asked["port"]) == (["127.0.0.1"], [7])
    assert (asked["user"], asked["password"], asked["database"]) == ("me", "p@ss", "shop")
    assert isinstance(asked["ssl"], ssl.SSLContext)
    assert asked["target_session_attrs"] == "any"

    sink = opened("postgresql://me@127.0.0.1:7/shop?sslmode=disable", allow_private=True)
    with pytest.raises(SinkUnusable, match="cannot be written"):
        asyncio.run(sink.open(None))
    assert asked["password"] == "", "`None` would look into ~/.pgpass"


@pytest.mark.parametrize(
    ("mode", "verified", "named"),
    [
        ("prefer", ssl.CERT_NONE, False),
        ("require", ssl.CERT_NONE, False),
        ("verify-ca", ssl.CERT_REQUIRED, False),
        ("verify-full", ssl.CERT_REQUIRED, True),
    ],
)
def test_the_certificate_is_asked_for_by_name(mode: str, verified: object, named: bool) -> None:
    context = _context("db.example", mode)
    assert (context.verify_mode, context.check_hostname) == (verified, named)
    wrapped = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="192.0.2.7")
    assert wrapped.server_hostname == "db.example"
