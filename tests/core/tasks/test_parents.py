"""A parent is what its shards come to, and orders about either keep both in step."""

from typing import Any

import msgspec
import pytest

from crawlfleet.core.tasks import merge, parents
from crawlfleet.core.tasks.admission import admit
from crawlfleet.core.tasks.orders import TaskOrder, Verb
from crawlfleet.model.change import NEVER, Change
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.task import (
    TERMINAL,
    ErrorClass,
    RetryPolicy,
    Shard,
    Task,
    TaskError,
    TaskStatus,
)

PARTS = [msgspec.Raw(b'{"n":%d}' % number) for number in range(3)]


def made(**fields: Any) -> Change:
    request = TaskRequest(**{"task_type": "work", **fields})
    whole = admit(request, id="task-p", now=1.0, cause="submitted by ann", digest=lambda _: "d")
    return parents.split(whole, PARTS, ["task-a", "task-b", "task-c"])


def family(*states: str, task_type: str = "work", **fields: Any) -> tuple[Task, list[Task]]:
    parent, *children = made(task_type=task_type, **fields).tasks
    return parent, [ended(child, state) for child, state in zip(children, states, strict=True)]


def ended(child: Task, state: str, data: Any = None, **metrics: float) -> Task:
    status = TaskStatus(state)
    success = status is TaskStatus.COMPLETED
    data = {"shard": child.shard} if data is None else data
    result = {"success": success, "data": data if success else None, "metrics": metrics}
    failed = status in {TaskStatus.FAILED, TaskStatus.TIMEOUT}
    return msgspec.structs.replace(
        child,
        status=status,
        version=child.version + 1,
        completed_at=5.0 if status in TERMINAL else None,
        started_at=2.0 + (child.shard or 0),
        result=msgspec.Raw(msgspec.json.encode(result)) if success or failed else None,
        error=TaskError(error_class=ErrorClass.NETWORK, message="no route") if failed else None,
        dead_reason="given up" if failed else None,
    )


def gathered(parent: Task, children: list[Task]) -> Task | None:
    gathering = parents.Gathering(parent)
    for child in reversed(children):
        gathering.take(child)
    change = gathering.end(now=9.0)
    return None if change is None else change.tasks[0]


def result_of(task: Task) -> dict[str, Any]:
    assert task.result is not None
    return msgspec.json.decode(task.result)


def test_parent_and_shards_are_made_in_one_change() -> None:
    change = made(
        priority=8,
        project_id="shop",
        cluster_id="berlin",
        max_retries=1,
        retry_policy=RetryPolicy(jitter=0.0),
        timeout=4.0,
        capabilities={"javascript": True},
        categories=("news",),
        workflow_id="w",
        idempotency_key="once",
        dedup_key="same",
    )
    parent, *children = change.tasks
    assert (parent.status, parent.shards, parent.is_parent) == (TaskStatus.WAITING, 3, True)
    assert [child.parameters for child in children] == PARTS
    for number, child in enumerate(children):
        assert (child.parent_id, child.shard, child.shards) == ("task-p", number, 3)
        assert child.status is TaskStatus.PENDING
        assert not child.is_parent
        assert child.idempotency_key is None
        assert child.dedup_key is None
        inherited = ("priority", "project_id", "cluster_id", "max_retries", "retry_policy")
        inherited += ("timeout_s", "capabilities", "categories", "workflow_id", "created_at")
        assert [getattr(child, name) for name in inherited] == [
            getattr(parent, name) for name in inherited
        ]
    assert {claim.holder for claim in change.claims} == {"task-p"}
    assert len(change.claims) == 2
    assert [(event.subject, event.to_state) for event in change.events] == [
        ("task-p", "waiting"),
        *((id, "pending") for id in ("task-a", "task-b", "task-c")),
    ]
    assert change.events[2].details == {"parent_id": "task-p", "shard": 1}


def test_a_parent_waits_for_its_last_shard() -> None:
    for last in ("pending", "assigned", "processing", "paused"):
        assert gathered(*family("completed", "failed", last)) is None


@pytest.mark.parametrize(
    ("states", "end"),
    [
        (("completed", "completed", "completed"), "completed"),
        (("completed", "failed", "completed"), "failed"),
        (("completed", "timeout", "cancelled"), "failed"),
        (("completed", "cancelled", "completed"), "cancelled"),
        (("cancelled", "cancelled", "cancelled"), "cancelled"),
    ],
)
def test_the_end_of_a_parent_follows_from_those_of_its_shards(
    states: tuple[str, ...], end: str
) -> None:
    parent, children = family(*states)
    done = gathered(parent, children)
    assert done is not None
    assert (str(done.status), done.version, done.completed_at) == (end, 2, 9.0)
    assert done.started_at == 2.0
    assert done.dead_reason is None
    data = [{"shard": n} if state == "completed" else None for n, state in enumerate(states)]
    wanted = data if "completed" in states else None
    assert result_of(done).get("data") == wanted
    assert result_of(done)["success"] is (end == "completed")


