"""Webhooks over HTTP: made, shown without their secret, tried, steered, and refused in words."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from crawlfleet.features.webhooks.rules.signing import is_signed
from tests.api.plain_http import Master

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api webhooks")]

PATH: Final = "/api/v1/webhooks"


class Inbox(http.server.ThreadingHTTPServer):
    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taker)
        self.letters: list[tuple[dict[str, str], bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/in"


class Taker(http.server.BaseHTTPRequestHandler):
    server: Inbox

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.letters.append((dict(self.headers), body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    server = Inbox()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def create(master: Master, name: str, url: str, **fields: Any) -> Any:
    return master.post(PATH, {"name": name, "url": url, **fields}, status=201)


def until(check: Any) -> Any:
    ends = time.monotonic() + 30
    while not (found := check()) and time.monotonic() < ends:
        time.sleep(0.05)
    return found


def test_the_guard_is_up_by_default_and_the_secret_is_shown_once(
    master: Master, inbox: Inbox
) -> None:
    answer = master.call("POST", PATH, {"name": "guarded", "url": inbox.url})
    made = answer.expect(201)
    id = made["webhook"]["id"]
    assert answer.headers["location"] == f"{PATH}/{id}"
    assert answer.headers["cache-control"] == "no-store"
    assert len(made["secret"]) == 64
    again = master.post(PATH, {"name": "guarded", "url": inbox.url}, status=200)
    assert (again["webhook"]["id"], again["secret"]) == (id, "")
    other = master.post(PATH, {"name": "guarded", "url": inbox.url + "x"}, status=409)
    assert id in other["detail"]
    tried = master.post(f"{PATH}/{id}:test", {})
    assert tried["delivered"] is False
    assert "webhooks.allow_private" in tried["error"]
    assert inbox.letters == []
    for path in ("", f"/{id}", f"/{id}/deliveries"):
        assert made["secret"] not in json.dumps(master.get(PATH + path))
    assert made["secret"] not in json.dumps(master.get("/api/v1/events?limit=1000"))
    assert made["secret"] not in json.dumps(master.get("/api/v1/audit"))


def test_what_is_refused_is_a_dead_letter_to_look_at_and_send_again(
    master: Master, inbox: Inbox
) -> None:
    id = create(master, "letters", inbox.url, kinds=["task.pending"])["webhook"]["id"]
    task = master.post("/api/v1/tasks", {"task_type": "nobodys"}, status=201)["id"]
    (dead,) = until(lambda: master.get(f"{PATH}/{id}/deliveries?status=dead")["items"])
    assert (dead["subject"], dead["attempts"], dead["kind"]) == (task, 1, "task.pending")
    whole = master.get(f"{PATH}/{id}/deliveries/{dead['id']}")
    assert whole["body"]["event"]["subject"] == task
    assert master.get(f"{PATH}/{id}")["dead"] == 1
    assert master.post(f"{PATH}/{id}:resend", {})["resent"] == 1
    assert master.post(f"{PATH}/{id}:resend", {"ids": ["dlv-x"]})["unknown"] == ["dlv-x"]
    assert until(lambda: master.get(f"{PATH}/{id}")["dead"]) == 1
    assert master.call("GET", f"{PATH}/{id}/deliveries/dlv-x").status == 404
    master.post(f"{PATH}/{id}:remove", {})
    assert master.call("GET", f"{PATH}/{id}").status == 404


def test_orders_change_the_state_under_a_version_and_are_in_the_audit_log(master: Master) -> None:
    made = create(master, "steered", "https://hooks.example/in")["webhook"]
    path = f"{PATH}/{made['id']}"
    assert master.post(f"{path}:pause", {})["status"] == "paused"
    stale = master.call("POST", f"{path}:resume", {}, headers={"If-Match": '"1"'})
    assert stale.status == 412
    assert master.post(f"{path}:resume", {})["status"] == "active"
    changed = master.call("PATCH", path, {"kinds": ["node."]}).expect(200)
    assert (changed["kinds"], changed["version"]) == (["node."], 4)
    rotated = master.post(f"{path}:rotate", {"grace_s": 60})
    assert len(rotated["secret"]) == 64
    entries = master.get(f"/api/v1/audit?subject={made['id']}")["items"]
    assert [entry["action"] for entry in entries] == [
        "rotate_webhook",
        "change_webhook",
        "resume_webhook",
        "pause_webhook",
        "create_webhook",
    ]


def test_a_call_back_is_accepted_once_somebody_signs_it(master: Master) -> None:
    url, query = "https://flow.example/instances/1", "?token=secret"
    wanted = url + query
    request = {"task_type": "nobodys", "project_id": "called-back", "callback_url": wanted}
    refused = master.post("/api/v1/tasks", request, status=422)
    assert [each["field"] for each in refused["errors"]] == ["callback_url"]
    assert "--format callback" in refused["errors"][0]["remedy"]
    fields = {"name": "callbacks", "format": "callback", "project_id": "called-back"}
    id = master.post(PATH, fields, status=201)["webhook"]["id"]
    task = master.post("/api/v1/tasks", request, status=201)["id"]
    assert master.get(f"/api/v1/tasks/{task}")["callback_url"] == f"{url}?…"
    (first,) = until(lambda: master.get(f"{PATH}/{id}/deliveries")["items"])
    assert first["subject"] == task
    whole = master.get(f"{PATH}/{id}/deliveries/{first['id']}")
    assert (whole["url"], whole["path"]) == (f"{url}?…", ":update")
    assert master.call("POST", f"{PATH}/{id}:test", {}).status == 409
    master.post(f"{PATH}/{id}:remove", {})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"url": "nowhere"}, "url"),
        ({"format": "callback", "kinds": ["task."]}, "kinds"),
        ({"name": ""}, "name"),
        ({"kinds": ["!"]}, "kinds.0"),
        ({"format": "email"}, "url"),
    ],
)
def test_nonsense_is_refused_by_field(master: Master, fields: dict[str, Any], field: str) -> None:
    request = {"name": "wrong", "url": "https://hooks.example/in", **fields}
    problem = master.post(PATH, request, status=422)
    assert [each["field"] for each in problem["errors"]] == [field]
    assert problem["errors"][0]["remedy"]


def test_a_signature_is_what_the_guide_says(master: Master) -> None:
    import hashlib
    import hmac

    signed = hmac.new(b"secret", b"1763199610." + b"{}", hashlib.sha256).hexdigest()
    assert is_signed(f"v1={signed}", "secret", 1763199610, b"{}")
    assert is_signed(f"v1=00,v1={signed}", "secret", 1763199610, b"{}")
    assert not is_signed("", "secret", 1763199610, b"{}")
