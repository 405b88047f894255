"""Every change through the API is in the audit log: by whom, from where, what, and once."""

import time
from typing import Any, Final

import pytest

from crawlfleet.api.app import ROUTES
from crawlfleet.api.http.routing import is_audited
from crawlfleet.model.key import Role
from tests.api.plain_http import (
    Master,
    Node,
    archive,
    dead_task,
    deploy,
    measured_task,
    sign_in,
    webhook_with_delivery,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api audit")]

NOT_IN_IT: Final = {
    "heartbeat",
    "lease",
    "report",
    "note",
    "request_service",
    "device_heartbeat",
    "validate_workflow",
}
"""What nodes say of their work, and what only looks at what it is sent."""


def newest(master: Master) -> str:
    entries = master.audit(limit="1")
    return entries[0]["id"] if entries else ""


SEVERAL = {"create_tasks": 3, "submit_workflow": 2, "rerun_run": 2}
"""Things that some change at once: a workflow and its run, a run and the task that is retried."""
ELSEWHERE = {"stop_crawl": "needs a crawl that runs: see test_crawls"}


def task(master: Master) -> str:
    return master.submit(task_type="nobodys")


Request = tuple[str, Any, set[str], str | None]
"""Its path and body, what it is about, and whose key it needs; the admin's when not said."""


def changing(master: Master, name: str) -> Request:
    """A request to a route that changes something."""
    tasks = "/api/v1/tasks"
    if name in OF_DISTRIBUTION:
        return distribution(master, name)
    match name:
        case "create_task":
            return tasks, {"task_type": "nobodys"}, set(), None
        case "create_tasks":
            return f"{tasks}:batch", {"tasks": [{"task_type": "nobodys"}] * 3}, set(), None
        case "clone_task":
            return f"{tasks}/{task(master)}:clone", {}, set(), None
        case "register_node":
            return "/api/v1/nodes:register", {"name": "n"}, set(), master.keys[Role.NODE]
        case "create_key":
            return "/api/v1/keys", {"name": "made-here", "role": "viewer"}, set(), None
        case "create_join_token":
            return "/api/v1/join-tokens", {}, set(), None
        case "roll_back_cluster":
            return administration(master, "rollback", "cluster")
        case "deploy_bundle" | "roll_back_bundle" | "remove_bundle":
            return bundle_order(master, name.removesuffix("_bundle"))
        case "set_secret" | "remove_secret":
            return secret_order(master, name.removesuffix("_secret"))
    return ordering(master, name)


def ordering(master: Master, name: str) -> Request:
    """The same of routes that are named after what they do to what."""
    verb, _, kind = name.partition("_")
    order = {
        "crawl": crawl_order,
        "session": session_order,
        "session_link": session_order,
        "task": task_order,
        "tasks": task_order,
        "dead_letters": dead_letter_order,
        "node": node_order,
        "node_token": node_order,
        "project": administration,
        "cluster": administration,
        "schedule": schedule_order,
        "workflow": workflow_order,
        "run": run_order,
        "webhook": webhook_order,
        "deliveries": webhook_order,
        "alert": alert_order,
        "quotas": quota_order,
        "breaker": breaker_order,
    }
    if kind in order:
        return order[kind](master, verb, kind)
    if kind in {"key", "join_token"}:
        made = master.key(f"to-{verb}", "viewer") if kind == "key" else master.join_token()
        return f"/api/v1/{kind.replace('_', '-')}s/{made[0]}:{verb}", {}, {made[0]}, None
    raise AssertionError(f"say how {name} changes something")


def breaker_order(master: Master, verb: str, kind: str) -> Request:
    return f"/api/v1/breakers/down.example:{verb}", {}, {"down.example"}, None


def bundle_order(master: Master, verb: str) -> Request:
    name, bundles = f"to-{verb}", "/api/v1/projects/default/bundles"
    if verb == "deploy":
        return bundles, {"name": name, "archive": archive()}, {f"default/{name}"}, None
    deploy(master, "default", name)
    deploy(master, "default", name, {"other.py": ""})
    path = f"{bundles}/{name}:{verb.replace('_', '')}"
    return path, {"version": 1}, {f"default/{name}"}, None


def secret_order(master: Master, verb: str) -> Request:
    name, secrets = f"TO_{verb.upper()}", "/api/v1/projects/default/secrets"
    body = {"name": name, "value": "correct horse"}
    if verb == "set":
        return secrets, body, {f"default/{name}"}, None
    master.post(secrets, body, status=201)
    return f"{secrets}/{name}:remove", {}, {f"default/{name}"}, None


def session_order(master: Master, verb: str, kind: str) -> Request:
    body = {"key": master.fleet.key} if verb == "open" else {}
    return f"/api/v1/session{':link' if kind == 'session_link' else ''}", body, set(), None


OF_DISTRIBUTION: Final = {
    route.name for route in ROUTES if route.path.startswith("/api/distribution/")
}


def distribution(master: Master, name: str) -> Request:
    base = "/api/distribution"
    if name == "register_device":
        who = {"device_id": "audited"}
        return f"{base}/devices/register", who, set(), master.keys[Role.NODE]
    if name == "create_distributed_task":
        return f"{base}/tasks", {"task_type": "nobodys"}, set(), None
    node: Node = master.node(task_types=["audited"])
    if name == "change_device_status":
        path = f"{base}/devices/{node.id}/status"
        return path, {"status": "maintenance"}, {node.id}, None
    if name == "change_task_status":
        id = task(master)
        return f"{base}/tasks/{id}/status", {"status": "cancelled"}, {id}, None
    assert name == "assign_task"
    # It waits for another try, so that it is not placed by itself meanwhile.
    later = {"initial_delay_s": 600, "max_delay_s": 600}
    id = master.submit(task_type="audited", retry_policy=later)
    node.report(node.take(), "failed")
    return f"{base}/tasks/{id}/assign", {"device_id": node.id}, {id}, None


def task_order(master: Master, verb: str, kind: str) -> Request:
    if verb in {"accept", "reject"}:
        id, _ = measured_task(master)
        return f"/api/v1/tasks/{id}:{verb}", {"reason": "so it is"}, {id}, None
    id = task(master)
    if verb in {"resume", "retry"}:
        master.order(id, {"resume": "pause", "retry": "cancel"}[verb]).expect(200)
    body: dict[str, Any] = {"priority": 9} if verb == "reprioritise" else {}
    if kind == "tasks":
        return f"/api/v1/tasks:{verb}", {"ids": [id, "task-none"], **body}, {id}, None
    return f"/api/v1/tasks/{id}:{verb}", body, {id}, None


def crawl_order(master: Master, verb: str, kind: str) -> Request:
    """Of a crawl that has not begun; those that run are tried elsewhere."""
    id = master.submit(task_type="web_crawl", parameters={"url": "https://shop.example"})
    if verb == "resume":
        master.order(id, "pause").expect(200)
    return f"/api/v1/crawls/{id}:{verb}", {}, {id}, None


def dead_letter_order(master: Master, verb: str, kind: str) -> Request:
    id = dead_task(master)
    return f"/api/v1/dead-letters:{verb}", {"ids": [id, "task-none"]}, {id}, None


def administration(master: Master, verb: str, kind: str) -> Request:
    """What changes a project or a cluster that is there for this alone."""
    id, path = f"to-{verb}", f"/api/v1/{kind}s"
    if verb == "create":
        return path, {"id": id}, {id}, None
    master.post(path, {"id": id}, status=201)
    if verb == "change":
        return f"{path}/{id}", {"description": "changed"}, {id}, None
    if verb == "reopen":
        master.post(f"{path}/{id}:close")
    body: dict[str, Any] = {}
    if verb == "rollback":
        master.call("PATCH", f"{path}/{id}", {"configuration": {"max_slots": 1}}).expect(200)
        body = {"version": 0}
    return f"{path}/{id}:{verb}", body, {id}, None


def workflow_order(master: Master, verb: str, kind: str) -> Request:
    path = "/api/v1/workflows"
    document = {"name": f"to-{verb}", "steps": {"a": {"task_type": "nobodys"}}}
    if verb == "start":
        id = master.post(path, {"document": document}, status=201)["id"]
        return f"{path}/{id}:start", {}, set(), None
    return path if verb == "save" else f"{path}:{verb}", {"document": document}, set(), None


def run_order(master: Master, verb: str, kind: str) -> Request:
    document = {"name": f"run-to-{verb}", "steps": {"a": {"task_type": "nobodys"}}}
    id = master.post("/api/v1/workflows:submit", {"document": document}, status=201)["id"]
    if verb == "rerun":
        while not master.get(f"/api/v1/tasks?workflow_id={id}")["items"]:
            time.sleep(0.02)
        master.post(f"/api/v1/runs/{id}:cancel")
        master.get(f"/api/v1/runs/{id}?wait=20")
    return f"/api/v1/runs/{id}:{verb}", {}, set() if verb == "rerun" else {id}, None


def webhook_order(master: Master, verb: str, kind: str) -> Request:
    path = "/api/v1/webhooks"
    wanted = {"name": f"to-{verb}", "url": "http://127.0.0.1:9/", "kinds": ["nobody."]}
    if verb == "create":
        return path, wanted, set(), None
    if verb == "resend":
        id, delivery = webhook_with_delivery(master, "default")
        return f"{path}/{id}:resend", {"ids": [delivery]}, {delivery}, None
    id = master.post(path, wanted, status=201)["webhook"]["id"]
    if verb == "change":
        return f"{path}/{id}", {"url": "http://127.0.0.1:9/else"}, {id}, None
    if verb == "resume":
        master.post(f"{path}/{id}:pause")
    return f"{path}/{id}:{verb}", {}, {id}, None


def alert_order(master: Master, verb: str, kind: str) -> Request:
    path = "/api/v1/alerts"
    wanted = {"name": f"to-{verb}", "source": "queue_length", "above": 1e6}
    if verb == "create":
        return path, wanted, set(), None
    id = master.post(path, wanted, status=201)["id"]
    if verb == "change":
        return f"{path}/{id}", {"above": 2e6}, {id}, None
    silence = {"for_s": 60}
    if verb == "unsilence":
        master.post(f"{path}/{id}:silence", silence)
    return f"{path}/{id}:{verb}", silence if verb == "silence" else {}, {id}, None


def quota_order(master: Master, verb: str, kind: str) -> Request:
    master.post("/api/v1/projects", {"id": "bounded"}, status=201)
    return "/api/v1/projects/bounded/quotas", {"waiting": 7}, {"bounded"}, None


def schedule_order(master: Master, verb: str, kind: str) -> Request:
    path = "/api/v1/schedules"
    wanted = {"name": f"to-{verb}", "cron": "@hourly", "task": {"task_type": "nobodys"}}
    if verb == "create":
        return path, wanted, set(), None
    id = master.post(path, wanted, status=201)["id"]
    if verb == "change":
        return f"{path}/{id}", {"jitter_s": 5}, {id}, None
    if verb == "resume":
        master.post(f"{path}/{id}:pause")
    body: dict[str, Any] = {}
    if verb == "backfill":
        body = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T03:00:00Z"}
    return f"{path}/{id}:{verb}", body, {id}, None


def node_order(master: Master, verb: str, kind: str) -> Request:
    node: Node = master.node(task_types=["none"])
    if verb == "resume":
        node.order("drain").expect(200)
    if verb == "remove":
        node.order("unregister").expect(200)
    word = {"maintain": "maintenance", "rotate": "rotate-token", "renew": "renew-token"}
    if verb in {"change", "label"}:
        return node.path, {"labels": {"rack": "7"}}, {node.id}, None
    key = node.token if verb == "renew" else None
    return f"{node.path}:{word.get(verb, verb)}", {}, {node.id}, key


@pytest.mark.parametrize(
    "name",
    [
        route.name
        for route in ROUTES
        if route.method != "GET" and is_audited(route) and route.name not in ELSEWHERE
    ],
)
def test_a_request_that_changes_something_is_one_entry(name: str, master: Master) -> None:
    path, body, subjects, key = changing(master, name)
    shown: dict[str, Any] = {"key": key or master.fleet.key}
    if name == "close_session":
        shown = {"key": None, "headers": sign_in(master, master.fleet.key)}
    before = newest(master)

    (method,) = {route.method for route in ROUTES if route.name == name}
    answer = master.call(method, path, body, **shown)

    assert answer.status in {200, 201}, answer.content
    (entry,) = [each for each in master.audit() if each["id"] > before]
    assert entry["action"] == name
    assert entry["address"] == "127.0.0.1"
    assert entry["count"] == len(entry["subjects"]) == SEVERAL.get(name, 1)
    assert not subjects or set(entry["subjects"]) == subjects
    if key is None:
        assert (entry["actor"], entry["role"]) == ("admin", "admin")
        assert entry["actor_id"].startswith("key-")
    else:
        assert entry["role"] == "node"


def test_only_what_changes_nothing_and_the_work_of_nodes_are_left_out() -> None:
    assert {r.name for r in ROUTES if r.method != "GET" and not is_audited(r)} == NOT_IN_IT


def test_what_changes_nothing_is_not_in_it(master: Master) -> None:
    id = task(master)
    master.order(id, "pause").expect(200)
    before = newest(master)
    master.order(id, "pause").expect(200)
    master.order(id, "retry").expect(409)
    master.order("task-none", "cancel").expect(404)
    master.call("POST", "/api/v1/tasks", {"task_type": "!"}).expect(422)
    master.call("POST", "/api/v1/tasks", {"task_type": "x"}, key="wrong").expect(401)
    master.call("POST", "/api/v1/keys", {}, key=master.keys[Role.VIEWER]).expect(403)
    master.get("/api/v1/tasks")
    assert newest(master) == before


def test_thousands_are_one_entry_that_counts_those_that_were_changed(master: Master) -> None:
    requests = [
        {"task_type": "nobodys", "workflow_id": "w", "dedup_key": f"{n % 1200}"}
        for n in range(1300)
    ]
    made = master.post("/api/v1/tasks:batch", {"tasks": requests})
    assert made["deduplicated"] == 100
    ids = [item["id"] for item in made["items"][:1200]]
    (entry,) = master.audit(limit="1")
    assert (entry["action"], entry["count"]) == ("create_tasks", 1200)
    assert entry["subjects"] == ids[:20]

    before = newest(master)
    master.post("/api/v1/tasks:cancel", {"filter": {"workflow_id": "w"}})
    (entry,) = [each for each in master.audit() if each["id"] > before]
    assert (entry["action"], entry["count"]) == ("cancel_tasks", 1200)
    assert entry["subjects"] == sorted(ids)[:20]


def test_entries_are_found_by_who_what_and_when(master: Master) -> None:
    key_id, secret = master.key("finder", "operator", project_id="found")
    id = master.post("/api/v1/tasks", {"task_type": "nobodys"}, key=secret, status=201)["id"]
    master.post(f"/api/v1/tasks/{id}:cancel", key=secret)
    cancelled, created = master.audit(actor="finder")
    assert (cancelled["action"], created["action"]) == ("cancel_task", "create_task")
    assert created["project_id"] == "found"
    assert master.audit(actor=key_id) == [cancelled, created]
    assert master.audit(subject=id) == [cancelled, created]
    assert master.audit(subject=id, action="create_task") == [created]
    assert master.audit(actor="finder", since=cancelled["at"]) == [cancelled]
    assert master.audit(actor="finder", until=cancelled["at"]) == [created]
    assert master.audit(actor="nobody") == []
    first = master.get("/api/v1/audit?actor=finder&limit=1")
    assert first["items"] == [cancelled]
    second = master.get(f"/api/v1/audit?actor=finder&limit=1&cursor={first['next_cursor']}")
    assert (second["items"], second["next_cursor"]) == ([created], None)


def test_a_question_that_makes_no_sense_is_told_so(master: Master) -> None:
    for query in ("since=yesterday", "actor=%00", "limit=0", "who=me", "cursor=zzz"):
        assert master.call("GET", f"/api/v1/audit?{query}").status == 422
