"""Whatever is sent: the right 4xx, the field and the remedy, no 500, and nothing has changed."""

import http.client
import json
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, Final, NamedTuple

import pytest

from crawlfleet.model.key import Role
from tests.api.plain_http import MAX_BODY_MB, Answer, Master, Node

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api bad input")]

TASKS: Final = "/api/v1/tasks"
BATCH: Final = "/api/v1/tasks:batch"
REGISTER: Final = "/api/v1/nodes:register"
NODE: Final = "/api/v1/nodes/$node"
JARGON: Final = re.compile(r"`(int|float|str|bool|array|object|null)|Error\b|Traceback")
OVERFLOW: Final = 10**400
DEEP: Final = 100_000


KEPT_OF_KEYS = 7
"""The columns before the version and what is learnt by use."""


class Row(NamedTuple):
    """A request that must be refused; `$task`, `$done`, `$node` and such stand for real ids."""

    name: str
    status: int
    says: str
    """The field in `errors`, or words of `detail`."""
    method: str
    path: str
    body: Any = None
    key: str = "admin"
    headers: dict[str, str] | None = None


def task(name: str, field: str, /, body: Any = None, **fields: Any) -> Row:
    """A task that is refused for one field."""
    if body is None:
        body = {"task_type": "sleep", "parameters": {"seconds": 0}, **fields}
    return Row(name, 422, field, "POST", TASKS, body)


def raw(name: str, says: str, body: bytes, status: int = 400) -> Row:
    return Row(name, status, says, "POST", TASKS, body)


def node(name: str, field: str, /, **fields: Any) -> Row:
    return Row(name, 422, field, "POST", REGISTER, {"name": "n", **fields}, "join")


def beat(name: str, field: str, /, **fields: Any) -> Row:
    return Row(name, 422, field, "POST", f"{NODE}:heartbeat", fields, "node")


def lease(name: str, field: str, /, **fields: Any) -> Row:
    body = {"session_id": "$session", **fields}
    return Row(name, 422, field, "POST", f"{NODE}:lease", body, "node")


def report(name: str, field: str, /, **fields: Any) -> Row:
    one = {"execution_id": "e", "task_id": "t", "token": 1, "kind": "started", "at": 1.0, **fields}
    one = {key: value for key, value in one.items() if value is not ...}
    body = {"session_id": "$session", "reports": [one]}
    return Row(name, 422, field, "POST", f"{NODE}:report", body, "node")


def read(name: str, says: str, path: str, status: int = 422, key: str = "admin") -> Row:
    return Row(name, status, says, "GET", path, key=key)


def act(name: str, status: int, says: str, path: str, body: Any = None, key: str = "admin") -> Row:
    return Row(name, status, says, "POST", path, body, key)


NOT_JSON = [
    raw("empty", "task_type", b"", 422),
    raw("not JSON", "not valid JSON", b"hello"),
    raw("truncated", "not valid JSON", b'{"task_type": "sle'),
    raw("trailing", "not valid JSON", b'{"task_type": "x"} x'),
    raw("list", "(body)", b"[]", 422),
    raw("null", "(body)", b"null", 422),
    raw("text", "(body)", b'"task"', 422),
    raw("number", "(body)", b"7", 422),
    raw("NaN", "not valid JSON", b'{"task_type": "x", "timeout": NaN}'),
    raw("Infinity", "not valid JSON", b'{"task_type": "x", "timeout": Infinity}'),
    raw("NaN in parameters", "not valid JSON", b'{"task_type": "x", "parameters": {"a": NaN}}'),
    raw("not UTF-8", "not UTF-8", b'{"task_type": "\xff\xfe"}'),
    raw("not UTF-8 in parameters", "not UTF-8", b'{"task_type": "x", "parameters": {"a": "\xff"}}'),
    raw("half a surrogate", "not valid Unicode", b'{"task_type": "x", "dedup_key": "\\ud800"}'),
    raw("UTF-16", "not UTF-8", '{"task_type": "x"}'.encode("utf-16")),
    raw("byte order mark", "not valid JSON", b'\xef\xbb\xbf{"task_type": "x"}'),
    raw("brackets without end", "too deeply", b"[" * DEEP),
    raw("deep parameters", "too deeply", b'{"parameters": ' + b'{"a":' * DEEP),
    raw("deep capabilities", "too deeply", b'{"capabilities": ' + b'{"a":' * DEEP),
    Row("form", 415, "application/json", "POST", TASKS, b"a=b", headers={"Content-Type": "a/b"}),
    Row(
        "plain text",
        415,
        "application/json",
        "POST",
        TASKS,
        b'{"task_type": "x"}',
        headers={"Content-Type": "text/plain"},
    ),
]

