"""Keys, join tokens and node tokens over their whole life."""

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Final

import pytest

from crawlfleet.model.key import Role
from tests.api.plain_http import Master

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api keys")]

KEYS: Final = "/api/v1/keys"
JOIN_TOKENS: Final = "/api/v1/join-tokens"
REGISTER: Final = "/api/v1/nodes:register"
SAVED_WITHIN_S: Final = 60.0


def seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


def statuses(master: Master, *secrets: str) -> list[int]:
    return [master.call("GET", "/api/v1/tasks?limit=1", key=each).status for each in secrets]


def wrong(master: Master, path: str, body: Any, field: str) -> None:
    (problem,) = master.post(path, body, status=422)["errors"]
    assert problem["field"] == field
    assert problem["remedy"]


def at_once(master: Master, path: str, body: Any, key: str, count: int) -> list[int]:
    """The statuses of so many equal requests on connections of their own, in order."""

    def ask(_: int) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", master.fleet.port, timeout=30)
        try:
            headers = {"Authorization": f"Bearer {key}"}
            connection.request("POST", path, json.dumps(body), headers)
            return connection.getresponse().status
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        return sorted(pool.map(ask, range(count)))


def test_a_key_is_shown_once_and_works_at_once(master: Master) -> None:
    answer = master.call("POST", KEYS, {"name": "ann", "role": "viewer", "expires_in_s": 3600})
    made = answer.expect(201)
    key = made["key"]

    assert answer.headers["location"] == f"{KEYS}/{key['id']}"
    assert answer.headers["cache-control"] == "no-store"
    assert len(made["secret"]) == 64
    assert (key["name"], key["role"], key["status"]) == ("ann", "viewer", "live")
    assert key["created_by"] == "admin"
    assert seconds(key["expires_at"]) - seconds(key["created_at"]) == 3600
    assert statuses(master, made["secret"]) == [200]
    assert made["secret"] not in repr(master.get(KEYS))
    shown = master.get(f"{KEYS}/{key['id']}")
    assert shown["last_used_from"] == "127.0.0.1"
    assert shown in master.get(KEYS)["items"]


def test_the_last_use_reaches_the_store_without_a_commit_for_each(master: Master) -> None:
    key_id, secret = master.key("busy", "viewer")
    for _ in range(200):
        assert statuses(master, secret) == [200]

    def stored() -> tuple[int, str]:
        sql = f"select version, options from crawler_keys where id = '{key_id}'"
        ((version, options),) = master.fleet.query(sql)
        return version, options or ""

    until = time.monotonic() + SAVED_WITHIN_S
    while "last_used_from" not in stored()[1] and time.monotonic() < until:
        time.sleep(0.1)
    assert '"last_used_from":"127.0.0.1"' in stored()[1]
    assert stored()[0] < 20


def test_two_living_keys_never_have_the_same_name(master: Master) -> None:
    first, secret = master.key("twin", "viewer")
    clash = master.call("POST", KEYS, {"name": "twin", "role": "viewer"}).expect(409)
    assert first in clash["detail"]
    assert master.post(f"{KEYS}/{first}:revoke")["status"] == "revoked"
    second, _ = master.key("twin", "viewer", expires_in_s=0.01)
    time.sleep(0.02)
    third, _ = master.key("twin", "viewer")
    # To revoke the one that has expired takes nothing from the one that has its name now.
    master.post(f"{KEYS}/{second}:revoke")
    assert master.call("POST", KEYS, {"name": "twin", "role": "viewer"}).status == 409
    assert len({first, second, third}) == 3
    assert statuses(master, secret) == [401]


def test_of_many_who_want_a_name_at_once_one_gets_it(master: Master) -> None:
    body = {"name": "wanted", "role": "viewer"}
    assert at_once(master, KEYS, body, master.fleet.key, 16) == [201] + [409] * 15


