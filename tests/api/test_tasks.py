"""Tasks over HTTP: submitted once or in thousands, found again, ordered about, and explained."""

import itertools
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from tests.api.plain_http import Answer, Master, Node

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api tasks")]

TASKS: Final = "/api/v1/tasks"
BATCH: Final = "/api/v1/tasks:batch"
numbers: Final = itertools.count()


def work(**fields: Any) -> dict[str, Any]:
    """A task that no node takes unless it offers its type."""
    return {"task_type": "nobodys", **fields}


def batch(master: Master, *tasks: Any) -> Any:
    return master.post(BATCH, {"tasks": list(tasks)})


def states(master: Master, *ids: str) -> list[str]:
    return [master.task(id)["status"] for id in ids]


@pytest.fixture
def node(master: Master) -> Iterator[Node]:
    """A node with a task type of its own."""
    node = master.node(task_types=[f"handmade_{next(numbers)}"])
    yield node
    node.leave()


def handmade(node: Node, **fields: Any) -> dict[str, Any]:
    """A task that this node alone takes."""
    return {"task_type": node.description["task_types"][0], **fields}


# Batches


def test_a_batch_answers_each_task_in_order_and_takes_what_it_can(master: Master) -> None:
    reply = batch(
        master,
        work(workflow_id="mixed", priority=1),
        work(priority=99),
        "not a task",
        work(unknown=1),
        work(workflow_id="mixed", priority=2),
    )

    first, too_urgent, no_task, unknown, last = reply["items"]
    assert too_urgent["error"]["errors"][0]["field"] == "priority"
    assert no_task["error"]["errors"][0]["message"] == "is a text, not an object"
    assert unknown["error"]["errors"][0]["field"] == "unknown"
    assert [first["status"], last["status"]] == ["pending", "pending"]
    assert [master.task(item["id"])["priority"] for item in (first, last)] == [1, 2]
    assert len(master.get(f"{TASKS}?workflow_id=mixed")["items"]) == 2


def test_a_batch_counts_what_it_did_not_make_again(master: Master) -> None:
    earlier = master.submit(**work(dedup_key="counted 1"))

    reply = batch(
        master,
        work(dedup_key="counted 1"),
        work(dedup_key="counted 2"),
        work(dedup_key="counted 2"),
        work(),
    )

    old, new, again, plain = reply["items"]
    assert reply["deduplicated"] == 2
    assert old == {"id": earlier, "status": "pending", "deduplicated": True}
    assert again == {"id": new["id"], "status": "pending", "deduplicated": True}
    assert len({earlier, new["id"], plain["id"]}) == 3


def test_a_batch_that_is_sent_again_makes_nothing_new(master: Master) -> None:
    tasks = [work(idempotency_key=f"again {n}", priority=1 + n % 10) for n in range(50)]

    first, second = batch(master, *tasks), batch(master, *tasks)

    assert second == first
    assert first["deduplicated"] == 0


def test_a_key_used_twice_in_a_batch_for_different_work_is_a_conflict_of_that_item(
    master: Master,
) -> None:
    one, other = batch(
        master, work(idempotency_key="twice"), work(idempotency_key="twice", priority=9)
    )["items"]

    assert one["status"] == "pending"
    assert other["error"]["status"] == 409
    assert one["id"] in other["error"]["detail"]


def test_ten_thousand_tasks_are_taken_at_once(master: Master) -> None:
    reply = batch(master, *[work(workflow_id="many", priority=1)] * 10_000)

    assert len({item["id"] for item in reply["items"]}) == 10_000


# The same request, the same work


def test_the_same_request_gives_the_same_task(master: Master) -> None:
    request = work(idempotency_key="same", parameters={"a": 1, "b": [2]}, priority=6)

    first = master.call("POST", TASKS, request)
    second = master.call("POST", TASKS, request)

    assert second.expect(200) == first.expect(201)
    assert second.headers["location"] == first.headers["location"]


def test_the_same_request_written_differently_is_the_same(master: Master) -> None:
    plain = b'{"task_type":"nobodys","idempotency_key":"spelt","parameters":{"a":1,"b":"\xc3\xa9"}}'
    other = b"""
        {"parameters" : {"b": "\\u00e9", "a" : 1}, "priority": 5, "max_retries": 3,
         "idempotency_key": "spelt", "min_resources": {}, "task_type": "nobodys"}
    """

    first = master.call("POST", TASKS, plain).expect(201)

    assert master.call("POST", TASKS, other).expect(200) == first