TASK_FIELDS = [
    task("no type", "task_type", body={"priority": 5}),
    task("type null", "task_type", task_type=None),
    task("type number", "task_type", task_type=1),
    task("type empty", "task_type", task_type=""),
    task("type upper case", "task_type", task_type="Sleep"),
    task("type with a line break", "task_type", task_type="sleep\n"),
    task("type huge", "task_type", task_type="a" * 100_000),
    task("project number", "project_id", project_id=5),
    task("project empty", "project_id", project_id=""),
    task("project too long", "project_id", project_id="a" * 65),
    task("project huge", "project_id", project_id="a" * 100_000),
    task("project with a slash", "project_id", project_id="a/b"),
    task("cluster unknown", "cluster_id", cluster_id="nowhere"),
    task("cluster list", "cluster_id", cluster_id=["default"]),
    task("workflow number", "workflow_id", workflow_id=5),
    task("workflow with a space", "workflow_id", workflow_id="a b"),
    task("parameters list", "parameters", parameters=[1]),
    task("parameters null", "parameters", parameters=None),
    task("parameters text", "parameters", parameters="{}"),
    task("parameters too large", "parameters", parameters={"a": "x" * 1_000_001}),
    task(
        "parameters nested",
        "parameters",
        body=b'{"task_type": "x", "parameters": ' + b'{"a":' * 200 + b"1" + b"}" * 201,
    ),
    task("parameter missing", "parameters.seconds", parameters={}),
    task("parameter below zero", "parameters.seconds", parameters={"seconds": -1}),
    task("parameter text", "parameters.seconds", parameters={"seconds": "1"}),
    task("parameter unknown", "parameters.second", parameters={"seconds": 1, "second": 2}),
    task("no URL", "parameters", task_type="http_fetch", parameters={}),
    task("URL no URL", "parameters.url", task_type="http_fetch", parameters={"url": "x"}),
    task("crawl from nowhere", "parameters.url", task_type="web_crawl", parameters={}),
    task("seed no URL", "parameters.urls[0]", task_type="web_crawl", parameters={"urls": ["x"]}),
    task("trial no URL", "parameters.url", task_type="extract", parameters={"url": "ftp://a/"}),
    task(
        "method of a fetch",
        "parameters.method",
        task_type="http_fetch",
        parameters={"url": "http://example.com", "method": "POST"},
    ),
    task("function number", "parameters.function", task_type="python", parameters={"function": 1}),
    task("priority text", "priority", priority="5"),
    task("priority fraction", "priority", priority=5.5),
    task("priority flag", "priority", priority=True),
    task("priority 0", "priority", priority=0),
    task("priority 11", "priority", priority=11),
    task("priority 2**70", "priority", priority=2**70),
    task("priority with 401 digits", "priority", priority=OVERFLOW),
    task("resources list", "min_resources", min_resources=[]),
    task("resource text", "min_resources.cpu", min_resources={"cpu": "2"}),
    task("resource unknown", "min_resources.cpuu", min_resources={"cpuu": 2}),
    task("resource below zero", "min_resources.cpu", min_resources={"cpu": -2}),
    task("resource too large", "min_resources.memory_mb", min_resources={"memory_mb": 1e10}),
    task("capabilities list", "capabilities", capabilities=["js"]),
    task("capability object", "capabilities.js", capabilities={"js": {"level": 1}}),
    task("capability null", "capabilities.js", capabilities={"js": None}),
    task("capability with 401 digits", "capabilities.js", capabilities={"js": OVERFLOW}),
    task("capability list of numbers", "capabilities.js", capabilities={"js": [1, 2]}),
    task("capability name", "capabilities.a b", capabilities={"a b": 1}),
    task("capabilities too many", "capabilities", capabilities={f"c{n}": 1 for n in range(65)}),
    task("features text", "content_features", content_features="html"),
    task("feature object", "content_features.t", content_features={"t": {}}),
    task("feature too long", "content_features.t", content_features={"t": "x" * 201}),
    task("categories text", "categories", categories="a"),
    task("category number", "categories[0]", categories=[1]),
    task("category empty", "categories[1]", categories=["a", ""]),
    task("categories too many", "categories", categories=["a"] * 17),
    task("node type number", "node_type", node_type=1),
    task("node type empty", "node_type", node_type=""),
    task("strategy unknown", "schedule_strategy", schedule_strategy="best"),
    task("strategy number", "schedule_strategy", schedule_strategy=1),
    task("region list", "target_region", target_region=["us"]),
    task("region with a slash", "target_region", target_region="us/east"),
    task("retries text", "max_retries", max_retries="3"),
    task("retries below zero", "max_retries", max_retries=-1),
    task("retries 101", "max_retries", max_retries=101),
    task("retry policy null", "retry_policy", retry_policy=None),
    task("retry delay", "retry_policy.initial_delay_s", retry_policy={"initial_delay_s": -1}),
    task("retry factor", "retry_policy.factor", retry_policy={"factor": 0.5}),
    task("retry jitter", "retry_policy.jitter", retry_policy={"jitter": 2}),
    task("retry limit", "retry_policy.max_delay_s", retry_policy={"max_delay_s": 1e12}),
    task("retry class", "retry_policy.on[0]", retry_policy={"on": ["everything"]}),
    task("timeout text", "timeout", timeout="1m"),
    task("timeout 0", "timeout", timeout=0),
    raw("timeout 1e400", "timeout", b'{"task_type": "x", "timeout": 1e400}', 422),
    raw("capability 1e400", "capabilities.*", b'{"task_type":"x","capabilities":{"a":1e400}}', 422),
    raw("parameter 1e400", "parameters.*", b'{"task_type":"x","parameters":{"a":1e400}}', 422),
    task("idempotency key number", "idempotency_key", idempotency_key=1),
    task("idempotency key empty", "idempotency_key", idempotency_key=""),
    task("idempotency key too long", "idempotency_key", idempotency_key="k" * 201),
    task("dedup key with NUL", "dedup_key", dedup_key="a\0b"),
    task("dedup window below zero", "dedup_window", dedup_window=-1),
    task("unknown field", "zzz", zzz=1),
    task("unknown field, huge", "z" * 64, **{"z" * 10_000: 1}),
    task("a thousand problems", "categories", categories=[""] * 1000),
]