def test_a_key_that_cannot_be_is_refused_with_a_remedy(master: Master) -> None:
    wrong(master, KEYS, {"name": "admin", "role": "viewer"}, "name")
    wrong(master, KEYS, {"name": "join", "role": "viewer"}, "name")
    wrong(master, KEYS, {"name": "", "role": "viewer"}, "name")
    wrong(master, KEYS, {"name": "a b", "role": "viewer"}, "name")
    wrong(master, KEYS, {"name": "x", "role": "node"}, "role")
    wrong(master, KEYS, {"name": "x", "role": "god"}, "role")
    wrong(master, KEYS, {"name": "x", "role": "admin", "project_id": "shop"}, "role")
    wrong(master, KEYS, {"name": "x", "role": "viewer", "project_id": "a/b"}, "project_id")
    wrong(master, KEYS, {"name": "x", "role": "viewer", "expires_in_s": 0}, "expires_in_s")
    wrong(master, JOIN_TOKENS, {"uses": 0}, "uses")
    wrong(master, JOIN_TOKENS, {"cluster_id": "nowhere"}, "cluster_id")
    wrong(master, JOIN_TOKENS, {"expires_in_s": 1e9}, "expires_in_s")


def test_a_rotated_key_has_a_new_secret_and_the_old_one_for_its_grace(master: Master) -> None:
    key_id, first = master.key("turning", "viewer")
    rotated = master.post(f"{KEYS}/{key_id}:rotate", {"grace_s": 600})
    second = rotated["secret"]
    assert rotated["key"]["rotated_at"]
    assert seconds(rotated["key"]["old_valid_until"]) > time.time() + 500
    assert statuses(master, first, second) == [200, 200]

    third = master.post(f"{KEYS}/{key_id}:rotate")["secret"]
    assert statuses(master, first, second, third) == [401, 401, 200]
    assert "old_valid_until" not in master.get(f"{KEYS}/{key_id}")


def test_a_key_that_expires_can_be_rotated_to_live_longer(master: Master) -> None:
    key_id, secret = master.key("short", "viewer", expires_in_s=0.01)
    time.sleep(0.02)
    assert statuses(master, secret) == [401]
    assert master.get(f"{KEYS}/{key_id}")["status"] == "expired"
    assert "expires_in_s" in master.call("POST", f"{KEYS}/{key_id}:rotate").expect(409)["detail"]
    again = master.post(f"{KEYS}/{key_id}:rotate", {"expires_in_s": 600})["secret"]
    assert statuses(master, secret, again) == [401, 200]


def test_a_revoked_key_stays_revoked(master: Master) -> None:
    key_id, secret = master.key("gone", "operator")
    assert statuses(master, secret) == [200]
    first = master.post(f"{KEYS}/{key_id}:revoke")
    assert statuses(master, secret) == [401]
    assert master.post(f"{KEYS}/{key_id}:revoke") == first
    assert "revoked" in master.call("POST", f"{KEYS}/{key_id}:rotate").expect(409)["detail"]


def test_the_masters_own_keys_are_changed_where_they_come_from(master: Master) -> None:
    own = {key["name"]: key["id"] for key in master.get(KEYS)["items"]}["admin"]
    for verb in ("revoke", "rotate"):
        detail = master.call("POST", f"{KEYS}/{own}:{verb}").expect(409)["detail"]
        assert "configuration" in detail


def test_keys_and_join_tokens_are_not_taken_for_one_another(master: Master) -> None:
    key_id, _ = master.key("only-a-key", "viewer")
    token_id, secret = master.join_token()
    assert master.call("GET", f"{KEYS}/{token_id}").status == 404
    assert master.call("POST", f"{KEYS}/{token_id}:revoke").status == 404
    assert master.call("POST", f"{KEYS}/{token_id}:rotate").status == 404
    assert master.call("POST", f"{JOIN_TOKENS}/{key_id}:revoke").status == 404
    assert master.call("GET", f"{JOIN_TOKENS}/{key_id}").status == 404
    assert statuses(master, secret) == [403]


def test_a_join_token_lets_in_so_many_nodes_and_no_more(master: Master) -> None:
    token_id, secret = master.join_token(uses=3, name="rack-7")
    assert at_once(master, REGISTER, {"name": "n"}, secret, 10) == [201] * 3 + [401] * 7
    (token,) = [each for each in master.get(JOIN_TOKENS)["items"] if each["id"] == token_id]
    assert (token["uses"], token["max_uses"], token["status"]) == (3, 3, "used_up")
    assert master.get(f"{JOIN_TOKENS}/{token_id}") == token


def test_a_registration_that_is_refused_uses_nothing_up(master: Master) -> None:
    _, secret = master.join_token(uses=1)
    assert master.call("POST", REGISTER, {"name": ""}, key=secret).status == 422
    assert master.call("POST", REGISTER, {"name": "n"}, key=secret).status == 201
    assert master.call("POST", REGISTER, {"name": "n"}, key=secret).status == 401


