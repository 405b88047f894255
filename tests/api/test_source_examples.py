"""The requests of source 000 §8.6, byte for byte, and the answers that it promises.

Only the host, the token and the made-up ids differ: they are filled in before sending.
"""

import json
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from crawlfleet.model.key import Role
from tests.api.plain_http import Answer, Master

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api source examples")]

REGISTER: Final = b"""\
POST /api/v1/nodes:register HTTP/1.1
Host: dccms.mirror-realm.com
Authorization: Bearer <access_token>
Content-Type: application/json

{
  "name": "crawler-node-01",
  "description": "Main crawler node in US East region",
  "ip_address": "192.168.1.101",
  "port": 8000,
  "node_type": "standard",
  "capabilities": {
    "content_types": ["html", "json", "xml"],
    "technologies": ["react", "angular", "wordpress"],
    "anti_crawling_bypass": ["user-agent", "proxy"]
  },
  "resources": {
    "cpu": 8,
    "memory_mb": 16384,
    "gpu": 1,
    "network_bandwidth_mbps": 1000
  }
}
"""

HEARTBEAT: Final = b"""\
POST /api/v1/nodes/node-1a2b3c4d:heartbeat HTTP/1.1
Host: dccms.mirror-realm.com
Authorization: Bearer <access_token>
Content-Type: application/json

{
  "resources": {
    "cpu_usage": 0.65,
    "memory_usage": 0.75,
    "gpu_usage": 0.45
  },
  "load": 0.8,
  "active_tasks": ["task-123", "task-456"]
}
"""

CREATE: Final = b"""\
POST /api/v1/tasks HTTP/1.1
Host: dccms.mirror-realm.com
Authorization: Bearer <access_token>
Content-Type: application/json

{
  "project_id": "proj-123",
  "workflow_id": "inst-1a2b3c4d5e6f",
  "task_type": "web_crawl",
  "parameters": {
    "url": "https://example.com/products",
    "depth": 2,
    "selectors": {
      "product": "div.product",
      "title": "h2.title",
      "price": "span.price"
    }
  },
  "priority": 7,
  "min_resources": {
    "memory_mb": 4096,
    "cpu_cores": 2
  },
  "capabilities": {
    "javascript_rendering": 1,
    "proxy_rotation": 1
  },
  "schedule_strategy": "least_loaded",
  "target_region": "us",
  "content_features": {
    "content_type": "html",
    "technology": "react"
  }
}
"""

GET: Final = b"""\
GET /api/v1/tasks/task-123 HTTP/1.1
Host: dccms.mirror-realm.com
Authorization: Bearer <access_token>
"""

ASKED: Final = json.loads(CREATE.partition(b"\n\n")[2])
DESCRIBED: Final = json.loads(REGISTER.partition(b"\n\n")[2])
DATA: Final = {
    "products": [
        {"title": "Product 1", "price": "$19.99", "url": "/products/1"},
        {"title": "Product 2", "price": "$29.99", "url": "/products/2"},
    ]
}
METRICS: Final = {"pages_crawled": 15, "processing_time": 125.4, "data_size": 4294967}


class Story:
    """What happened so far on the one fleet of this module, step by step."""

    def __init__(self, master: Master) -> None:
        self.master = master
        self.registered = self.send(REGISTER, master.keys[Role.NODE])
        self.node = self.registered.json
        self.beaten = self.send(
            HEARTBEAT, self.node["node_token"], **{"node-1a2b3c4d": self.node["node_id"]}
        )
        self.created = self.send(CREATE, master.keys[Role.OPERATOR])
        self.task_id = self.created.json["id"]

    def send(self, example: bytes, key: str, **ids: str) -> Answer:
        """Send an example with what it leaves open: the token, the ids, and the line endings."""
        head, _, body = example.partition(b"\n\n")
        filled = {"<access_token>": key, **ids}
        text = head.decode().rstrip("\n")
        for word, value in filled.items():
            text = text.replace(word, value)
        if body:
            text += f"\nContent-Length: {len(body)}"
        return self.master.send(text.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)

    def read(self) -> Any:
        """The task, asked for as the source does."""
        answer = self.send(GET, self.master.keys[Role.VIEWER], **{"task-123": self.task_id})
        return answer.expect(200)

    def explain(self) -> Any:
        return self.master.get(f"/api/v1/tasks/{self.task_id}:explain")


@pytest.fixture(scope="module")
def story(master: Master) -> Story:
    return Story(master)


def instant(text: str) -> datetime:
    assert text.endswith("Z")
    return datetime.fromisoformat(text)


def test_a_node_registers_as_in_8_6_1(story: Story) -> None:
    body = story.registered.expect(201)

    assert story.registered.headers["location"] == f"/api/v1/nodes/{body['node_id']}"
    assert story.registered.headers["content-type"] == "application/json"
    assert body["node_id"].startswith("node-")
    assert abs(body["registration_time"] - datetime.now(UTC).timestamp()) < 60
    assert body["initial_status"] == "online"
    assert len(bytes.fromhex(body["node_token"])) == 32
    assert body["session_id"]