BATCHES = [
    act("batch without tasks", 422, "tasks", BATCH, {}),
    act("batch of none", 422, "tasks", BATCH, {"tasks": []}),
    act("batch of 10,001", 422, "tasks", BATCH, {"tasks": [{}] * 10_001}),
    act("batch that is no list", 422, "tasks", BATCH, {"tasks": {"task_type": "x"}}),
    act("batch as a bare list", 422, "(body)", BATCH, [{"task_type": "x"}]),
    act("batch with more", 422, "task", BATCH, {"tasks": [], "task": 1}),
]

NODE_MESSAGES = [
    Row("node without a name", 422, "name", "POST", REGISTER, {}, "join"),
    node("name number", "name", name=5),
    node("name empty", "name", name=""),
    node("name with a line break", "name", name="a\nb"),
    node("name too long", "name", name="n" * 256),
    node("description number", "description", description=1),
    node("description too long", "description", description="x" * 2001),
    node("address list", "ip_address", ip_address=["10.0.0.1"]),
    node("address", "ip_address", ip_address="<script>"),
    node("port text", "port", port="8000"),
    node("port too large", "port", port=65_536),
    node("port below zero", "port", port=-1),
    node("type empty", "node_type", node_type=""),
    node("region with a space", "region", region="us east"),
    node("cluster", "cluster_id", cluster_id="nowhere"),
    node("labels list", "labels", labels=["a"]),
    node("label number", "labels.a", labels={"a": 1}),
    node("label too long", "labels.a", labels={"a": "x" * 201}),
    node("capability object", "capabilities.js", capabilities={"js": {}}),
    node("capability with 401 digits", "capabilities.js", capabilities={"js": OVERFLOW}),
    node("resource text", "resources.cpu", resources={"cpu": "8"}),
    node("resource unknown", "resources.cores", resources={"cores": 8}),
    node("resource below zero", "resources.cpu", resources={"cpu": -8}),
    node("task types text", "task_types", task_types="sleep"),
    node("task type", "task_types[0]", task_types=["Not A Type"]),
    node("unknown field", "capabilites", capabilites={}),
    beat("usage text", "resources.cpu_usage", resources={"cpu_usage": "65%"}),
    beat("usage in percent", "resources.cpu_usage", resources={"cpu_usage": 65}),
    beat("usage below zero", "resources.memory_usage", resources={"memory_usage": -0.1}),
    beat("rate below zero", "resources.network_io", resources={"network_io": -1}),
    beat("load text", "load", load="high"),
    beat("load below zero", "load", load=-1),
    beat("tasks text", "active_tasks", active_tasks="task-1"),
    beat("session number", "session_id", session_id=5),
    beat("unknown field", "sesion_id", sesion_id="$session"),
    Row("lease without a session", 422, "session_id", "POST", f"{NODE}:lease", {}, "node"),
    lease("held text", "held", held="exec-1"),
    lease("wait text", "wait_s", wait_s="long"),
    lease("backlog text", "backlog", backlog="all"),
    lease("unknown field", "wait", wait=5),
    Row("leave", 422, "session_id", "POST", f"{NODE}:unregister", {"session_id": 5}, "node"),
    Row("no reports", 422, "reports", "POST", f"{NODE}:report", {"session_id": "s"}, "node"),
    report("execution number", "reports[0].execution_id", execution_id=1),
    report("no token", "reports[0].token", token=...),
    report("token text", "reports[0].token", token="1"),
    report("kind unknown", "reports[0].kind", kind="exploded"),
    report("no time", "reports[0].at", at=...),
    report("error text", "reports[0].error", error="it broke"),
    report("error class", "reports[0].error.error_class", error={"error_class": "", "message": ""}),
    report("metric text", "reports[0].metrics.pages", metrics={"pages": "15"}),
]

