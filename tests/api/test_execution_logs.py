"""Logs, progress, node history and labels over HTTP, with a node by hand."""

import http.client
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

import pytest

from crawlfleet.model.key import Role
from tests.api.plain_http import Master, Node

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api logs")]

numbers: Final = count()


class Worker(Node):
    """A node with one execution under way."""

    def __init__(self, master: Master) -> None:
        self.kind = f"kind_{next(numbers)}"
        super().__init__(master, task_types=[self.kind], labels={"own": "1"})
        self.task = master.submit(task_type=self.kind)
        self.work = self.take()
        self.report(self.work, "started")
        self.logs = f"/api/v1/executions/{self.work['execution_id']}/logs"

    def note(self, *lines: dict[str, Any], **fields: Any) -> Any:
        note = {"execution_id": self.work["execution_id"], "lines": [*lines], **fields}
        return self.say("note", {"session_id": self.session, "notes": [note]}).expect(200)


def line(seq: int, **fields: Any) -> dict[str, Any]:
    return {"seq": seq, "at": time.time(), "message": f"line {seq}", **fields}


@pytest.fixture
def node(master: Master) -> Iterator[Worker]:
    node = Worker(master)
    yield node
    node.leave()


def seqs(page: Any) -> list[int]:
    return [each["seq"] for each in page["items"]]


def test_lines_are_read_by_execution_and_by_task(node: Worker, master: Master) -> None:
    assert node.note(line(1), line(2, level="error", fields={"code": 7})) == {"stale": []}

    page = master.get(node.logs)

    assert page["execution_id"] == node.work["execution_id"]
    assert [(each["seq"], each["level"]) for each in page["items"]] == [(1, "info"), (2, "error")]
    assert page["items"][1]["fields"] == {"code": 7}
    assert master.get(f"/api/v1/tasks/{node.task}/logs") == page
    assert seqs(master.get(f"{node.logs}?level=warning")) == [2]
    first = master.get(f"{node.logs}?limit=1")
    assert first["next_cursor"] == "1"
    assert seqs(master.get(f"{node.logs}?after={first['next_cursor']}")) == [2]


def test_lines_are_searched(node: Worker, master: Master) -> None:
    said = time.time()
    slow = line(2, message="Slow answer", fields={"status": 503}, at=said - 60)
    node.note(line(1, at=said - 120), slow, line(3, at=said))
    since, until = (
        datetime.fromtimestamp(said + offset, UTC).isoformat().replace("+00:00", "Z")
        for offset in (-90, -30)
    )

    assert seqs(master.get(f"{node.logs}?q=slow")) == [2]
    assert seqs(master.get(f"{node.logs}?q=status%3D503")) == [2]
    assert seqs(master.get(f"{node.logs}?q=LINE")) == [1, 3]
    assert seqs(master.get(f"{node.logs}?q=%5Eline%20%5B2-9%5D&regex=true")) == [3]
    assert seqs(master.get(f"{node.logs}?since={since}&until={until}")) == [2]
    first = master.get(f"{node.logs}?q=line&limit=1")
    assert (seqs(first), first["next_cursor"]) == ([1], "1")
    assert seqs(master.get(f"/api/v1/tasks/{node.task}/logs?q=line&after=1")) == [3]
    node.report(node.work, "succeeded")
    told = read_stream(master, f"{node.logs}?follow=true&q=slow")
    assert [(id, name) for id, name, _ in told] == [("2", "line"), ("3", "end")]


def test_progress_is_shown_while_it_runs(node: Worker, master: Master) -> None:
    node.note(progress={"done": 3, "total": 10, "at": time.time()})

    for path in (f"/api/v1/tasks/{node.task}", node.logs.removesuffix("/logs")):
        progress = master.get(path)["progress"]
        assert (progress["done"], progress["total"]) == (3.0, 10.0)
    (attempt,) = master.get(f"/api/v1/tasks/{node.task}/executions")["items"]
    assert attempt["progress"]["done"] == 3.0
    node.report(node.work, "succeeded", metrics={"progress_done": 10})
    assert "progress" not in master.task(node.task)
    ended = master.get(node.logs.removesuffix("/logs"))
    assert ended["metrics"]["progress_done"] == 10


def test_a_node_cannot_write_for_another(node: Worker, master: Master) -> None:
    other = master.node(task_types=["none"])
    body = {
        "session_id": node.session,
        "notes": [{"execution_id": node.work["execution_id"], "lines": [line(1)]}],
    }

    assert other.say("note", body).expect(200) == {"stale": [node.work["execution_id"]]}
    stolen = master.call("POST", f"{node.path}:note", body, key=other.token)
    assert stolen.expect(403)["type"].endswith("refused")
    assert master.get(node.logs)["items"] == []
    other.leave()


def read_stream(master: Master, path: str, **headers: str) -> list[tuple[str, str, Any]]:
    """Each event of a stream that ends: its id, name and data."""
    connection = http.client.HTTPConnection("127.0.0.1", master.fleet.port, timeout=30)
    sent = {"Authorization": f"Bearer {master.keys[Role.VIEWER]}", **headers}
    connection.request("GET", path, headers=sent)
    response = connection.getresponse()
    assert response.status == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    events = []
    for block in response.read().decode().split("\n\n"):
        fields = dict(part.split(": ", 1) for part in block.splitlines() if part[:1] != ":")
        if "event" in fields:
            events.append((fields["id"], fields["event"], json.loads(fields["data"])))
    connection.close()
    return events


