"""Nodes over HTTP: a node by hand comes, works, is told what to do, is lost, and comes back."""

import time
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import pytest

from crawlfleet.model.key import Role
from tests.api.plain_http import Master, Node, started

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api nodes")]

numbers: Final = count()


class Worker(Node):
    """A node with a task type of its own, so that tests do not take each other's work."""

    def __init__(self, master: Master, **description: Any) -> None:
        self.kind = f"kind_{next(numbers)}"
        super().__init__(master, task_types=[self.kind], **description)

    def work(self, **fields: Any) -> str:
        return self.master.submit(task_type=self.kind, **fields)

    def events(self) -> list[tuple[str, str]]:
        """What happened to this node, from the store itself."""
        rows = self.master.fleet.query(
            f"select from_state, to_state from crawler_events where subject = '{self.id}' "
            "order by seq"
        )
        return [(before, after) for before, after in rows]


@pytest.fixture
def node(master: Master) -> Iterator[Worker]:
    node = Worker(master, resources={"cpu": 8, "memory_mb": 1024, "slots": 4})
    yield node
    node.leave()


def status(master: Master, task_id: str) -> str:
    return str(master.task(task_id)["status"])


# Finding


def ids(page: Any) -> list[str]:
    return [each["id"] for each in page["items"]]


def test_nodes_are_found_by_state_and_cluster(node: Worker, master: Master) -> None:
    def found(query: str) -> bool:
        return node.id in ids(master.get(f"/api/v1/nodes?{query}"))

    assert found("status=online")
    assert found("status=online&cluster_id=default")
    assert not found("status=offline")
    assert not found("cluster_id=elsewhere")
    wrong = master.call("GET", "/api/v1/nodes?status=happy").expect(422)["errors"]
    assert wrong[0]["field"] == "status"
    assert "draining" in wrong[0]["remedy"]


def test_nodes_come_in_pages_to_those_who_ask_for_them(node: Worker, master: Master) -> None:
    others = [Worker(master) for _ in range(2)]
    whole = master.get("/api/v1/nodes")
    found: list[str] = []
    cursor = ""
    while cursor is not None:
        page = master.get(f"/api/v1/nodes?limit=2{cursor and f'&cursor={cursor}'}")
        assert 1 <= len(page["items"]) <= 2
        found += ids(page)
        cursor = page["next_cursor"]

    assert whole["next_cursor"] is None
    assert found == ids(whole)
    for other in others:
        other.leave()


# Coming


def test_a_new_node_is_given_an_identity_and_a_session(node: Worker, master: Master) -> None:
    view = node.view()

    assert view["status"] == "online"
    assert view["resources"] == {"cpu_cores": 8.0, "memory_mb": 1024.0, "slots": 4.0}
    assert node.id in [each["id"] for each in master.get("/api/v1/nodes")["items"]]
    hidden = master.call("GET", node.path).content.decode()
    assert node.token not in hidden
    assert "token" not in hidden
    assert not [row for row in master.dump()["crawler_nodes"] if node.token in row]


def test_a_node_that_returns_with_its_identity_is_the_same_node(node: Worker) -> None:
    first_session = node.session

    again = node.return_(description="after a restart", resources={"cpu": 4})

    assert again["node_id"] == node.id
    assert "node_token" not in again, "shown once"
    assert again["session_id"] != first_session
    view = node.view()
    assert view["status"] == "online"
    assert view["description"] == "after a restart"
    assert view["resources"]["cpu_cores"] == 4.0
    assert "unresponsive" not in {state for move in node.events() for state in move}


def test_a_node_in_maintenance_that_restarts_stays_in_maintenance(
    node: Worker, master: Master
) -> None:
    node.order("maintenance").expect(200)

    again = node.return_()
    task_id = node.work()

    assert again["initial_status"] == "maintenance"
    assert node.lease(wait_s=0.1) == {}
    assert status(master, task_id) == "pending"


def test_work_of_the_old_session_goes_back_when_the_node_registers_anew(
    node: Worker, master: Master
) -> None:
    task_id = node.work()
    first = node.take()
    node.report(first, "started")

    node.return_()
    second = node.take()

    assert second["task_id"] == task_id
    assert second["token"] == first["token"] + 1
    assert second["execution_id"] != first["execution_id"]
    assert master.task(task_id)["loss_count"] == 1
    executions = master.get(f"/api/v1/tasks/{task_id}/executions")["items"]
    assert [each["status"] for each in executions] == ["lost", "assigned"]
    assert executions[0]["error"]["message"].startswith("its node is gone: ")