PATHS = [
    read("task unknown", "there is no task", f"{TASKS}/task-nope", 404),
    read("task id long", "there is no task", f"{TASKS}/{'a' * 5000}", 404),
    read("task id Chinese", "there is no task", f"{TASKS}/%E4%BB%BB%E5%8A%A1", 404),
    read("task id not UTF-8", "there is no task", f"{TASKS}/%FF", 404),
    read("task id with NUL", "there is no task", f"{TASKS}/a%00b", 404),
    read("task id with a line break", "there is no task", f"{TASKS}/a%0Ab", 404),
    read("task id with a slash", "not part of this API", f"{TASKS}/a%2Fb", 404),
    read("task id upwards", "not part of this API", f"{TASKS}/..%2F..%2Fetc", 404),
    read("events of nothing", "there is no task", f"{TASKS}/task-nope/events", 404),
    read("executions of nothing", "there is no task", f"{TASKS}/task-nope/executions", 404),
    read("explain nothing", "there is no task", f"{TASKS}/task-nope:explain", 404),
    read("node unknown", "there is no node", "/api/v1/nodes/node-nope", 404),
    act("cancel nothing", 404, "there is no task", f"{TASKS}/task-nope:cancel"),
    act("drain nothing", 404, "there is no node", "/api/v1/nodes/node-nope:drain"),
    act("unknown verb", 404, "not part of this API", f"{TASKS}/$task:destroy"),
    act("two verbs", 404, "not part of this API", f"{TASKS}/$task:pause:cancel"),
    read("unknown path", "not part of this API", "/api/v1/task", 404),
    read("slash at the end", "not part of this API", f"{TASKS}/", 404),
    read("cancel by GET", "takes POST", f"{TASKS}/$task:cancel", 405),
    read("register by GET", "takes POST", REGISTER, 405),
    Row("delete a task", 405, "takes GET", "DELETE", f"{TASKS}/$task"),
    Row("put tasks", 405, "takes GET, HEAD, POST", "PUT", TASKS, {}),
    Row("delete a node", 405, "takes GET", "DELETE", NODE),
]