def test_a_stream_ends_with_the_execution_and_can_be_taken_up_again(
    node: Worker, master: Master
) -> None:
    node.note(*(line(n) for n in range(1, 6)))
    node.report(node.work, "succeeded")

    whole = read_stream(master, f"{node.logs}?follow=true")
    rest = read_stream(master, node.logs, Accept="text/event-stream", **{"Last-Event-ID": "3"})

    assert [(id, name) for id, name, _ in whole] == [
        *((str(n), "line") for n in range(1, 6)),
        ("5", "end"),
    ]
    assert whole[0][2]["message"] == "line 1"
    assert [id for id, name, _ in rest if name == "line"] == ["4", "5"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("q=(&regex=true", "q"),
        ("since=yesterday", "since"),
        ("q=" + "x" * 501, "q"),
        ("after=-1", "after"),
        ("limit=0", "limit"),
        ("level=loud", "level"),
        ("tail=1", "tail"),
    ],
)
def test_a_bad_question_is_refused(query: str, field: str, node: Worker, master: Master) -> None:
    document = master.call("GET", f"{node.logs}?{query}").expect(422)

    assert [problem["field"] for problem in document["errors"]] == [field]
    assert document["errors"][0]["remedy"]


def test_what_does_not_exist_is_not_found(master: Master) -> None:
    for path in ("executions/exec-0", "executions/exec-0/logs", "tasks/task-0/logs"):
        assert master.call("GET", f"/api/v1/{path}").expect(404)["type"].endswith("not-found")


def test_a_task_that_was_not_attempted_has_no_lines(master: Master) -> None:
    task = master.submit(task_type="nobodys")

    page = master.get(f"/api/v1/tasks/{task}/logs")

    assert page == {"execution_id": None, "items": [], "next_cursor": None}


def test_history_comes_from_heartbeats(node: Worker, master: Master) -> None:
    usage = {"cpu_usage": 0.25, "memory_usage": 0.5, "network_io": 1000.0}
    node.beat(resources=usage, load=0.5, active_tasks=[node.task])
    time.sleep(1.1)
    node.beat(resources={**usage, "cpu_usage": 0.75}, load=0.5)

    raw = master.get(f"{node.path}/history?resolution=raw")
    hour = master.get(f"{node.path}/history?resolution=hour")

    assert [each["cpu_usage"] for each in raw["items"]] == [0.25, 0.75]
    assert [each["active_tasks"] for each in raw["items"]] == [1.0, 0.0]
    assert sum(each["count"] for each in hour["items"]) == 2
    later = raw["items"][1]["at"]
    assert len(master.get(f"{node.path}/history?resolution=raw&since={later}")["items"]) == 1
    assert master.get(f"{node.path}/history?since=2100-01-01T00:00:00Z")["items"] == []


@pytest.mark.parametrize("query", ["resolution=day", "since=yesterday", "limit=0", "until=1"])
def test_a_bad_question_about_history_is_refused(query: str, node: Worker, master: Master) -> None:
    document = master.call("GET", f"{node.path}/history?{query}").expect(422)

    assert [problem["field"] for problem in document["errors"]] == [query.partition("=")[0]]


def test_labels_are_changed_by_operators_and_outlast_a_return(node: Worker, master: Master) -> None:
    operator = master.keys[Role.OPERATOR]
    node.beat()  # its health is known from now on
    tag = master.call("GET", node.path).headers["etag"]
    body = {"labels": {"rack": "7", "own": None}, "description": "ours"}

    changed = master.call("PATCH", node.path, body, key=operator, headers={"If-Match": tag})

    assert changed.expect(200)["labels"] == {"rack": "7"}
    assert changed.headers["etag"] != tag
    node.beat()
    heard = master.call("GET", node.path).headers["etag"]
    assert heard.partition("-")[0] == changed.headers["etag"].partition("-")[0], "no new version"
    other = {"description": "theirs"}
    stale = master.call("PATCH", node.path, other, key=operator, headers={"If-Match": tag})
    assert stale.expect(412)["type"] == "urn:crawlfleet:problem:precondition-failed"
    node.return_()
    view = node.view()
    assert (view["labels"], view["description"]) == ({"rack": "7"}, "ours")
    assert ("changed by the operator",) in master.fleet.query(
        f"select cause from crawler_events where subject = '{node.id}' and kind = 'node.changed'"
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"labels": {"no spaces": "x"}}, "labels.no spaces"),
        ({"labels": {"a": 1}}, "labels"),
        ({"description": "x" * 3000}, "description"),
        ({"status": "online"}, "status"),
    ],
)
def test_a_bad_change_is_refused_and_changes_nothing(
    body: Any, field: str, node: Worker, master: Master
) -> None:
    before = node.view()

    document = master.call("PATCH", node.path, body).expect(422)

    assert document["errors"][0]["field"].startswith(field)
    assert node.view() == before


def test_a_tag_of_something_else_is_refused(node: Worker, master: Master) -> None:
    for tag in ("7", 'W/"7"', '"x"', ""):
        answer = master.call("PATCH", node.path, {}, headers={"If-Match": tag})
        assert answer.expect(422)["errors"][0]["field"] == "If-Match"
    master.call("PATCH", node.path, {}, headers={"If-Match": "*"}).expect(200)
