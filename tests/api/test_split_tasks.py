"""Tasks that were split, over HTTP: submitted whole, seen in pieces, ended together."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.api.plain_http import Master, Node

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api tasks")]

TASKS: Final = "/api/v1/tasks"
URLS: Final = [f"https://h{number}.example/" for number in range(12)]


@pytest.fixture
def node(master: Master) -> Iterator[Node]:
    node = master.node(task_types=["http_fetch"], resources={"slots": 8}, node_type="sharing")
    yield node
    node.leave()


def submit(master: Master, **fields: Any) -> Any:
    request = {
        "task_type": "http_fetch",
        "node_type": "sharing",
        "parameters": {"urls": URLS, "shards": 3},
        **fields,
    }
    return master.post(TASKS, request, status=201)


def finish(node: Node, work: Any) -> None:
    data = {"urls": len(work["parameters"]["urls"]), "pages": work["parameters"]["urls"]}
    node.report(work, "started")
    node.report(work, "succeeded", data=data, metrics={"urls": data["urls"]})


def test_a_split_task_from_its_submission_to_its_end(master: Master, node: Node) -> None:
    receipt = submit(master, priority=7)
    assert (receipt["status"], receipt["shards"]) == ("waiting", 3)
    id = receipt["id"]
    page = master.get(f"{TASKS}?parent_id={id}")
    shards = sorted(page["items"], key=lambda task: task["shard"])
    assert [(each["parent_id"], each["shard"], each["shards"]) for each in shards] == [
        (id, number, 3) for number in range(3)
    ]
    assert "shard_states" not in page["items"][0]
    works = node.lease()["assignments"]
    first, *others = works
    finish(node, first)
    for work in others:
        node.report(work, "started")
        note = {
            "execution_id": work["execution_id"],
            "progress": {"done": 1, "total": 4, "at": 1.0},
        }
        node.say("note", {"session_id": node.session, "notes": [note]}).expect(200)
    parent = master.task(id)
    assert parent["shard_states"] == {"completed": 1, "processing": 2}
    assert parent["progress"]["done"] == 2
    why = master.get(f"{TASKS}/{id}:explain")
    assert why["summary"] == "waits for 2 of its 3 shards: 1 completed, 2 processing"
    assert why["shards"] == {"completed": 1, "processing": 2}
    for work in others:
        finish(node, work)
    done = master.get(f"{TASKS}/{id}?wait=20")
    assert done["status"] == "completed"
    assert done["result"]["data"]["urls"] == 12
    assert sorted(done["result"]["data"]["pages"]) == sorted(URLS)
    assert done["result"]["metrics"]["urls"] == 12
    assert "progress" not in done


def test_orders_reach_the_shards(master: Master, node: Node) -> None:
    id = submit(master)["id"]
    assert master.order(id, "pause").expect(200)["status"] == "paused"
    assert set(states(master, id)) == {"paused"}
    assert master.order(id, "resume").expect(200)["status"] == "waiting"
    assert master.order(id, "reprioritise", {"priority": 9}).expect(200)["priority"] == 9
    counted = master.post(f"{TASKS}:cancel", {"filter": {"parent_id": id}})
    assert (counted["changed"], counted["refused_count"]) == (3, 0)
    assert master.get(f"{TASKS}/{id}?wait=20")["status"] == "cancelled"
    assert master.order(id, "retry").expect(200)["status"] == "waiting"
    assert master.order(id, "cancel").expect(200)["status"] == "cancelled"
    assert set(states(master, id)) == {"cancelled"}


def states(master: Master, id: str) -> list[str]:
    return [task["status"] for task in master.get(f"{TASKS}?parent_id={id}")["items"]]


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"urls": URLS, "shards": 0}, "shards"),
        ({"urls": URLS, "shards": 257}, "shards"),
        ({"urls": URLS, "url": URLS[0]}, "one of the two"),
        ({"shards": 3}, "one of the two"),
    ],
)
def test_bad_lists_are_refused_with_their_field(
    master: Master, parameters: dict[str, Any], complaint: str
) -> None:
    request = {"task_type": "http_fetch", "parameters": parameters}
    problem = master.call("POST", TASKS, request).expect(422)
    assert complaint in json.dumps(problem)