def test_a_failed_parent_says_which_shards_failed_and_why() -> None:
    done = gathered(*family("failed", "completed", "timeout"))
    assert done is not None
    assert done.error is not None
    assert done.error.error_class is ErrorClass.NETWORK
    assert done.error.message == (
        "2 of 3 shards did not complete: shard 0 (task-a): no route; shard 2 (task-c): no route"
    )
    assert result_of(done)["error"] == done.error.message


def test_shards_that_are_gone_are_no_success() -> None:
    parent, children = family("completed", "completed", "completed")
    done = gathered(parent, children[:2])
    assert done is not None
    assert done.status is TaskStatus.FAILED
    assert "1 were removed" in str(done.error)


def test_an_ended_parent_ends_no_second_time() -> None:
    parent, children = family("completed", "completed", "completed")
    done = gathered(parent, children)
    assert done is not None
    assert gathered(done, children) is None


def test_the_dedup_key_lasts_as_long_as_for_any_task() -> None:
    parent, children = family(
        "completed", "completed", "completed", dedup_key="same", dedup_window=60.0
    )
    gathering = parents.Gathering(parent)
    for child in children:
        gathering.take(child)
    change = gathering.end(now=9.0)
    assert change is not None
    (claim,) = change.claims
    assert (claim.holder, claim.expires_at) == ("task-p", 69.0)


def merged(task_type: str, *data: Any, **metrics: float) -> dict[str, Any]:
    parent, children = family("completed", "completed", "completed", task_type=task_type)
    done = gathered(
        parent,
        [
            ended(each, "completed", one, **metrics)
            for each, one in zip(children, data, strict=True)
        ],
    )
    assert done is not None
    return result_of(done)


def test_counts_items_and_errors_of_fetches_add_up() -> None:
    def part(n: int) -> dict[str, Any]:
        pages = [{"url": f"u{n}", "status": 200}]
        return {"urls": 2, "fetched": 1, "failed": 1, "pages": pages, "errors": [{"url": f"e{n}"}]}

    result = merged("http_fetch", part(0), part(1), part(2), urls=2, data_size=10)
    assert result["data"] == {
        "urls": 6,
        "fetched": 3,
        "failed": 3,
        "pages": [{"url": f"u{n}", "status": 200} for n in range(3)],
        "errors": [{"url": f"e{n}"} for n in range(3)],
    }
    assert result["metrics"] == {"urls": 6, "data_size": 30}


def test_items_of_crawls_are_put_together_by_kind() -> None:
    result = merged("web_crawl", {"products": [1]}, {"products": [2, 3], "shops": [4]}, {})
    assert result["data"] == {"products": [1, 2, 3], "shops": [4]}


def test_output_that_is_kept_elsewhere_is_the_parents() -> None:
    elsewhere = {"items": 5, "output": "/api/v1/crawls/task-a/output"}
    result = merged("web_crawl", elsewhere, {"products": [1]}, {}, items=4)
    assert result["data"] == {"items": 12, "output": "/api/v1/crawls/task-p/output"}


def test_the_workers_of_a_spider_are_one_spider() -> None:
    def part(n: int, reason: str = "finished") -> dict[str, Any]:
        stats = {"requests": n, "depth_max": n, "start_time": f"0{n}", "finish_time": f"1{n}"}
        return {"spider": "quotes", "finish_reason": reason, "items": n, "stats": stats}

    result = merged("scrapy_spider", part(1), part(2), part(3), items=2)
    assert result["data"] == {
        "spider": "quotes",
        "finish_reason": "finished",
        "items": 6,
        "output": "/api/v1/crawls/task-p/output",
        "stats": {"requests": 6, "depth_max": 3, "start_time": "01", "finish_time": "13"},
    }
    reasons = merged("scrapy_spider", part(1), part(2, "shutdown"), part(3))["data"]
    assert reasons["finish_reason"] == ["finished", "shutdown", "finished"]
    strange = {"stats": {"depth_max": [1], "start_time": None}, "items": "many"}
    merged("scrapy_spider", 7, strange, {**part(1), "stats": "none"})


@pytest.mark.parametrize("task_type", ["http_fetch", "web_crawl", "work"])
def test_a_result_that_would_be_too_large_names_where_the_rest_is(task_type: str) -> None:
    large = {"pages": ["x" * 400_000], "urls": 1}
    result = merged(task_type, large, large, large, urls=1, items=2)
    assert len(msgspec.json.encode(result)) < 1000
    if task_type == "web_crawl":
        assert result["data"] == {"items": 6, "output": "/api/v1/crawls/task-p/output"}
    else:
        assert result["data"] == {"urls": 3, "shards": ["task-a", "task-b", "task-c"]}


def test_data_that_is_nested_without_end_hurts_nobody() -> None:
    deep: Any = 1
    for _ in range(800):
        deep = {"a": deep}
    assert "shards" in merged("http_fetch", deep, deep, deep)["data"]