@pytest.mark.parametrize(
    "other",
    [{"priority": 6}, {"parameters": {"a": 2}}, {"max_retries": 0}, {"dedup_key": "x"}],
    ids=str,
)
def test_another_request_under_the_same_key_is_a_conflict(
    master: Master, other: dict[str, Any]
) -> None:
    key = f"other {other}"
    task_id = master.submit(**work(idempotency_key=key, parameters={"a": 1}))

    answer = master.call(
        "POST", TASKS, work(idempotency_key=key, **{"parameters": {"a": 1}} | other)
    )

    detail = answer.expect(409)["detail"]
    assert repr(key) in detail or key in detail
    assert task_id in detail
    assert "use a new key" in detail


def test_keys_of_one_project_mean_nothing_to_another(master: Master) -> None:
    ids = {
        master.submit(**work(project_id=project, idempotency_key="mine", dedup_key="mine"))
        for project in ("keys-1", "keys-2")
    }

    assert len(ids) == 2


def test_a_key_whose_task_was_removed_says_so(master: Master) -> None:
    task_id = master.submit(**work(idempotency_key="removed"))
    master.order(task_id, "cancel").expect(200)
    with closing(sqlite3.connect(master.fleet.folder / "crawlfleet.db", timeout=10)) as store:
        store.execute("delete from crawler_tasks where id = ?", [task_id])
        store.commit()

    one = master.call("POST", TASKS, work(idempotency_key="removed")).expect(409)
    (item,) = batch(master, work(idempotency_key="removed"))["items"]

    assert "was removed; use a new key" in one["detail"]
    assert item["error"]["detail"] == one["detail"]


def test_work_that_is_under_way_is_not_made_twice(master: Master) -> None:
    first = master.submit(**work(dedup_key="live"))

    second = master.call("POST", TASKS, work(dedup_key="live", priority=9)).expect(200)

    assert second["id"] == first
    assert second["deduplicated"] == 1
    assert second["priority"] == 5, "the one that there is, as it is"


def test_work_that_was_just_done_is_not_made_again_until_its_window_has_passed(
    master: Master,
) -> None:
    first = master.submit(**work(dedup_key="recent", dedup_window=1.0))
    master.order(first, "cancel").expect(200)

    soon = master.call("POST", TASKS, work(dedup_key="recent", dedup_window=1.0)).expect(200)
    time.sleep(1.1)
    later = master.call("POST", TASKS, work(dedup_key="recent")).expect(201)

    assert soon["id"] == first
    assert soon["status"] == "cancelled"
    assert later["id"] != first


# Finding


def test_pages_hold_every_task_once_newest_first(master: Master) -> None:
    made = batch(master, *[work(project_id="paged") for _ in range(260)])["items"]
    found: list[str] = []
    sizes = []
    cursor = ""
    while cursor is not None:
        page = master.get(f"{TASKS}?project_id=paged&limit=100{cursor and f'&cursor={cursor}'}")
        sizes.append(len(page["items"]))
        found += [task["id"] for task in page["items"]]
        cursor = page["next_cursor"]

    assert sizes == [100, 100, 60]
    assert found == sorted((item["id"] for item in made), reverse=True)


def test_a_page_that_is_just_full_is_the_last(master: Master) -> None:
    batch(master, *[work(project_id="full") for _ in range(3)])

    page = master.get(f"{TASKS}?project_id=full&limit=3")

    assert len(page["items"]) == 3
    assert page["next_cursor"] is None


def test_tasks_made_between_two_pages_do_not_disturb_them(master: Master) -> None:
    batch(master, *[work(project_id="moving") for _ in range(4)])
    first = master.get(f"{TASKS}?project_id=moving&limit=2")
    batch(master, *[work(project_id="moving") for _ in range(4)])

    second = master.get(f"{TASKS}?project_id=moving&limit=2&cursor={first['next_cursor']}")

    ids = [task["id"] for task in first["items"] + second["items"]]
    assert len(set(ids)) == 4
    assert second["next_cursor"] is None


