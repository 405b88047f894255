"""Requests of spiders as they wait at the master: written in JSON, and read as they were."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.core.crawls import frontier_codec
from crawlfleet.model.crawl.frontier import FrontierCounts, HostLease, WaitingUrl
from crawlfleet.model.wire import frontier as wire
from crawlfleet.worker.runner.crawlfleet_runner.requests import (
    KEY,
    Unpackable,
    host_of,
    pack,
    unpack,
    written,
)

PLAIN = st.none() | st.booleans() | st.integers() | st.text() | st.binary()
KEYS = st.text() | st.binary() | st.integers()
VALUES: st.SearchStrategy[Any] = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(KEYS, inner)
        | st.lists(inner).map(tuple)
        | st.frozensets(st.text() | st.binary())
    ),
)


@settings(deadline=None)
@given(VALUES)
def test_what_a_request_holds_comes_back_as_it_was(value: Any) -> None:
    again = unpack(json.loads(json.dumps(pack(value))))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize("value", [object(), {"a": lambda: None}, [1 + 2j], {("a",): object()}])
def test_what_cannot_be_written_down_is_told(value: Any) -> None:
    with pytest.raises(Unpackable):
        pack(value)


def test_a_host_is_known_by_scheme_name_and_port() -> None:
    assert host_of("HTTPS://ann:pw@Shop.Example:8443/a?b") == "https://shop.example:8443"


def test_a_host_is_called_as_other_crawls_call_it() -> None:
    assert host_of("https://Shop.example:443/a") == "https://shop.example"
    assert host_of("http://shop.example:80") == "http://shop.example"
    assert host_of("http://shop.example:443/") == "http://shop.example:443"


def test_the_proxy_of_a_cell_does_not_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://cell:secret@127.0.0.1:3128")
    headers = {b"Proxy-Authorization": [b"Basic x"], b"Accept": [b"*/*"]}

    class Request:
        def __init__(self, proxy: str) -> None:
            self.meta = {"proxy": proxy, "_auth_proxy": proxy, KEY: 7, "depth": 2}

        def to_dict(self, spider: Any) -> dict[str, Any]:
            return {"url": "http://a/", "headers": headers, "meta": self.meta}

    own = unpack(json.loads(written(Request("http://127.0.0.1:3128"), None)))
    assert own == {"url": "http://a/", "headers": {b"Accept": [b"*/*"]}, "meta": {"depth": 2}}
    other = unpack(json.loads(written(Request("http://proxy.example:3128"), None)))
    assert other["meta"]["proxy"] == "http://proxy.example:3128"
    assert other["headers"] == headers


def test_what_is_asked_in_json_is_answered_in_json() -> None:
    step = {
        "ask": "step",
        "worker": "spider",
        "number": 1,
        "commit": {
            "hosts": [
                {
                    "host": "https://a",
                    "token": 3,
                    "visits": [[5, "ok", 200, 1.5, [[7, "{}", "https://a", 0]]]],
                    "release": True,
                }
            ],
            "receipts": {"fleet:items@exec-1": {"runs": []}},
        },
    }
    asked = (
        frontier_codec.IN_JSON + json.dumps({"asks": [{"ask": "open"}, step], "life": 2}).encode()
    )
    heard = frontier_codec.request_in(asked)
    assert heard.life == 2
    assert isinstance(heard.asks[1], wire.Step)
    visit = heard.asks[1].commit.hosts[0].visits[0]
    assert (visit.id, visit.outcome, visit.links[0].url) == (5, "ok", "{}")

    waiting = WaitingUrl(5, "{}", 0, 1, 0)
    leases = [HostLease(host="https://a", token=3, urls=[waiting])]
    counts = FrontierCounts(known=1, waiting=1, leased=0, done=0, pages=0, depths={0: 1})
    told = wire.FrontierReply(
        life=2, counts=counts, answers=[frontier_codec.raw({}), frontier_codec.raw(leases)]
    )
    answer = frontier_codec.answer_to(asked, told)
    assert answer[:1] == frontier_codec.IN_JSON
    plain = json.loads(answer[1:])
    assert plain["counts"]["waiting"] == 1
    assert plain["answers"][1][0]["urls"][0][:2] == [5, "{}"]
    nothing = frontier_codec.answer_to(asked, wire.FrontierReply(life=3, counts=counts))
    assert json.loads(nothing[1:])["answers"] is None
    assert frontier_codec.reply_in(frontier_codec.answer_to(frontier_codec.PLAIN, told)).life == 2

    with pytest.raises(frontier_codec.Unreadable):
        frontier_codec.request_in(frontier_codec.IN_JSON + b"{")