QUERIES = [
    read("limit 0", "limit", f"{TASKS}?limit=0"),
    read("limit 1001", "limit", f"{TASKS}?limit=1001"),
    read("limit text", "limit", f"{TASKS}?limit=abc"),
    read("limit empty", "limit", f"{TASKS}?limit="),
    read("limit twice", "limit", f"{TASKS}?limit=5&limit=6"),
    read("limit 2**80", "limit", f"{TASKS}?limit={2**80}"),
    read("status unknown", "status", f"{TASKS}?status=pending,sleeping"),
    read("status not UTF-8", "status", f"{TASKS}?status=%FF"),
    read("dead maybe", "dead", f"{TASKS}?dead=maybe"),
    read("cursor garbage", "cursor", f"{TASKS}?cursor=garbage"),
    read("cursor empty", "cursor", f"{TASKS}?cursor="),
    read("cursor of a node", "cursor", f"{TASKS}?cursor=$node"),
    read("parameter unknown", "limt", f"{TASKS}?limt=5"),
    read("wait below zero", "wait", f"{TASKS}/$task?wait=-1"),
    read("wait too long", "wait", f"{TASKS}/$task?wait=61"),
    read("wait text", "wait", f"{TASKS}/$task?wait=long"),
    read("wait NaN", "wait", f"{TASKS}/$task?wait=nan"),
    read("events after text", "after", f"{TASKS}/$task/events?after=x"),
    read("events after 2**80", "after", f"{TASKS}/$task/events?after={2**80}"),
    read("events limit", "limit", f"{TASKS}/$task/events?limit=0"),
    read("nodes limit", "limit", "/api/v1/nodes?limit=0"),
    read("settings take none", "limit", "/api/v1/settings?limit=5"),
]

CALLERS = [
    read("no key", "send a key", TASKS, 401, key="none"),
    read("key without a scheme", "send a key", TASKS, 401, key="plain"),
    read("basic", "send a key", TASKS, 401, key="basic"),
    read("bearer of nothing", "send a key", TASKS, 401, key="empty"),
    read("unknown key", "not known", TASKS, 401, key="unknown"),
    read("key not ASCII", "not known", TASKS, 401, key="latin"),
    act("create as viewer", 403, "needs the role", TASKS, {"task_type": "x"}, "viewer"),
    act("cancel as viewer", 403, "needs the role", f"{TASKS}/$task:cancel", None, "viewer"),
    act("drain as viewer", 403, "needs the role", f"{NODE}:drain", None, "viewer"),
    act("register as viewer", 403, "needs the role", REGISTER, {"name": "n"}, "viewer"),
    act("register as operator", 403, "needs the role", REGISTER, {"name": "n"}, "operator"),
    act("create with a join key", 403, "needs the role", TASKS, {"task_type": "x"}, "join"),
    act("create with a node token", 403, "needs the role", TASKS, {"task_type": "x"}, "node"),
    act("rest with a node token", 403, "needs the role", f"{NODE}:maintenance", None, "node"),
    read("list with a node token", "needs the role", TASKS, 403, key="node"),
    act("beat with a join key", 403, "its own node token", f"{NODE}:heartbeat", {}, "join"),
    act(
        "beat for another", 403, "its own node token", "/api/v1/nodes/$other:heartbeat", {}, "node"
    ),
    act("register as another", 403, "itself", REGISTER, {"name": "n", "node_id": "$other"}, "node"),
    act("register as taken", 403, "itself", REGISTER, {"name": "n", "node_id": "$node"}, "join"),
    act("register anew with a token", 403, "itself", REGISTER, {"name": "n"}, "node"),
]