def test_filters_narrow_a_list_and_combine(master: Master, node: Node) -> None:
    one, two, three = (
        item["id"]
        for item in batch(
            master,
            work(project_id="filtered", workflow_id="w1"),
            work(project_id="filtered", workflow_id="w2"),
            handmade(node, project_id="filtered", workflow_id="w2"),
        )["items"]
    )
    master.order(one, "pause").expect(200)
    assignment = node.take()

    def found(query: str) -> set[str]:
        page = master.get(f"{TASKS}?project_id=filtered&{query}")
        return {task["id"] for task in page["items"]}

    assert found("status=paused") == {one}
    assert found("status=paused,assigned") == {one, three}
    assert found("workflow_id=w2") == {two, three}
    assert found(f"workflow_id=w2&task_type={node.description['task_types'][0]}") == {three}
    assert found(f"assigned_node={node.id}") == {three}
    assert found("cluster_id=default") == {one, two, three}
    assert found("cluster_id=elsewhere") == set()
    assert found("dead=false") == {one, two, three}
    assert found("dead=true") == set()
    assert found("status=completed") == set()
    assert assignment["task_id"] == three


def test_a_brief_list_leaves_out_what_is_long(master: Master, node: Node) -> None:
    long, short = (
        item["id"]
        for item in batch(
            master,
            handmade(node, project_id="brief", parameters={"note": "x" * 3000}),
            handmade(node, project_id="brief", parameters={"note": "y"}),
        )["items"]
    )
    node.report(node.lease()["assignments"][0], "succeeded", data={"pages": 1})

    whole = master.get(f"{TASKS}?project_id=brief")["items"]
    brief = master.get(f"{TASKS}?project_id=brief&brief=true")["items"]

    assert {task["id"]: task["parameters"] for task in brief} == {short: {"note": "y"}, long: None}
    assert all(task["parameters"] for task in whole)
    assert any("result" in task for task in whole)
    assert not any("result" in task for task in brief)


# Waiting


def test_waiting_for_a_task_ends_with_the_task(master: Master, node: Node) -> None:
    task_id = master.submit(**handmade(node))
    assignment = node.take()
    # The waiting is on a connection of its own: this one goes on meanwhile.
    answers: list[Answer] = []
    request = f"GET {TASKS}/{task_id}?wait=20 HTTP/1.1\r\nHost: x\r\n"
    request += f"Authorization: Bearer {master.fleet.key}\r\n\r\n"
    waiting = threading.Thread(target=lambda: answers.append(master.send(request.encode())))
    waiting.start()
    time.sleep(0.2)
    assert not answers

    node.report(assignment, "succeeded", data={"pages": 1})
    waiting.join(10)

    assert answers[0].expect(200)["status"] == "completed"


def test_waiting_for_a_task_that_goes_on_ends_in_time(master: Master) -> None:
    task_id = master.submit(**work())
    begun = time.monotonic()

    task = master.get(f"{TASKS}/{task_id}?wait=0.3")

    assert task["status"] == "pending"
    assert 0.25 < time.monotonic() - begun < 25


# Orders


@pytest.mark.parametrize(
    ("before", "verb", "after"),
    [
        ([], "cancel", "cancelled"),
        (["pause"], "cancel", "cancelled"),
        ([], "pause", "paused"),
        (["pause"], "resume", "pending"),
        (["cancel"], "retry", "pending"),
    ],
)
def test_an_order_that_is_given_twice_is_carried_out_once(
    before: list[str], verb: str, after: str, master: Master
) -> None:
    task_id = master.submit(**work())
    for each in before:
        master.order(task_id, each).expect(200)

    first = master.order(task_id, verb).expect(200)
    events = master.get(f"{TASKS}/{task_id}/events")
    second = master.order(task_id, verb).expect(200)

    assert first["status"] == after
    assert second == first
    assert master.get(f"{TASKS}/{task_id}/events") == events


def test_a_running_task_is_cancelled_at_once_and_its_node_told(master: Master, node: Node) -> None:
    task_id = master.submit(**handmade(node))
    assignment = node.take()
    node.report(assignment, "started")

    cancelled = master.order(task_id, "cancel").expect(200)

    assert cancelled["status"] == "cancelled"
    assert cancelled["completed_at"]
    (order,) = node.lease(held=[assignment["execution_id"]])["stop"]
    assert order["execution_id"] == assignment["execution_id"]
    assert node.report(assignment, "stopped") == "recorded"
    assert node.lease(wait_s=0) == {}
    assert states(master, task_id) == ["cancelled"]


def test_a_running_task_that_is_paused_and_resumed_is_given_out_again(
    master: Master, node: Node
) -> None:
    task_id = master.submit(**handmade(node))
    first = node.take()
    master.order(task_id, "pause").expect(200)
    node.report(first, "stopped")

    master.order(task_id, "resume").expect(200)
    second = node.take()

    assert second["task_id"] == task_id
    assert second["token"] == first["token"] + 1
    assert node.report(second, "succeeded") == "recorded"
    assert master.task(task_id)["retry_count"] == 0


