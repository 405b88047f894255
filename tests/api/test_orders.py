"""Orders about many tasks at once: by ids or a filter, counted, and safe to give again."""

import itertools
from typing import Any, Final

import pytest

from tests.api.plain_http import Master

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api orders")]

TASKS: Final = "/api/v1/tasks"
numbers: Final = itertools.count()


@pytest.fixture
def project() -> str:
    return f"project-{next(numbers)}"


def submit(master: Master, project: str, count: int, **fields: Any) -> list[str]:
    tasks = [{"task_type": "nobodys", "project_id": project, **fields}] * count
    reply = master.post(f"{TASKS}:batch", {"tasks": tasks})
    return [item["id"] for item in reply["items"]]


def order(master: Master, verb: str, **body: Any) -> Any:
    return master.post(f"{TASKS}:{verb}", body)


def states(master: Master, project: str) -> dict[str, int]:
    rows = master.fleet.query(
        f"select status, count(*) from crawler_tasks where project_id = '{project}' group by 1"
    )
    return {str(status): int(count) for status, count in rows}


def test_an_order_is_carried_out_for_ids_and_again_changes_nothing(
    master: Master, project: str
) -> None:
    ids = submit(master, project, 3)

    reply = order(master, "pause", ids=ids)
    again = order(master, "pause", ids=ids)

    assert (reply["changed"], reply["unchanged"], reply["refused"]) == (3, 0, [])
    assert (again["changed"], again["unchanged"], again["refused"]) == (0, 3, [])
    assert states(master, project) == {"paused": 3}


def test_those_that_refuse_are_told_and_do_not_keep_the_others(
    master: Master, project: str
) -> None:
    good, done = submit(master, project, 2)
    master.order(done, "cancel").expect(200)

    reply = order(master, "pause", ids=[good, done, "task-nobody", "\0", good])

    assert (reply["changed"], reply["refused_count"]) == (1, 3)
    assert {each["id"]: each["detail"] for each in reply["refused"]} == {
        done: f"cannot pause {done}: it is cancelled",
        "task-nobody": "there is no task 'task-nobody'",
        "\0": "there is no task '\\x00'",
    }


def test_a_filter_chooses_by_state_and_project(master: Master, project: str) -> None:
    ids = submit(master, project, 4)
    order(master, "pause", ids=ids[:2])

    reply = order(master, "cancel", filter={"status": "paused", "project_id": project})

    assert reply["changed"] == 2
    assert states(master, project) == {"cancelled": 2, "pending": 2}


def test_a_filter_chooses_by_cluster(master: Master, project: str) -> None:
    submit(master, project, 2)

    elsewhere = order(master, "pause", filter={"project_id": project, "cluster_id": "elsewhere"})
    here = order(master, "pause", filter={"project_id": project, "cluster_id": "default"})

    assert (elsewhere["changed"], here["changed"]) == (0, 2)


def test_every_verb_works_on_many(master: Master, project: str) -> None:
    submit(master, project, 3)
    here = {"project_id": project}

    assert order(master, "reprioritise", filter=here, priority=9)["changed"] == 3
    assert order(master, "pause", filter=here)["changed"] == 3
    assert order(master, "resume", filter=here)["changed"] == 3
    assert order(master, "cancel", filter=here)["changed"] == 3
    assert order(master, "retry", filter=here)["changed"] == 3
    tasks = master.get(f"{TASKS}?project_id={project}")["items"]
    assert {(task["status"], task["priority"]) for task in tasks} == {("pending", 9)}


def test_thousands_are_changed_in_few_commits_and_page_by_page(
    master: Master, project: str
) -> None:
    submit(master, project, 3000)

    first = order(master, "cancel", filter={"project_id": project}, limit=2000)
    rest = order(
        master, "cancel", filter={"project_id": project}, limit=2000, cursor=first["next_cursor"]
    )

    assert (first["changed"], rest["changed"], rest["next_cursor"]) == (2000, 1000, None)
    assert states(master, project) == {"cancelled": 3000}


def test_refusals_are_capped_and_counted(master: Master, project: str) -> None:
    submit(master, project, 150)
    order(master, "cancel", filter={"project_id": project})

    reply = order(master, "pause", filter={"project_id": project})

    assert reply["refused_count"] == 150
    assert len(reply["refused"]) == 100


def test_a_dedup_key_that_another_task_has_by_now_is_a_refusal(
    master: Master, project: str
) -> None:
    (earlier,) = submit(master, project, 1, dedup_key="work", dedup_window=0)
    order(master, "cancel", ids=[earlier])
    (later,) = submit(master, project, 1, dedup_key="work")

    reply = order(master, "retry", ids=[earlier])

    assert reply["refused"] == [
        {"id": earlier, "detail": f"cannot retry {earlier}: its dedup_key now belongs to {later}"}
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "ids"),
        ({"ids": []}, "ids"),
        ({"ids": ["task-1"], "filter": {"status": "pending"}}, "ids"),
        ({"ids": ["task-1"] * 10_001}, "ids"),
        ({"ids": [1]}, "ids[0]"),
        ({"filter": {}}, "filter"),
        ({"filter": {"status": "odd"}}, "filter.status"),
        ({"filter": {"state": "pending"}}, "filter.state"),
        ({"filter": {"status": "pending"}, "limit": 0}, "limit"),
        ({"filter": {"status": "pending"}, "limit": 10_001}, "limit"),
        ({"filter": {"status": "pending"}, "cursor": "x"}, "cursor"),
    ],
)
def test_a_request_that_means_nothing_is_refused(
    body: dict[str, Any], field: str, master: Master
) -> None:
    document = master.call("POST", f"{TASKS}:cancel", body).expect(422)

    assert [error["field"] for error in document["errors"]] == [field]


def test_a_priority_out_of_range_is_refused_for_all(master: Master, project: str) -> None:
    (task,) = submit(master, project, 1)

    for body in ({"ids": [task]}, {"ids": [task], "priority": 11}):
        document = master.call("POST", f"{TASKS}:reprioritise", body).expect(422)
        assert document["errors"][0]["field"] == "priority"