STATES = [
    act("pause what has ended", 409, "is cancelled", f"{TASKS}/$done:pause"),
    act("resume what has ended", 409, "is cancelled", f"{TASKS}/$done:resume"),
    act(
        "raise what has ended", 409, "is cancelled", f"{TASKS}/$done:reprioritise", {"priority": 9}
    ),
    act("cancel what is complete", 409, "is completed", f"{TASKS}/$complete:cancel"),
    act("retry what is complete", 409, "is completed", f"{TASKS}/$complete:retry"),
    act("retry what is paused", 409, "is paused", f"{TASKS}/$paused:retry"),
    act("drain what is gone", 409, "is offline", "/api/v1/nodes/$gone:drain"),
    act("resume what is gone", 409, "is offline", "/api/v1/nodes/$gone:resume"),
    act("priority 11", 422, "priority", f"{TASKS}/$task:reprioritise", {"priority": 11}),
    act("priority missing", 422, "priority", f"{TASKS}/$task:reprioritise", {}),
    act("cancel with a reason", 422, "reason", f"{TASKS}/$task:cancel", {"reason": "x"}),
    act(
        "clone parameters", 422, "parameters.seconds", f"{TASKS}/$paused:clone", {"parameters": {}}
    ),
    act("clone with a type", 422, "task_type", f"{TASKS}/$task:clone", {"task_type": "x"}),
    act(
        "key of another request",
        409,
        "was used for another request",
        TASKS,
        {"task_type": "x", "idempotency_key": "taken"},
    ),
]

TABLE: Final = [
    *NOT_JSON,
    *TASK_FIELDS,
    *BATCHES,
    *NODE_MESSAGES,
    *PATHS,
    *QUERIES,
    *CALLERS,
    *STATES,
]


class World(NamedTuple):
    """What is there to be harmed."""

    master: Master
    ids: dict[str, str]
    authorization: dict[str, str]
    node: Node

    def send(self, row: Row) -> Answer:
        body = row.body
        if isinstance(body, dict | list):
            body = self._filled(json.dumps(body)).encode()
        allowed = self.authorization[row.key]
        headers = {"Authorization": allowed} if allowed else {}
        headers |= row.headers or {}
        return self.master.call(row.method, self._filled(row.path), body, key=None, headers=headers)

    def _filled(self, text: str) -> str:
        return re.sub(r"\$(\w+)", lambda found: self.ids[found.group(1)], text)


@pytest.fixture(scope="module")
def world(master: Master) -> World:
    node, other = master.node(task_types=["mine"]), master.node(task_types=["none"])
    gone = master.node(task_types=["none"])
    gone.leave()
    complete = master.submit(task_type="mine")
    assert node.report(node.take(), "succeeded") == "recorded"
    plain = {"task_type": "sleep", "parameters": {"seconds": 0}}
    done, paused = master.submit(**plain, idempotency_key="taken"), master.submit(**plain)
    master.order(done, "cancel").expect(200)
    master.order(paused, "pause").expect(200)
    ids = {
        "task": master.submit(task_type="nobodys"),
        "complete": complete,
        "done": done,
        "paused": paused,
        "node": node.id,
        "session": node.session,
        "other": other.id,
        "gone": gone.id,
    }
    keys = {
        "admin": master.keys[Role.ADMIN],
        "operator": master.keys[Role.OPERATOR],
        "viewer": master.keys[Role.VIEWER],
        "join": master.keys[Role.NODE],
        "node": node.token,
        "unknown": "0" * 64,
        "latin": "ÿ",
    }
    authorization = {name: f"Bearer {key}" for name, key in keys.items()}
    authorization |= {"none": "", "empty": "Bearer ", "basic": "Basic eDp5", "plain": keys["admin"]}
    return World(master, ids, authorization, node)


@pytest.fixture
def unchanged(world: World) -> Iterator[None]:
    before = but_uses(world.master.dump())
    yield
    assert but_uses(world.master.dump()) == before