def test_an_old_session_is_refused_everywhere(node: Worker, master: Master) -> None:
    task_id = node.work()
    first = node.take()
    old = node.session
    node.return_()
    second = node.take()
    new, node.session = node.session, old

    assert node.lease(wait_s=0) == {"session_lost": True}
    assert node.report(first, "succeeded", data="old") == "stale"
    assert node.report(second, "succeeded", data="new, but under the old session") == "stale"
    beat = node.beat(active_tasks=[task_id])
    assert beat["session_lost"]
    assert beat["lost_tasks"] == [task_id]

    node.session = new
    assert status(master, task_id) == "assigned"
    assert node.report(second, "succeeded", data="new") == "recorded"
    assert master.task(task_id)["result"]["data"] == "new"


# Beating


def test_a_heartbeat_moves_the_deadline_and_shows_usage(node: Worker, master: Master) -> None:
    def deadline() -> float:
        query = f"select deadline from crawler_node_sessions where id = '{node.session}'"
        return float(master.fleet.query(query)[0][0])

    before = deadline()
    capacity = node.view()["resources"]

    reply = node.beat(
        resources={"cpu_usage": 0.5, "memory_usage": 0.25, "network_io": 1000, "disk_io": 5.5},
        load=0.75,
    )

    assert set(reply) == {"node_id", "timestamp", "status"}
    assert reply["status"] == "online"
    assert deadline() > before
    view = node.view()
    assert view["usage"] == {
        "cpu_usage": 0.5,
        "memory_usage": 0.25,
        "gpu_usage": None,
        "network_io": 1000.0,
        "disk_io": 5.5,
        "disk_usage": None,
        "disk_free_mb": None,
    }
    assert view["load"] == 0.75
    assert view["resources"] == capacity
    assert view["last_heartbeat"]


def test_a_node_is_on_the_map_where_its_region_is_known(node: Worker) -> None:
    def location(region: str | None) -> Any:
        node.return_(region=region)
        return node.view()["location"]

    assert location("eu-central-1") == {"latitude": 50.1, "longitude": 8.7}
    assert location("de") == {"latitude": 51.0, "longitude": 10.0}
    assert location("atlantis") is None
    assert location(None) is None


def test_usage_never_takes_away_from_what_can_be_placed(node: Worker) -> None:
    node.beat(resources={"cpu_usage": 1.0, "memory_usage": 1.0}, load=1.0)

    node.work(min_resources={"cpu": 8, "memory_mb": 1024})

    assert node.take()["allocation"]["cpu_cores"] == 8.0


def test_a_heartbeat_names_tasks_that_the_node_does_not_own(node: Worker, master: Master) -> None:
    mine, cancelled = node.work(), node.work()
    held = _all(node, 2)
    master.order(cancelled, "cancel").expect(200)

    reply = node.beat(active_tasks=[mine, cancelled, "task-never-heard-of"])

    assert reply["lost_tasks"] == [cancelled, "task-never-heard-of"]
    (order,) = reply["stop"]
    assert order["task_id"] == cancelled
    assert order["execution_id"] in [each["execution_id"] for each in held]


def test_a_heartbeat_without_a_session_renews_the_newest(node: Worker) -> None:
    reply = node.say("heartbeat", {}).expect(200)

    assert "session_lost" not in reply


def test_a_heartbeat_for_a_session_without_a_name_is_not_taken_for_the_newest(node: Worker) -> None:
    assert node.say("heartbeat", {"session_id": ""}).expect(200)["session_lost"]


# Working


def test_what_a_lost_reply_carried_is_delivered_again(node: Worker) -> None:
    node.work()

    lost, again = node.lease(), node.lease()
    held = node.lease(held=[again["assignments"][0]["execution_id"]], wait_s=0)

    assert again == lost
    assert held == {}