def test_a_node_belongs_where_its_join_token_says(master: Master) -> None:
    _, secret = master.join_token(uses=5, cluster_id="default")
    made = master.post(REGISTER, {"name": "n"}, key=secret, status=201)
    node = {"name": "n", "node_id": made["node_id"]}
    elsewhere = {"cluster_id": "elsewhere"}
    refused = master.call("POST", REGISTER, {"name": "n", **elsewhere}, key=secret)
    assert "belong to 'default'" in refused.expect(403)["detail"]
    returned = master.call("POST", REGISTER, {**node, **elsewhere}, key=made["node_token"])
    assert returned.status == 403
    master.post(REGISTER, node, key=made["node_token"], status=201)


def test_a_revoked_join_token_lets_nobody_in_and_sends_nobody_away(master: Master) -> None:
    token_id, secret = master.join_token(uses=5)
    made = master.post(REGISTER, {"name": "n"}, key=secret, status=201)
    assert master.post(f"{JOIN_TOKENS}/{token_id}:revoke")["status"] == "revoked"
    assert master.call("POST", REGISTER, {"name": "n"}, key=secret).status == 401
    master.get(f"/api/v1/nodes/{made['node_id']}", key=made["node_token"])


def test_a_node_changes_its_token_without_interruption(master: Master) -> None:
    node = master.node(task_types=["none"])
    assert "renew_token" not in node.beat()
    node.order("rotate-token").expect(200)
    assert node.beat()["renew_token"] is True

    lost = node.say("renew-token").expect(200)["node_token"]  # its answer got lost
    assert node.beat()["renew_token"] is True
    answer = node.say("renew-token")
    assert answer.headers["cache-control"] == "no-store"
    renewed = answer.expect(200)
    assert renewed["old_valid_until"] > time.time()
    old, node.token = node.token, renewed["node_token"]
    assert len({old, lost, node.token}) == 3

    assert "renew_token" not in node.beat()
    assert node.lease(wait_s=0) == {}
    for dead in (old, lost):
        assert master.call("GET", node.path, key=dead).status == 401
    # The next one goes the same way, also before the store knows of the first.
    node.order("rotate-token").expect(200)
    assert node.beat()["renew_token"] is True
    node.token = node.say("renew-token").expect(200)["node_token"]
    assert "renew_token" not in node.beat()
    node.leave()


def test_the_store_learns_that_an_old_token_is_out_of_use(master: Master) -> None:
    node = master.node(task_types=["none"])
    node.order("rotate-token").expect(200)
    node.token = node.say("renew-token").expect(200)["node_token"]
    node.beat()

    def options() -> str:
        sql = f"select options from crawler_nodes where id = '{node.id}'"
        return master.fleet.query(sql)[0][0] or ""

    until = time.monotonic() + SAVED_WITHIN_S
    while "old_token_hash" in options() and time.monotonic() < until:
        time.sleep(0.1)
    assert "old_token_hash" not in options()
    assert "token_due" not in options()
    node.beat()
    node.leave()


def test_a_revoked_node_is_out_at_once_and_its_work_goes_back(master: Master) -> None:
    node = master.node(node_type="fragile")
    task_id = master.submit(task_type="any", node_type="fragile")
    assignment = node.take()
    assert assignment["task_id"] == task_id

    assert node.order("revoke").expect(200)["status"] == "offline"

    assert master.task(task_id)["status"] == "pending"
    for verb in ("heartbeat", "lease", "report", "renew-token"):
        assert node.say(verb, {}).status == 401
    back = {"name": "n", "node_id": node.id}
    assert master.call("POST", REGISTER, back, key=node.token).status == 401
    assert master.call("POST", REGISTER, back, key=master.keys[Role.NODE]).status == 403
    assert node.order("revoke").expect(200)["status"] == "offline"
    assert "revoked" in node.order("rotate-token").expect(409)["detail"]
    kinds = [e["kind"] for e in master.get(f"/api/v1/events?subject={node.id}")["items"]]
    assert kinds[-2:] == ["node.offline", "node.revoked"]
    master.order(task_id, "cancel")


def test_a_node_that_is_away_can_be_revoked(master: Master) -> None:
    node = master.node(task_types=["none"])
    node.leave()
    node.order("revoke").expect(200)
    assert master.call("GET", node.path, key=node.token).status == 401
