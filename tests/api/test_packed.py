"""Packed bodies, both ways: by agreement, and never more than is allowed."""

import asyncio
import json
import zlib
from typing import Any

import pytest

from crawlfleet import zstd
from crawlfleet.client.http import transport as transport_module
from crawlfleet.client.http.transport import Transport
from crawlfleet.core.network.compression import pack, unpack
from crawlfleet.views.tasks import TaskPage
from tests.api.plain_http import MAX_BODY_MB, Master

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api packed")]


def many(number: int) -> dict[str, Any]:
    task = {"task_type": "packed", "parameters": {"text": "the same again and again " * 20}}
    return {"tasks": [task] * number}


@pytest.mark.parametrize("encoding", ["zstd", "gzip", "GZIP", "identity"])
def test_a_packed_request_is_as_good_as_any(master: Master, encoding: str) -> None:
    plain = json.dumps(many(20)).encode()
    body = plain if encoding == "identity" else pack(plain, encoding.lower())
    answer = master.call(
        "POST", "/api/v1/tasks:batch", body, headers={"Content-Encoding": encoding}
    )
    assert len(answer.expect(200)["items"]) == 20


def test_every_answer_says_what_requests_may_be_packed_with(master: Master) -> None:
    for answer in (master.call("GET", "/healthz"), master.call("GET", "/api/v1/none")):
        assert answer.headers["accept-encoding"] == "zstd, gzip"


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
def test_a_bomb_is_refused(master: Master, encoding: str) -> None:
    packer = zstd.ZstdCompressor() if encoding == "zstd" else zlib.compressobj(wbits=31)
    blanks = b" " * 1_000_000
    parts = [packer.compress(each) for each in (b"[", *[blanks] * 500, b"]")]
    bomb = b"".join(parts) + packer.flush()
    assert len(bomb) < MAX_BODY_MB * 1e6
    answer = master.call(
        "POST", "/api/v1/tasks:batch", bomb, headers={"Content-Encoding": encoding}
    )
    assert answer.expect(413)["type"] == "urn:crawlfleet:problem:too-large"


@pytest.mark.parametrize(
    ("encoding", "status", "problem"),
    [
        ("br", 415, "unsupported-encoding"),
        ("gzip, gzip", 415, "unsupported-encoding"),
        ("gzip", 400, "malformed-encoding"),
        ("zstd", 400, "malformed-encoding"),
    ],
)
def test_what_cannot_be_unpacked_is_refused(
    master: Master, encoding: str, status: int, problem: str
) -> None:
    answer = master.call(
        "POST", "/api/v1/tasks", b"no such thing", headers={"Content-Encoding": encoding}
    )
    assert answer.expect(status)["type"] == f"urn:crawlfleet:problem:{problem}"


def test_strangers_do_not_get_to_unpack_anything(master: Master) -> None:
    bomb = pack(bytes(1_000_000), "zstd")
    answer = master.call(
        "POST", "/api/v1/tasks", bomb, key=None, headers={"Content-Encoding": "zstd"}
    )
    answer.expect(401)


def test_large_answers_are_packed_for_those_who_understand_it(master: Master) -> None:
    master.post("/api/v1/tasks:batch", many(20))
    path = "/api/v1/tasks?limit=20&task_type=packed"
    plain = master.call("GET", path)
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == "Accept-Encoding"
    for accepted, unpacked in (
        ("gzip", lambda body: zlib.decompress(body, 31)),
        ("gzip, zstd", lambda body: unpack(body, "zstd", most_bytes=10**7)),
    ):
        packed = master.call("GET", path, headers={"Accept-Encoding": accepted})
        assert packed.headers["content-encoding"] == accepted.rpartition(" ")[2]
        assert len(packed.content) * 3 < len(plain.content)
        assert json.loads(unpacked(packed.content)) == plain.json


def test_small_answers_secrets_and_versions_stay_as_they_are(master: Master) -> None:
    accept = {"Accept-Encoding": "zstd, gzip"}
    small = master.call("GET", "/api/v1/status", headers=accept)
    secret = master.call("POST", "/api/v1/join-tokens", {"name": "x"}, headers=accept)
    long = master.submit(task_type="packed", parameters={"text": "x" * 10_000})
    versioned = master.call("GET", f"/api/v1/tasks/{long}", headers=accept)
    assert versioned.headers["etag"]
    for answer in (small, secret, versioned):
        assert "content-encoding" not in answer.headers


class Counted(Transport):
    """Remembers how each request was sent."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.sent: list[str] = []

    def _packed(self, content: bytes | None, address: str) -> Any:
        packed, how = super()._packed(content, address)
        self.sent.append(how.get("Content-Encoding", ""))
        return packed, how


def test_a_client_packs_once_it_knows_that_its_master_unpacks(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> list[str]:
        key = master.fleet.key
        async with Counted(master.fleet.url) as transport:
            for _ in range(2):
                await transport.call(
                    "POST", "/api/v1/tasks:batch", dict[str, Any], key=key, body=many(20)
                )
            page = await transport.call(
                "GET", "/api/v1/tasks", TaskPage, key=key, query={"limit": "50"}
            )
            assert len(page.items) == 50
            return transport.sent

    # On the same machine there is nothing to gain.
    assert asyncio.run(scene()) == ["", "", ""]
    monkeypatch.setattr(transport_module, "is_near", lambda _: False)
    assert asyncio.run(scene()) == ["", "zstd", ""]