def test_what_the_node_said_of_itself_is_shown(story: Story) -> None:
    node = story.master.get(f"/api/v1/nodes/{story.node['node_id']}")

    plain = ("name", "description", "ip_address", "port", "node_type", "capabilities")
    assert {name: node[name] for name in plain} == {name: DESCRIBED[name] for name in plain}
    assert node["resources"] == {
        "cpu_cores": 8.0,
        "memory_mb": 16384.0,
        "gpu": 1.0,
        "bandwidth_mbps": 1000.0,
        "slots": 4.0,
    }


def test_a_node_beats_as_in_8_6_1(story: Story) -> None:
    body = story.beaten.expect(200)

    assert body["node_id"] == story.node["node_id"]
    assert abs(body["timestamp"] - datetime.now(UTC).timestamp()) < 60
    assert body["status"] == "online"
    assert body["lost_tasks"] == ["task-123", "task-456"], "tasks that were never given to it"
    node = story.master.get(f"/api/v1/nodes/{story.node['node_id']}")
    assert node["usage"]["cpu_usage"] == 0.65
    assert node["usage"]["memory_usage"] == 0.75
    assert node["usage"]["gpu_usage"] == 0.45
    assert node["load"] == 0.8
    assert node["resources"]["cpu_cores"] == 8.0, "usage never overwrites capacity"


def test_a_task_is_created_as_in_8_6_2(story: Story) -> None:
    body = story.created.expect(201)

    assert story.created.headers["location"] == f"/api/v1/tasks/{body['id']}"
    assert set(body) == {"id", "status", "created_at", "priority"}
    assert body["id"].startswith("task-")
    assert body["status"] == "pending"
    assert body["priority"] == 7
    assert abs((instant(body["created_at"]) - datetime.now(UTC)).total_seconds()) < 60


def test_the_task_is_shown_whole_while_no_node_can_take_it(story: Story) -> None:
    task = story.read()

    assert {name: task[name] for name in ASKED} == ASKED
    assert task["id"] == story.task_id
    assert task["status"] == "pending"
    assert task["retry_count"] == 0
    assert task["max_retries"] == 3
    assert instant(task["created_at"]) <= instant(task["updated_at"])
    assert "assigned_node" not in task


def test_explain_says_exactly_what_the_node_lacks(story: Story) -> None:
    explanation = story.explain()

    assert explanation["status"] == "pending"
    assert explanation["summary"] == (
        "None of 1 nodes can take it now: 1 without the capabilities. "
        "Add a node that can, or change what the task asks for."
    )
    placement = explanation["placement"]
    assert placement["feasible"] is False
    assert placement["rejected"] == {"capabilities": 1}
    (verdict,) = placement["details"]
    assert verdict["name"] == "crawler-node-01"
    assert verdict["reasons"] == [
        {
            "filter": "capabilities",
            "message": "javascript_rendering: needs at least 1, the node has none",
            "code": "capability_missing",
            "values": {"name": "javascript_rendering", "needs": "1", "has": "none"},
        },
        {
            "filter": "capabilities",
            "message": "proxy_rotation: needs at least 1, the node has none",
            "code": "capability_missing",
            "values": {"name": "proxy_rotation", "needs": "1", "has": "none"},
        },
    ]


def test_a_node_that_has_everything_is_given_the_task_and_completes_it(story: Story) -> None:
    able = {
        **DESCRIBED,
        "name": "crawler-node-02",
        "region": "us",
        "capabilities": {
            **DESCRIBED["capabilities"],
            "javascript_rendering": 1,
            "proxy_rotation": 2,
        },
    }
    node = story.master.node(**able)

    assignment = node.take()

    assert assignment["task_id"] == story.task_id
    assert assignment["task_type"] == "web_crawl"
    assert assignment["parameters"] == ASKED["parameters"]
    assert assignment["token"] == 1
    assert assignment["allocation"]["memory_mb"] >= ASKED["min_resources"]["memory_mb"]
    assigned = story.read()
    assert assigned["status"] == "assigned"
    assert assigned["assigned_node"] == node.id

    assert node.report(assignment, "started") == "recorded"

    processing = story.read()
    assert {name: processing[name] for name in ASKED} == ASKED
    assert processing["status"] == "processing"
    assert processing["assigned_node"] == node.id
    assert instant(processing["assigned_at"]) <= instant(processing["updated_at"])
    assert story.explain()["summary"] == f"processing on {node.id}, attempt 1"

    assert node.report(assignment, "succeeded", data=DATA, metrics=METRICS) == "recorded"

    completed = story.read()
    assert {name: completed[name] for name in ASKED} == ASKED
    assert completed["status"] == "completed"
    assert completed["assigned_node"] == node.id
    assert completed["retry_count"] == 0
    assert completed["max_retries"] == 3
    instants = ("created_at", "assigned_at", "completed_at", "updated_at")
    assert [completed[name] for name in instants] == sorted(completed[name] for name in instants)
    result = completed["result"]
    assert set(result) == {"success", "data", "metrics", "timestamp"}
    assert result["success"] is True
    assert result["data"] == DATA
    assert result["metrics"]["pages_crawled"] == 15
    assert result["metrics"]["data_size"] == 4294967
    assert 0 <= result["metrics"]["processing_time"] < 60, "measured by the master"
    assert instant(result["timestamp"]) == instant(completed["completed_at"])
    assert story.explain()["summary"] == "ended as completed"
