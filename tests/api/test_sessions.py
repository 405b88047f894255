"""Signing in with a browser: cookies, links, pages that are not ours, and what ends it all."""

import http.client
import json
import time
from pathlib import Path
from typing import Final

import pytest

from crawlfleet.model.key import Role
from tests.api.plain_http import Answer, Master, sign_in, started

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api sessions")]

SESSION: Final = "/api/v1/session"
ENDS_WITHIN_S: Final = 30.0


def browser(master: Master, headers: dict[str, str], method: str, path: str) -> Answer:
    return master.call(method, path, key=None, headers=headers)


def cookie_of(answer: Answer) -> dict[str, str]:
    """The parts of the cookie that an answer sets, by their names in lower case."""
    parts = [part.strip().partition("=") for part in answer.headers["set-cookie"].split(";")]
    return {name.lower(): value for name, _, value in parts}


def test_whoever_signs_in_with_a_key_is_that_key(master: Master) -> None:
    key_id, secret = master.key("ann", "operator", project_id="shop")
    answer = master.call("POST", SESSION, {"key": secret}, key=None)
    view = answer.expect(201)
    assert {name: view[name] for name in ("name", "role", "projects")} == {
        "name": "ann",
        "role": "operator",
        "projects": ["shop"],
    }
    assert answer.headers["cache-control"] == "no-store"
    cookie = cookie_of(answer)
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == ("", "Strict", "/")
    assert "secure" not in cookie
    assert 86_000 < int(cookie["max-age"]) <= 86_400
    headers = {"Cookie": f"crawlfleet_session={cookie['crawlfleet_session']}"}
    assert browser(master, headers, "GET", SESSION).expect(200) == view
    assert master.get(f"/api/v1/keys/{key_id}")["last_used_from"] == "127.0.0.1"


def test_a_key_can_ask_who_it_is(master: Master) -> None:
    _, secret = master.key("whoami", "viewer", expires_in_s=3600)
    seen = master.get(SESSION, key=secret)
    assert (seen["name"], seen["role"], "csrf" in seen) == ("whoami", "viewer", False)
    assert seen["expires_at"]


def test_what_a_session_changes_is_in_the_audit_log_under_the_name_of_its_key(
    master: Master,
) -> None:
    key_id, secret = master.key("bea", "operator")
    headers = sign_in(master, secret)
    task = {"task_type": "nobodys"}
    task_id = master.call("POST", "/api/v1/tasks", task, key=None, headers=headers).expect(201)[
        "id"
    ]
    browser(master, headers, "DELETE", SESSION).expect(200)
    entries = master.audit(actor="bea")
    assert [each["action"] for each in entries] == ["close_session", "create_task", "open_session"]
    assert {(each["actor_id"], each["role"]) for each in entries} == {(key_id, "operator")}
    assert entries[1]["subjects"] == [task_id]


def test_wrong_keys_and_links_do_not_sign_in(master: Master) -> None:
    for body in ({"key": "0" * 64}, {"key": ""}, {"link": "0" * 64}, {"link": "x" * 100_000}):
        answer = master.call("POST", SESSION, body, key=None)
        assert answer.expect(401)["type"] == "urn:crawlfleet:problem:unauthenticated"
        assert "set-cookie" not in answer.headers
    for body in ({}, {"key": "0" * 64, "link": "0" * 64}, {"key": None}):
        assert master.call("POST", SESSION, body, key=None).expect(422)["errors"][0]["remedy"]
    refused = master.call("POST", SESSION, {"key": master.keys[Role.NODE]}, key=None)
    assert "cannot sign in" in refused.expect(403)["detail"]


def test_a_link_signs_in_once(master: Master) -> None:
    _, secret = master.key("lin", "viewer")
    answer = master.call("POST", f"{SESSION}:link", key=secret)
    link = answer.expect(201)
    assert answer.headers["cache-control"] == "no-store"
    assert link["path"] == f"/open#{link['token']}"
    first = master.call("POST", SESSION, {"link": link["token"]}, key=None).expect(201)
    assert (first["name"], first["role"]) == ("lin", "viewer")
    again = master.call("POST", SESSION, {"link": link["token"]}, key=None)
    assert "used" in again.expect(401)["detail"]


def test_up_prints_a_link_that_signs_in_as_admin(master: Master) -> None:
    printed = (master.fleet.folder / "up.log").read_text()
    token = printed.partition("/open#")[2].split()[0]
    assert f"crawlfleet is up: {master.fleet.url}/open#{token}\n" in printed
    assert master.fleet.key not in printed
    view = master.call("POST", SESSION, {"link": token}, key=None).expect(201)
    assert (view["name"], view["role"]) == ("admin", "admin")