def test_the_priority_of_a_waiting_task_decides_who_goes_first(master: Master) -> None:
    early, late = (master.submit(task_type="urgent", priority=5) for _ in range(2))

    raised = master.order(late, "reprioritise", {"priority": 9}).expect(200)
    again = master.order(late, "reprioritise", {"priority": 9}).expect(200)

    assert raised["priority"] == 9
    assert again == raised
    node = master.node(task_types=["urgent"], resources={"slots": 1})
    for expected in (late, early):
        assignment = node.take()
        assert assignment["task_id"] == expected
        node.report(assignment, "succeeded")
    node.leave()
    event = master.get(f"{TASKS}/{late}/events")["items"][1]
    assert event["kind"] == "task.reprioritised"
    assert event["details"] == {"from": 5, "to": 9}


def test_a_clone_is_a_new_task_with_what_was_asked_anew(master: Master) -> None:
    task_id = master.submit(
        **work(
            parameters={"url": "a"},
            priority=3,
            capabilities={"js": 1},
            timeout=7.5,
            retry_policy={"factor": 3.0},
            idempotency_key="cloned",
            dedup_key="cloned",
            workflow_id="w",
        )
    )

    answer = master.order(task_id, "clone", {"parameters": {"url": "b"}, "priority": 8})

    clone = master.task(answer.expect(201)["id"])
    assert answer.headers["location"] == f"{TASKS}/{clone['id']}"
    assert clone["id"] != task_id
    assert clone["parameters"] == {"url": "b"}
    assert clone["priority"] == 8
    original = master.task(task_id)
    same = ("task_type", "project_id", "capabilities", "timeout", "retry_policy", "workflow_id")
    assert {name: clone[name] for name in same} == {name: original[name] for name in same}
    assert "dedup_key" not in clone
    assert "idempotency_key" not in clone
    plain = master.order(task_id, "clone").expect(201)
    assert master.task(plain["id"])["parameters"] == {"url": "a"}


# What happened


def test_events_and_executions_tell_the_whole_story(master: Master, node: Node) -> None:
    task_id = master.submit(**handmade(node, max_retries=1, retry_policy={"initial_delay_s": 0.0}))
    first = node.take()
    node.report(first, "started")
    trouble = {"error_class": "network", "message": "no route"}
    node.report(first, "failed", error=trouble, metrics={"pages": 2})
    second = node.take()
    node.report(second, "succeeded", data=[1, 2])

    events = master.get(f"{TASKS}/{task_id}/events")["items"]
    executions = master.get(f"{TASKS}/{task_id}/executions")["items"]

    moves = [(event.get("from_state"), event["to_state"]) for event in events]
    assert moves == [
        (None, "pending"),
        ("pending", "assigned"),
        ("assigned", "processing"),
        ("processing", "pending"),
        ("pending", "assigned"),
        ("assigned", "completed"),
    ]
    assert all(event["cause"] and event["subject"] == task_id for event in events)
    assert events[0]["cause"] == "submitted by admin"
    assert "no route" in events[3]["cause"]
    assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)
    assert [each["token"] for each in executions] == [1, 2]
    assert [each["status"] for each in executions] == ["failed", "completed"]
    assert executions[0]["error"] == trouble
    assert executions[0]["metrics"] == {"pages": 2}
    assert {each["node_id"] for each in executions} == {node.id}


def test_events_come_in_pages(master: Master) -> None:
    task_id = master.submit(**work())
    for verb in ("pause", "resume", "pause", "resume"):
        master.order(task_id, verb).expect(200)

    first = master.get(f"{TASKS}/{task_id}/events?limit=3")
    second = master.get(f"{TASKS}/{task_id}/events?limit=3&after={first['next_cursor']}")

    assert [event["to_state"] for event in first["items"]] == ["pending", "paused", "pending"]
    assert [event["to_state"] for event in second["items"]] == ["paused", "pending"]
    assert second["next_cursor"] is None


def test_a_page_of_events_that_is_just_full_is_the_last(master: Master) -> None:
    task_id = master.submit(**work())

    page = master.get(f"{TASKS}/{task_id}/events?limit=1")

    assert len(page["items"]) == 1
    assert page["next_cursor"] is None


# Dead letters