def but_uses(dump: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """What a store holds, but for when keys were last used: that is noted every few seconds."""
    return {**dump, "crawler_keys": [row[:KEPT_OF_KEYS] for row in dump["crawler_keys"]]}


def check_problem(answer: Answer, status: int, says: str) -> None:
    document = answer.expect(status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert document["type"].startswith("urn:crawlfleet:problem:")
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    assert document["instance"].startswith("/")
    assert len(answer.content) < 10_000, "an answer is not made for copying what was sent"
    assert not JARGON.search(answer.content.decode()), answer.content
    if status == 422:
        assert says in [error["field"] for error in document["errors"]], document
        assert all(error["message"] and error["remedy"] for error in document["errors"])
    else:
        assert says in document["detail"]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.method} {row.name}")
def test_a_bad_request_is_refused_by_name_and_changes_nothing(
    row: Row, world: World, unchanged: None
) -> None:
    answer = world.send(row)

    check_problem(answer, row.status, row.says)


def test_the_table_is_large_and_each_row_is_another() -> None:
    assert len(TABLE) >= 200
    requests = {repr(row._replace(name="", says="", status=0)) for row in TABLE}
    assert len(requests) == len(TABLE)


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ({"task_type": "x", "prioritty": 5}, "priority"),
        ({"task_type": "x", "param": {}}, "parameters"),
        ({"task_type": "sleep", "parameters": {"secs": 1, "seconds": 1}}, "seconds"),
    ],
)
def test_a_misspelt_field_is_answered_with_the_one_that_was_meant(
    misspelt: dict[str, Any], meant: str, master: Master, unchanged: None
) -> None:
    document = master.call("POST", TASKS, misspelt).expect(422)

    assert document["errors"][0]["remedy"] == f"did you mean {meant!r}?"


def test_all_problems_of_a_request_are_told_at_once(master: Master, unchanged: None) -> None:
    request = {"task_type": "Sleep", "priority": 0, "max_retries": -1, "categories": [""]}

    errors = master.call("POST", TASKS, request).expect(422)["errors"]

    fields = [error["field"] for error in errors]
    assert fields == ["task_type", "priority", "max_retries", "categories[0]"]
    assert errors[1] == {
        "field": "priority",
        "message": "is out of range",
        "remedy": "use a number from 1 to 10",
        "value": 0,
    }


def test_a_key_is_asked_for_before_anything_else_is_read(master: Master, unchanged: None) -> None:
    answer = master.call("POST", TASKS, b"not JSON", key=None)

    check_problem(answer, 401, "send a key")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", TASKS, "GET, HEAD, POST"),
        ("GET", BATCH, "POST"),
        ("DELETE", f"{TASKS}/x", "GET, HEAD"),
    ],
)
def test_another_method_is_answered_with_all_that_are_allowed(
    method: str, path: str, allow: str, master: Master, unchanged: None
) -> None:
    assert master.call(method, path).headers["allow"] == allow


def head(master: Master, *headers: str) -> bytes:
    lines = ["POST /api/v1/tasks HTTP/1.1", "Host: localhost", *headers]
    lines.append(f"Authorization: Bearer {master.fleet.key}")
    return "\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode()


def test_a_body_that_is_announced_too_large_is_refused_unread(
    master: Master, unchanged: None
) -> None:
    announced = int(MAX_BODY_MB * 1e6) + 1

    check_problem(
        master.send(head(master, f"Content-Length: {announced}")), 413, "larger than 4 MB"
    )