@pytest.mark.parametrize(
    "odd", [{"backlog": -5}, {"backlog": 2**70}, {"wait_s": -1.0}, {"held": ["", "a\0b"]}], ids=str
)
def test_odd_wishes_are_brought_within_bounds(odd: dict[str, Any], node: Worker) -> None:
    assert node.say("lease", {"session_id": node.session, **odd}).expect(200) == {}
    node.work()
    assert len(_all(node, 1)) == 1


def test_waiting_for_work_ends_when_there_is_some(node: Worker) -> None:
    begun = time.monotonic()
    assert node.lease(wait_s=0.2) == {}
    assert time.monotonic() - begun >= 0.15
    task_id = node.work()

    assert node.take()["task_id"] == task_id


def test_reports_may_be_repeated_in_any_number(node: Worker, master: Master) -> None:
    task_id = node.work()
    assignment = node.take()

    started = [node.report(assignment, "started") for _ in range(3)]
    first = node.report(assignment, "succeeded", data={"n": 1})
    recorded = master.task(task_id)
    later = [node.report(assignment, kind) for kind in ("succeeded", "failed", "started")]

    assert started == ["recorded"] * 3
    assert first == "recorded"
    assert set(later) <= {"recorded", "stale"}
    assert master.task(task_id) == recorded
    assert recorded["result"]["data"] == {"n": 1}
    events = master.get(f"/api/v1/tasks/{task_id}/events")["items"]
    assert [each["to_state"] for each in events].count("completed") == 1


def test_one_batch_may_tell_the_whole_life_of_several_attempts(
    node: Worker, master: Master
) -> None:
    tasks = [node.work() for _ in range(3)]
    assignments = {each["task_id"]: each for each in _all(node, 3)}
    names = ("execution_id", "task_id", "token")
    reports = [
        {**{name: assignments[task][name] for name in names}, "kind": kind, "at": 1.0}
        for kind in ("started", "succeeded")
        for task in tasks
    ]

    reply = node.say("report", {"session_id": node.session, "reports": reports}).expect(200)

    assert reply["outcomes"] == ["recorded"] * 6
    assert [status(master, task) for task in tasks] == ["completed"] * 3