def test_a_task_that_keeps_failing_ends_among_the_dead_letters_and_can_be_sent_back(
    master: Master, node: Node
) -> None:
    policy = {"initial_delay_s": 0.0, "max_delay_s": 0.0}
    task_id = master.submit(
        **handmade(node, max_retries=2, retry_policy=policy, project_id="dead", dedup_key="dead")
    )
    for _ in range(3):
        error = {"error_class": "error", "message": "it broke"}
        assignment = node.take()
        node.report(assignment, "started")
        assert node.report(assignment, "failed", error=error) == "recorded"

    (dead,) = master.get(f"{TASKS}?dead=true&project_id=dead")["items"]

    assert dead["id"] == task_id
    assert dead["status"] == "failed"
    assert dead["retry_count"] == 2
    assert dead["dead_reason"] == "failed 3 times (max_retries 2)"
    assert dead["error"]["message"] == "it broke"
    assert dead["result"]["success"] is False
    assert dead["result"]["error"] == "it broke"

    retried = master.order(task_id, "retry").expect(200)

    assert retried["status"] == "pending"
    assert retried["retry_count"] == 0
    gone = {"dead_reason", "error", "result", "completed_at", "assigned_at", "started_at"}
    assert not gone & set(retried)
    assert master.get(f"{TASKS}?dead=true&project_id=dead")["items"] == []
    assert node.report(node.take(), "succeeded") == "recorded"
    assert states(master, task_id) == ["completed"]


def test_an_error_that_cannot_pass_is_not_tried_again(master: Master, node: Node) -> None:
    task_id = master.submit(**handmade(node, max_retries=9))

    node.report(node.take(), "failed", error={"error_class": "invalid", "message": "no such page"})

    task = master.task(task_id)
    assert task["status"] == "failed"
    assert task["dead_reason"] == "errors of class invalid are not retried"


def test_a_retry_whose_key_now_belongs_to_another_is_a_conflict(master: Master) -> None:
    first = master.submit(**work(dedup_key="moved on", dedup_window=0))
    master.order(first, "cancel").expect(200)
    second = master.submit(**work(dedup_key="moved on"))

    detail = master.order(first, "retry").expect(409)["detail"]

    assert second in detail
    assert states(master, first, second) == ["cancelled", "pending"]


# Explained


def test_explain_has_words_for_every_state(master: Master, node: Node) -> None:
    def summary(task_id: str) -> str:
        return str(master.get(f"{TASKS}/{task_id}:explain")["summary"])

    waiting = master.submit(**work(capabilities={"magic": 3}))
    verdicts = master.get(f"{TASKS}/{waiting}:explain")["placement"]["details"]
    (mine,) = (each for each in verdicts if each["node_id"] == node.id)
    assert [(each["filter"], each["message"]) for each in mine["reasons"]] == [
        ("task_type", "the node has no executor for 'nobodys'"),
        ("capabilities", "magic: needs at least 3, the node has none"),
    ]

    master.order(waiting, "pause").expect(200)
    assert summary(waiting) == "paused; `resume` puts it back into the queue"
    master.order(waiting, "cancel").expect(200)
    assert summary(waiting) == "ended as cancelled"

    policy = {"initial_delay_s": 60.0, "jitter": 0.0}
    delayed = master.submit(**handmade(node, retry_policy=policy))
    assignment = node.take()
    assert summary(delayed) == f"assigned on {node.id}, attempt 1"
    node.report(assignment, "started")
    assert summary(delayed) == f"processing on {node.id}, attempt 1"
    node.report(assignment, "failed", error={"error_class": "network", "message": "no route"})
    assert re.fullmatch(
        r"waits (5\d|60)\.\d s before retry 1 of 3 after: no route", summary(delayed)
    )
    master.order(delayed, "cancel").expect(200)

    dead = master.submit(**handmade(node, max_retries=0))
    node.report(node.take(), "failed", error={"error_class": "error", "message": "it broke"})
    assert summary(dead) == "ended as failed: failed 1 times (max_retries 0) (it broke)"


def test_explain_says_that_a_full_node_will_take_it_later(master: Master) -> None:
    small = master.node(task_types=["small"], resources={"slots": 1})
    first, second = (master.submit(task_type="small") for _ in range(2))
    assert small.take()["task_id"] == first

    details = master.get(f"{TASKS}/{second}:explain")["placement"]["details"]

    (mine,) = (each for each in details if each["node_id"] == small.id)
    (reason,) = mine["reasons"]
    assert reason["message"] == "slots: needs 1, 0 of 1 is free"
    assert (reason["code"], reason["values"]["free"]) == ("taken", 0.0)
    small.leave()
