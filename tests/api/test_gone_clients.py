"""Clients that go away in the middle of everything: the master goes on, and its log stays readable.

No traceback is written for what strangers do, and no line for each of them.
"""

import asyncio
import json
import logging
import os
import socket
import struct
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Final

import pytest

from crawlfleet.api.http.serving import MAX_LINES_PER_MINUTE, InvalidRequestLogFilter
from crawlfleet.api.routes.crawl_downloads import download
from crawlfleet.model.wire.output import OutputSummary
from tests.api.plain_http import CrawlingNode, Master, started

BIG: Final = 3_000_000
"""Of a body that is announced; less than a master takes."""
TIMES: Final = 2

Leave = Callable[[socket.socket], None]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    with started(tmp_path_factory.mktemp("gone") / "fleet") as running:
        yield running


@pytest.fixture(scope="module")
def crawl(master: Master) -> CrawlingNode:
    """A crawl with more output than the kernel takes for a reader that reads nothing."""
    node = CrawlingNode(master)
    node.keep(columns=["t"])
    for _ in range(12):
        rows = (json.dumps(["p", {"t": os.urandom(300).hex()}]) for _ in range(1000))
        node.keep("".join(f"{row}\n" for row in rows).encode())
    node.keep()
    return node


def close(peer: socket.socket) -> None:
    peer.close()


def reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def head(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


def before_they_are_done(key: str, task: str, node: CrawlingNode) -> dict[str, tuple[bytes, int]]:
    """What is sent, and how much of the answer is read before the client goes."""
    by = f"Authorization: Bearer {key}"
    of_node = f"Authorization: Bearer {node.token}"
    events = "Accept: text/event-stream"
    socket_of_web = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
    poll = json.dumps({"session_id": node.session, "wait_s": 20}).encode()
    long = f"Content-Length: {BIG}"
    return {
        "nothing": (b"", 0),
        "within the first line": (b"GET /api/v1/ta", 0),
        "within the headers": (head("GET", "/api/v1/tasks", by)[:-2], 0),
        "before the body": (head("POST", "/api/v1/tasks", by, long), 0),
        "within the body": (head("POST", "/api/v1/tasks", by, long) + b"{" * 200_000, 0),
        "within a body for nobody": (head("POST", "/nowhere", by, long) + b"{" * 70_000, 0),
        "within a body without a key": (head("POST", "/api/v1/tasks", long) + b"{" * 70_000, 0),
        "within a body that is too large": (
            head("POST", "/api/v1/tasks", by, "Content-Length: 90000000") + b"{" * 200_000,
            0,
        ),
        "within a node's body": (
            head("POST", f"{node.path}/services/output", of_node, long) + b"{" * 99,
            0,
        ),
        "within a chunk": (
            head("POST", "/api/v1/tasks", by, "Transfer-Encoding: chunked") + b"ffff\r\nabc",
            0,
        ),
        "a chunk that is none": (
            head("POST", "/api/v1/tasks", by, "Transfer-Encoding: chunked") + b"zz\r\nabc\r\n",
            0,
        ),
        "a packed body that breaks off": (
            head("POST", "/api/v1/tasks", by, "Content-Encoding: gzip", "Content-Length: 5000")
            + b"\x1f\x8babc",
            0,
        ),
        "after a request": (head("GET", "/api/v1/tasks?limit=1000", by), 0),
        "while it waits": (head("GET", f"/api/v1/tasks/{task}?wait=30", by), 0),
        "while its node waits": (
            head("POST", f"{node.path}:lease", of_node, f"Content-Length: {len(poll)}") + poll,
            0,
        ),
        "at the beginning of events": (head("GET", "/api/v1/events", by, events), 0),
        "within events": (head("GET", "/api/v1/events", by, events), 200),
        "within a log": (
            head("GET", f"/api/v1/executions/{node.work['execution_id']}/logs?follow=true", by),
            50,
        ),
        "at the beginning of a download": (head("GET", f"{node.path_of_crawl}/output", by), 0),
        "within a download": (head("GET", f"{node.path_of_crawl}/output", by), 50_000),
        "within a table": (head("GET", f"{node.path_of_crawl}/output?format=csv", by), 50_000),
        "within items": (head("GET", f"{node.path_of_crawl}/items?limit=1000", by), 5_000),
        "within a page": (head("GET", "/"), 20),
        "a web socket": (head("GET", "/api/v1/events", by, *socket_of_web), 10),
        "another protocol": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 10),
        "many at once": (head("GET", "/healthz") * 20, 0),
        "garbage after a request": (head("GET", "/healthz") + b"\0\xff garbage\r\n\r\n", 10),
        "garbage": (bytes(range(256)), 10),
        "a header without end": (b"GET / HTTP/1.1\r\nX: " + b"a" * 400_000, 0),
        "two lengths": (head("POST", "/api/v1/tasks", by, "Content-Length: 2, 5") + b"{}", 0),
        "a host that is none": (b"GET /healthz HTTP/1.1\r\nHost: a:b:c\r\n\r\n", 10),
        "an address that is none": (b"GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n", 10),
    }