@pytest.mark.parametrize("depth", [500, 2_000, 100_000])
def test_a_result_that_nobody_can_read_harms_nothing_but_itself(depth: int) -> None:
    parent, children = family("completed", "completed", "completed", task_type="http_fetch")
    deep = b'{"success":true,"data":%b%b,"metrics":{"urls":2}}' % (b"[" * depth, b"]" * depth)
    children[1] = msgspec.structs.replace(children[1], result=msgspec.Raw(deep))
    done = gathered(parent, children)
    assert done is not None
    assert done.status is TaskStatus.COMPLETED
    assert result_of(done)["success"]
    if depth > 1000:
        assert "task-b" in result_of(done)["data"]["shards"]


def test_what_does_not_add_up_is_told_one_by_one() -> None:
    assert merge.add_up([{"a": 1, "b": "x"}, {"a": 2.5, "b": "x"}]) == {"a": 3.5, "b": "x"}
    assert merge.add_up([True, False]) == [True, False]
    assert merge.add_up(["x", 1]) == ["x", 1]
    assert merge.add_up([None, None]) is None


def order(verb: Verb, **fields: Any) -> TaskOrder:
    return TaskOrder(verb=verb, by="ann", **fields)


def followed(verb: Verb, parent: Task, children: list[Task], **fields: Any) -> dict[str, str]:
    change = parents.follow_parent(order(verb, **fields), parent, children, {}, now=7.0)
    return {} if change is None else {task.id: str(task.status) for task in change.tasks}


def test_cancelling_a_parent_cancels_what_has_not_ended() -> None:
    assert followed(Verb.CANCEL, *family("completed", "pending", "paused")) == {
        "task-p": "cancelled",
        "task-b": "cancelled",
        "task-c": "cancelled",
    }


def test_a_parent_is_paused_and_resumed_with_its_shards() -> None:
    parent, children = family("completed", "pending", "paused")
    assert followed(Verb.PAUSE, parent, children) == {"task-p": "paused", "task-b": "paused"}
    paused = msgspec.structs.replace(parent, status=TaskStatus.PAUSED)
    assert followed(Verb.RESUME, paused, children) == {"task-p": "waiting", "task-c": "pending"}
    assert followed(Verb.PAUSE, *family("completed", "failed", "completed")) == {}
    assert followed(Verb.RESUME, parent, children) == {}


def test_retrying_a_parent_retries_what_did_not_complete() -> None:
    parent, children = family("completed", "failed", "cancelled", dedup_key="same")
    failed = gathered(parent, children)
    assert failed is not None
    change = parents.follow_parent(order(Verb.RETRY), failed, children, {}, now=10.0)
    assert change is not None
    again = {task.id: task for task in change.tasks}
    assert {id: str(task.status) for id, task in again.items()} == {
        "task-p": "waiting",
        "task-b": "pending",
        "task-c": "pending",
    }
    assert again["task-p"].result is None
    assert again["task-b"].dead_reason is None
    assert [(each.holder, each.expires_at) for each in change.claims] == [("task-p", NEVER)]


def test_a_new_priority_is_that_of_the_shards_too() -> None:
    parent, children = family("completed", "pending", "processing")
    change = parents.follow_parent(
        order(Verb.REPRIORITISE, priority=9), parent, children, {}, now=7.0
    )
    assert change is not None
    assert {task.id: task.priority for task in change.tasks} == {"task-p": 9, "task-b": 9}


def test_a_parent_is_no_dead_letter() -> None:
    parent, children = family("failed", "failed", "failed")
    failed = gathered(parent, children)
    assert failed is not None
    for verb in (Verb.REQUEUE, Verb.DISCARD):
        assert followed(verb, failed, children) == {}


@pytest.mark.parametrize("verb", [Verb.RETRY, Verb.REQUEUE])
def test_a_shard_that_is_retried_reopens_its_parent(verb: Verb) -> None:
    parent, children = family("completed", "failed", "completed")
    failed = gathered(parent, children)
    assert failed is not None
    own = Change(tasks=(children[1],))
    change = parents.with_parent(order(verb), own, children[1], failed, now=10.0)
    assert [str(task.status) for task in change.tasks] == ["failed", "waiting"]
    (event,) = change.events
    assert (event.subject, event.cause) == ("task-p", "retried by ann: shard 1")


def test_a_shard_that_is_retried_before_its_parent_ended_fences_whoever_gathers() -> None:
    parent, children = family("completed", "failed", "completed")
    change = parents.with_parent(
        order(Verb.RETRY), Change(tasks=(children[1],)), children[1], parent, now=10.0
    )
    assert [task.version for task in change.tasks] == [2, 2]
    assert change.tasks[1].status is TaskStatus.WAITING
    assert not change.events


def test_other_orders_about_shards_are_theirs_alone() -> None:
    parent, children = family("pending", "paused", "completed")
    own = Change(tasks=(children[0],))
    for verb, child in ((Verb.CANCEL, children[0]), (Verb.RESUME, children[1])):
        assert parents.with_parent(order(verb), own, child, parent, now=1.0) is own


def test_what_a_parent_waits_for_is_told_in_words() -> None:
    _, children = family("completed", "pending", "processing")
    states = [Shard(id=each.id, shard=each.shard or 0, status=each.status) for each in children]
    assert parents.waits_for(states) == (
        "waits for 2 of its 3 shards: 1 completed, 1 processing, 1 pending"
    )
