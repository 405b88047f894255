"""Addresses and wrong keys: who is locked out, who is not, and what is told of it."""

import http.client
from collections.abc import Iterator
from typing import Final

import pytest

from tests.api.plain_http import Answer, Master, started

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api door")]

TASKS: Final = "/api/v1/tasks"
PER_MINUTE: Final = 5


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    """Behind a proxy on this machine, so that tests can come from anywhere."""
    with started(
        tmp_path_factory.mktemp("door") / "fleet",
        CRAWLFLEET_SERVER_WRONG_KEYS_PER_MINUTE=str(PER_MINUTE),
        CRAWLFLEET_SERVER_TRUSTED_PROXIES='["127.0.0.1"]',
        CRAWLFLEET_SERVER_ALLOW_CLIENTS='["10.0.0.0/8", "2001:db8::/32"]',
    ) as running:
        yield running


def ask(master: Master, address: str, key: str | None = "(the admin's key)") -> Answer:
    return master.call("GET", TASKS, key=key, headers={"X-Forwarded-For": address})


def guess(master: Master, address: str, times: int = PER_MINUTE + 1) -> Answer:
    for number in range(times):
        answer = ask(master, address, key=f"guess {number}")
    return answer


def test_wrong_keys_lock_out_their_address_for_a_while(master: Master) -> None:
    assert guess(master, "10.1.0.1", PER_MINUTE).status == 401
    locked = guess(master, "10.1.0.1", 1)
    assert locked.expect(429)["type"] == "urn:crawlfleet:problem:locked-out"
    assert 1 <= int(locked.headers["retry-after"]) <= 2


def test_others_are_not_concerned(master: Master) -> None:
    guess(master, "10.1.0.2")
    assert ask(master, "10.1.0.3").status == 200
    assert ask(master, "10.1.0.3", key="wrong").status == 401


def test_from_a_locked_address_only_keys_that_cannot_be_guessed_are_good(master: Master) -> None:
    _, made = master.key("made", "viewer")
    node = master.node(task_types=["none"])
    forwarded = {"X-Forwarded-For": "10.1.0.4"}
    for number in range(40):  # the lock grows, so that it outlasts the rest of this test
        ask(master, "10.1.0.4", key=f"guess {number}")
    assert ask(master, "10.1.0.4", key="wrong").status == 429
    assert ask(master, "10.1.0.4").status == 429
    assert ask(master, "10.1.0.4", key=made).status == 200
    beat = master.call("POST", f"{node.path}:heartbeat", {}, key=node.token, headers=forwarded)
    assert beat.status == 200


def test_no_key_and_keys_of_the_past_are_not_guesses(master: Master) -> None:
    key_id, revoked = master.key("past", "viewer")
    master.post(f"/api/v1/keys/{key_id}:revoke")
    for _ in range(3 * PER_MINUTE):
        assert ask(master, "10.1.0.5", key=None).status == 401
        assert ask(master, "10.1.0.5", key=revoked).status == 401
    assert ask(master, "10.1.0.5").status == 200


def test_a_household_has_one_bucket_however_many_addresses_it_has(master: Master) -> None:
    for number in range(PER_MINUTE + 1):
        answer = ask(master, f"2001:db8:0:7::{number:x}", key="wrong")
    assert answer.status == 429
    assert ask(master, "2001:db8:0:8::1", key="wrong").status == 401


@pytest.mark.parametrize("path", [TASKS, "/healthz", "/api/openapi.json", "/", "/nowhere"])
def test_from_elsewhere_nobody_may_ask_anything(master: Master, path: str) -> None:
    for key in (None, "wrong", master.fleet.key):
        answer = master.call("GET", path, key=key, headers={"X-Forwarded-For": "203.0.113.9"})
        problem = answer.expect(403)
        assert problem["type"] == "urn:crawlfleet:problem:address-refused"
        assert "203.0.113.9" in problem["detail"]


def test_nobody_gets_in_by_writing_headers(master: Master) -> None:
    # The proxy has appended the true address; what stands before it came from the client.
    assert ask(master, "127.0.0.1, 203.0.113.9").status == 403
    assert ask(master, "10.0.0.1,203.0.113.9").status == 403
    for header in ("Forwarded", "X-Real-IP", "X-Client-IP", "X-Forwarded-Host"):
        headers = {"X-Forwarded-For": "203.0.113.9", header: "10.0.0.1"}
        assert master.call("GET", TASKS, headers=headers).status == 403


def test_two_headers_count_as_one_list(master: Master) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", master.fleet.port, timeout=30)
    connection.putrequest("GET", "/healthz")
    connection.putheader("X-Forwarded-For", "10.0.0.1")
    connection.putheader("X-Forwarded-For", "203.0.113.9")
    connection.endheaders()
    assert connection.getresponse().status == 403
    connection.close()


def test_this_machine_itself_may_ask(master: Master) -> None:
    assert master.call("GET", TASKS).status == 200


def test_the_address_in_the_books_is_the_clients(master: Master) -> None:
    headers = {"X-Forwarded-For": "10.9.9.9"}
    body = {"name": "distant", "role": "viewer"}
    made = master.call("POST", "/api/v1/keys", body, headers=headers).expect(201)
    ask(master, "2001:db8::5", key=made["secret"])
    assert master.audit(action="create_key")[0]["address"] == "10.9.9.9"
    shown = master.get(f"/api/v1/keys/{made['key']['id']}")
    assert shown["last_used_from"] == "2001:db8::5"


def test_refusals_are_counted_and_told_but_not_one_by_one(master: Master) -> None:
    def refused(reason: str) -> float:
        lines = master.call("GET", "/metrics").content.decode().splitlines()
        start = f'crawlfleet_http_refused_total{{reason="{reason}"}}'
        (line,) = [line for line in lines if line.startswith(start)]
        return float(line.split()[-1])

    before = refused("no_key")
    for _ in range(100):
        ask(master, "10.1.0.6", key=None)
    assert refused("no_key") == before + 100
    assert refused("address") > 0
    assert refused("locked_out") > 0
    told = master.log().count("request refused")
    assert 0 < told < 100


def test_without_trusted_proxies_the_header_means_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with started(
        tmp_path_factory.mktemp("alone") / "fleet",
        CRAWLFLEET_SERVER_ALLOW_CLIENTS='["127.0.0.0/8"]',
        CRAWLFLEET_SERVER_ALLOW_LOOPBACK="false",
    ) as master:
        assert ask(master, "203.0.113.9").status == 200
        master.post("/api/v1/keys", {"name": "x", "role": "viewer"}, status=201)
        assert master.audit()[0]["address"] == "127.0.0.1"