def go_away(master: Master, said: bytes, read: int, leave: Leave) -> None:
    peer = socket.socket()
    peer.settimeout(10)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    try:
        peer.connect(("127.0.0.1", master.fleet.port))
        peer.sendall(said)
        while read > 0 and (data := peer.recv(min(read, 65_536))):
            read -= len(data)
        time.sleep(0.01)
    except OSError:
        pass  # refused under way, as some of this is
    leave(peer)


@pytest.mark.slow
@pytest.mark.xdist_group("api gone clients")
@pytest.mark.parametrize("leave", [close, reset])
def test_no_client_that_goes_away_leaves_a_traceback(
    master: Master, crawl: CrawlingNode, leave: Leave
) -> None:
    task = master.submit(task_type="nobodys")
    before = len(master.log().splitlines())
    for _ in range(TIMES):
        for said, read in before_they_are_done(master.fleet.key, task, crawl).values():
            go_away(master, said, read, leave)
    slow = [socket.create_connection(("127.0.0.1", master.fleet.port)) for _ in range(20)]
    for letter in b"GET ":
        for peer in slow:
            peer.sendall(bytes([letter]))
    for peer in slow:
        leave(peer)
    master.get("/api/v1/status")
    time.sleep(0.5)  # until the last of them are missed
    assert master.get(f"/api/v1/tasks/{task}")["status"] == "pending"
    told = master.log()
    assert "Traceback" not in told
    assert "was never retrieved" not in told
    # The log is in two files here; a request without a key is a line, as often as others say.
    assert len(told.splitlines()) - before < 2 * (MAX_LINES_PER_MINUTE + TIMES + 20)


def test_what_writes_a_download_is_closed_when_its_reader_goes() -> None:
    closed: list[str] = []

    async def pieces() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b'["p", {"t": 1}]\n'
        finally:
            closed.append("pieces")

    async def read(format: str, offset: int) -> None:
        summary = OutputSummary(items=1, bytes=1, columns=("t",), kinds=False)
        answer = download(pieces(), summary, format, "x", offset)
        taken = 0
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal taken
            taken += 1
            if taken > 5:
                gone.set()
            await asyncio.sleep(0)

        async with asyncio.timeout(10):
            await answer({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)
        # At once, and not when somebody collects what was left.
        assert closed == ["pieces"], format

    for format in ("jsonl", "csv", "warc"):
        for offset in (0, 5):
            closed.clear()
            asyncio.run(read(format, offset))


def test_strange_connections_are_a_few_lines_a_minute() -> None:
    now = 0.0
    sparing = InvalidRequestLogFilter(clock=lambda: now)

    def told(message: str) -> str | None:
        record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, message, None, None)
        return str(record.msg) if sparing.filter(record) else None

    strange = "Invalid HTTP request received."
    assert [told(strange) for _ in range(100)].count(strange) == MAX_LINES_PER_MINUTE
    assert told("Started server process") == "Started server process"
    assert told("No supported WebSocket library detected. Please …") is None
    now = 60.0
    again = told(strange)
    assert again is not None
    assert f"So did {100 - MAX_LINES_PER_MINUTE} before" in again
    assert told(strange) == strange