def test_a_body_that_grows_too_large_is_refused_on_the_way(master: Master, unchanged: None) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    chunks = chunk * (int(MAX_BODY_MB * 1e6) // 0x10000 + 2)

    answer = master.send(head(master, "Transfer-Encoding: chunked") + chunks)

    check_problem(answer, 413, "larger than 4 MB")


@pytest.mark.parametrize("megabytes", [5, 20, 60])
def test_a_client_that_sends_all_of_a_body_that_is_too_large_is_answered(
    megabytes: int, master: Master, unchanged: None
) -> None:
    """As `urllib` does it: it reads nothing before it has sent everything."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{master.fleet.port}{BATCH}",
        b" " * megabytes * 1_000_000,
        {"Authorization": f"Bearer {master.fleet.key}", "Content-Type": "application/json"},
    )

    with pytest.raises(urllib.error.HTTPError) as refused, urllib.request.urlopen(request):
        pass

    with refused.value as error:
        assert error.code == 413
        assert "larger than 4 MB" in json.load(error)["detail"]


def test_the_connection_of_a_body_that_was_taken_to_its_end_goes_on(
    master: Master, unchanged: None
) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", master.fleet.port, timeout=10)) as peer:
        headers = {"Authorization": f"Bearer {master.fleet.key}"}
        for _ in range(2):
            peer.request("POST", TASKS, b" " * 6_000_000, headers)
            answer = peer.getresponse()
            assert answer.status == 413
            assert not answer.will_close
            answer.read()


def test_a_body_without_end_is_not_taken(master: Master, unchanged: None) -> None:
    with socket.create_connection(("127.0.0.1", master.fleet.port), timeout=10) as peer:
        peer.sendall(head(master, "Content-Length: 1000000000"))
        taken = 0
        with suppress(ConnectionError):
            while taken < 500:
                peer.sendall(b" " * 1_000_000)
                taken += 1
    assert taken < 200


def test_a_client_that_asks_first_is_refused_at_once(master: Master, unchanged: None) -> None:
    began = time.monotonic()

    answer = master.send(head(master, "Content-Length: 20000000", "Expect: 100-continue"))

    check_problem(answer, 413, "larger than 4 MB")
    assert answer.headers["connection"] == "close"
    assert time.monotonic() - began < 30, "nobody waits for the body"


def test_a_body_that_breaks_off_changes_nothing(master: Master, unchanged: None) -> None:
    with socket.create_connection(("127.0.0.1", master.fleet.port), timeout=10) as peer:
        peer.sendall(head(master, "Content-Length: 1000") + b'{"task_type": "x"}')
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(1000):
            pass

    assert master.get("/readyz", key=None)["status"] == "ready"


@pytest.mark.parametrize("kind", ["started", "succeeded", "failed", "stopped", "released"])
@pytest.mark.parametrize(
    "change",
    [{"token": 7}, {"token": 2**70}, {"execution_id": "exec-nope"}, {"execution_id": "a\0b"}],
    ids=["token", "huge token", "execution", "NUL"],
)
def test_a_report_of_something_else_is_stale_and_changes_nothing(
    kind: str, change: dict[str, Any], leased: tuple[Node, Any], unchanged: None
) -> None:
    node, assignment = leased

    assert node.report({**assignment, **change}, kind) == "stale"


@pytest.mark.parametrize("session", ["", "sess-nope", "other's"])
def test_a_report_under_another_session_is_stale_and_changes_nothing(
    session: str, world: World, leased: tuple[Node, Any], unchanged: None
) -> None:
    node, assignment = leased
    mine, node.session = node.session, world.node.session if session == "other's" else session
    try:
        assert node.report(assignment, "succeeded") == "stale"
        assert node.lease(wait_s=0) == {"session_lost": True}
        assert node.beat(active_tasks=["task-1"])["session_lost"]
    finally:
        node.session = mine


def test_what_a_node_sends_back_must_be_text(leased: tuple[Node, Any], unchanged: None) -> None:
    node, assignment = leased
    body = json.dumps(
        {
            "session_id": node.session,
            "reports": [{**report_of(assignment), "kind": "succeeded", "data": "?"}],
        }
    )

    answer = node.say("report", body.encode().replace(b'"?"', b'"\xff"'))

    check_problem(answer, 400, "not UTF-8")


def report_of(assignment: Any) -> dict[str, Any]:
    names = ("execution_id", "task_id", "token")
    return {"at": 1.0, **{name: assignment[name] for name in names}}


@pytest.fixture(scope="module")
def leased(world: World) -> tuple[Node, Any]:
    node = world.master.node(task_types=["leased"])
    world.master.submit(task_type="leased")
    return node, node.take()


def test_the_master_met_no_defect_in_all_this(master: Master) -> None:
    assert "Traceback" not in master.log()
    assert "a defect" not in master.log()