def _all(node: Node, number: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < number:
        found = node.lease()["assignments"]
    return found


def test_work_given_back_costs_the_task_nothing(node: Worker, master: Master) -> None:
    task_id = node.work()
    first = node.take()

    assert node.report(first, "released") == "recorded"
    second = node.take()

    assert second["token"] == first["token"] + 1
    assert second.get("attempt", 1) == 1
    assert master.task(task_id)["retry_count"] == 0


def test_a_node_is_given_no_more_than_it_can_hold(node: Worker, master: Master) -> None:
    tasks = [node.work() for _ in range(6)]

    held = _all(node, 4)
    more = node.lease(held=[each["execution_id"] for each in held], wait_s=0.2)

    assert more == {}
    assert sorted(status(master, task) for task in tasks) == ["assigned"] * 4 + ["pending"] * 2
    assert sorted(node.view()["active_tasks"]) == sorted(each["task_id"] for each in held)
    node.report(held[0], "succeeded")
    (next_one,) = node.lease(held=[each["execution_id"] for each in held[1:]])["assignments"]
    assert next_one["task_id"] in tasks


@pytest.mark.parametrize("verb", ["cancel", "pause"])
def test_a_task_withdrawn_while_it_is_being_assigned_leaves_no_attempt_behind(
    verb: str, node: Worker, master: Master
) -> None:
    for _ in range(60):
        master.order(node.work(), verb).expect(200)
        for order in node.lease(wait_s=0).get("stop", ()):
            node.report(order, "stopped")
        left = master.fleet.query(
            "select e.id, e.status, t.status from crawler_task_executions e "
            "join crawler_tasks t on t.id = e.task_id "
            "where e.status in ('assigned', 'running') and t.status in ('cancelled', 'paused')"
        )
        assert left == []


# Being told


def test_a_drained_node_finishes_what_it_has_and_goes_offline(node: Worker, master: Master) -> None:
    running = node.work()
    assignment = node.take()

    assert node.order("drain").expect(200)["status"] == "draining"
    waiting = node.work()
    assert node.lease(held=[assignment["execution_id"]], wait_s=0) == {"draining": True}
    assert node.report(assignment, "succeeded") == "recorded"
    last = node.lease()

    assert last == {"draining": True, "session_lost": True}
    assert status(master, running) == "completed"
    assert status(master, waiting) == "pending"
    assert node.view()["status"] == "offline"


def test_an_empty_node_that_is_drained_is_offline_at_its_next_word(node: Worker) -> None:
    node.order("drain").expect(200)

    assert node.lease()["session_lost"]
    assert node.view()["status"] == "offline"


def test_a_node_in_maintenance_takes_nothing_until_it_is_resumed(
    node: Worker, master: Master
) -> None:
    assert node.order("maintenance").expect(200)["status"] == "maintenance"
    task_id = node.work()
    assert node.lease(wait_s=0.2) == {}
    explained = master.get(f"/api/v1/tasks/{task_id}:explain")["placement"]["details"]
    (mine,) = (each for each in explained if each["node_id"] == node.id)
    (reason,) = mine["reasons"]
    assert reason["message"] == "the node is maintenance"
    assert (reason["filter"], reason["code"]) == ("status", "not_online")

    assert node.order("resume").expect(200)["status"] == "online"

    assert node.take()["task_id"] == task_id


@pytest.mark.parametrize(
    ("verb", "after"),
    [("drain", "draining"), ("maintenance", "maintenance"), ("resume", "online")],
)
def test_an_order_that_is_given_twice_is_carried_out_once(
    verb: str, after: str, node: Worker
) -> None:
    first = node.order(verb).expect(200)
    events = node.events()

    assert node.order(verb).expect(200) == first
    assert first["status"] == after
    assert node.events() == events


def test_a_node_that_leaves_gives_its_work_back_and_may_return(
    node: Worker, master: Master
) -> None:
    task_id = node.work()
    assignment = node.take()

    left = node.say("unregister").expect(200)

    assert left["status"] == "offline"
    assert node.report(assignment, "succeeded") == "stale"
    assert status(master, task_id) == "pending"
    assert node.say("unregister").expect(200)["status"] == "offline"
    node.return_()
    assert node.take()["task_id"] == task_id


# Who may


@pytest.mark.parametrize("verb", ["heartbeat", "lease", "report", "unregister"])
def test_a_node_acts_for_itself_only(verb: str, node: Worker, master: Master) -> None:
    other = Worker(master)
    body = {"session_id": other.session}
    body |= {"reports": []} if verb == "report" else {}

    answer = master.call("POST", f"{other.path}:{verb}", body or None, key=node.token)

    assert (
        answer.expect(403)["detail"]
        == f"only {other.id} itself may do this, with its own node token"
    )
    assert other.view()["status"] == "online"
    other.leave()


def test_a_node_may_not_report_anothers_work(node: Worker, master: Master) -> None:
    other = Worker(master)
    task_id = other.work()
    assignment = other.take()

    assert node.report(assignment, "succeeded") == "stale"
    assert status(master, task_id) == "assigned"
    other.leave()


def test_a_join_key_cannot_take_over_a_node(node: Worker, master: Master) -> None:
    body = {**node.description, "node_id": node.id}

    for key in (master.keys[Role.NODE], master.keys[Role.ADMIN]):
        master.call("POST", "/api/v1/nodes:register", body, key=key).expect(403)

    assert node.beat()["status"] == "online"


# Falling silent


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    """A master that waits one second for a heartbeat."""
    settings = {
        "CRAWLFLEET_SESSION_HEARTBEAT_INTERVAL_S": "0.3",
        "CRAWLFLEET_SESSION_TIMEOUT_S": "1",
    }
    with started(tmp_path_factory.mktemp("api") / "impatient", **settings) as master:
        yield master


def test_a_silent_node_loses_its_work_and_may_come_back_or_be_sent_away(
    impatient: Master,
) -> None:
    node = Worker(impatient)
    task_id = node.work()
    first = node.take()
    deadline = time.monotonic() + 20
    while node.view()["status"] == "online":
        assert time.monotonic() < deadline
        time.sleep(0.1)

    assert node.view()["status"] == "unresponsive"
    assert node.beat(active_tasks=[task_id])["session_lost"]
    assert node.report(first, "succeeded") == "stale"
    assert status(impatient, task_id) == "pending"

    assert node.order("unregister").expect(200)["status"] == "offline"
    assert node.return_()["initial_status"] == "online"
    assert node.take()["token"] == first["token"] + 1