def test_a_page_elsewhere_can_neither_sign_in_nor_out(master: Master) -> None:
    _, secret = master.key("eve", "viewer")
    there = {"Origin": "http://evil.example"}
    answer = master.call("POST", SESSION, {"key": secret}, key=None, headers=there)
    assert "evil.example" in answer.expect(403)["detail"]
    headers = {**sign_in(master, secret), **there}
    assert browser(master, headers, "DELETE", SESSION).status == 403
    assert browser(master, headers, "GET", SESSION).status == 200  # which nobody there may read
    null = {**headers, "Origin": "null"}
    assert browser(master, null, "DELETE", SESSION).status == 403


def test_a_key_beside_a_cookie_is_what_counts(master: Master) -> None:
    headers = sign_in(master, master.keys[Role.VIEWER])
    seen = master.get(SESSION, headers={"Cookie": headers["Cookie"]})
    assert seen["role"] == "admin"
    answer = master.call("GET", SESSION, key="0" * 64, headers={"Cookie": headers["Cookie"]})
    assert answer.status == 401


def test_answers_to_browsers_run_nothing(master: Master) -> None:
    headers = sign_in(master, master.keys[Role.VIEWER])
    for path in ("/api/v1/tasks", "/api/v1/nodes", "/api/v1/events"):
        answer = browser(master, headers, "GET", path)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"


def test_a_live_stream_ends_with_the_key_of_its_session(master: Master) -> None:
    key_id, secret = master.key("stream", "viewer")
    headers = sign_in(master, secret)
    connection = http.client.HTTPConnection("127.0.0.1", master.fleet.port, timeout=ENDS_WITHIN_S)
    try:
        asked = {"Cookie": headers["Cookie"], "Accept": "text/event-stream"}
        connection.request("GET", "/api/v1/events", headers=asked)
        response = connection.getresponse()
        assert response.status == 200
        master.post(f"/api/v1/keys/{key_id}:revoke")
        assert browser(master, headers, "GET", SESSION).status == 401
        until = time.monotonic() + ENDS_WITHIN_S
        while response.read1(65536):
            assert time.monotonic() < until
    finally:
        connection.close()


def test_wrong_keys_lock_out_here_as_well(tmp_path: Path) -> None:
    limit = {"CRAWLFLEET_SERVER_WRONG_KEYS_PER_MINUTE": "3"}
    with started(tmp_path / "fleet", **limit) as master:
        made = master.key("made", "viewer")[1]
        headers = sign_in(master, master.fleet.key)
        statuses = [
            master.call("POST", SESSION, {"key": f"{n:064}"}, key=None).status for n in range(6)
        ]
        assert statuses[0] == 401
        assert statuses[-1] == 429
        locked = master.call("POST", SESSION, {"key": master.fleet.key}, key=None)
        assert locked.expect(429)["type"] == "urn:crawlfleet:problem:locked-out"
        assert int(locked.headers["retry-after"]) >= 1
        # Nobody guesses what the master made, and whoever is in stays in.
        assert master.call("POST", SESSION, {"key": made}, key=None).status == 201
        assert browser(master, headers, "GET", SESSION).status == 200


def test_sessions_outlast_a_master_that_is_killed(tmp_path: Path) -> None:
    with started(tmp_path / "fleet") as master:
        headers = sign_in(master, master.keys[Role.OPERATOR])
        csrf = browser(master, headers, "GET", SESSION).expect(200)["csrf"]
        assert master.fleet.kill("master")
        until = time.monotonic() + ENDS_WITHIN_S
        while True:
            try:
                answer = browser(master, headers, "GET", SESSION)
                break
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.05)
        assert answer.expect(200)["csrf"] == csrf
        browser(master, headers, "DELETE", SESSION).expect(200)
        assert browser(master, headers, "GET", SESSION).status == 401


def test_behind_a_trusted_proxy_with_tls_the_cookie_is_secure(tmp_path: Path) -> None:
    trust = {"CRAWLFLEET_SERVER_TRUSTED_PROXIES": json.dumps(["127.0.0.1"])}
    behind = {
        "X-Forwarded-For": "203.0.113.7",
        "X-Forwarded-Proto": "https",
        "Host": "fleet.example",
        "Origin": "https://fleet.example",
    }
    with started(tmp_path / "fleet", **trust) as master:
        body = {"key": master.fleet.key}
        answer = master.call("POST", SESSION, body, key=None, headers=behind)
        assert answer.status == 201
        assert "secure" in cookie_of(answer)
