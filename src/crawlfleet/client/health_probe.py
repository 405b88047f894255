"""Probes the health endpoints of nodes over HTTP."""

import asyncio
from typing import Final

import msgspec

MAX_ANSWER_BYTES: Final = 4096


class _Presence(msgspec.Struct, frozen=True):
    node_id: str | None = None


class HttpProber:
    """Implements `crawlfleet.ports.health_probe.Prober`: one request, no redirect, a bounded
    answer."""

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    async def ask(self, address: str, port: int, node_id: str) -> str | None:
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await _get(address, port)
        except TimeoutError:
            return f"no answer within {self._timeout_s:g} s"
        except OSError as error:
            return error.strerror or type(error).__name__
        head, _, body = answer.partition(b"\r\n\r\n")
        status = head.split(b" ", 2)[1:2]
        if status != [b"200"]:
            return "it does not answer with 200"
        try:
            found = msgspec.json.decode(body, type=_Presence)
        except msgspec.DecodeError:
            return "what answers there is no node"
        return None if found.node_id == node_id else "another node answers there"


async def _get(address: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(address, port)
    try:
        host = f"[{address}]" if ":" in address else address
        writer.write(
            f"GET /healthz HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()
        )
        chunks, size = [], 0
        while size < MAX_ANSWER_BYTES and (chunk := await reader.read(MAX_ANSWER_BYTES - size)):
            chunks.append(chunk)
            size += len(chunk)
        return b"".join(chunks)
    finally:
        writer.close()
