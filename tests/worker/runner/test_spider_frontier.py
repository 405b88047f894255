"""What a spider's process says to the frontier at the master, answer by answer."""

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from crawlfleet.worker.runner.crawlfleet_runner.frontier import IN_JSON, Frontier
from crawlfleet.worker.runner.crawlfleet_runner.leased_request import Page
from crawlfleet.worker.runner.crawlfleet_runner.protocol import Failed

HOST = "https://shop.example"
Answer = Callable[[dict[str, Any]], Any]


class Master:
    """Stands at the other end of the said."""

    execution_id = "exec-2"
    task_id = "task-1"

    def __init__(self, *answers: Answer, is_part: bool = False) -> None:
        self.is_part = is_part
        self.answers = [*answers]
        self.asked: list[Any] = []
        self.segments: list[dict[str, Any]] = []
        self.items: list[bytes] = []
        self.refusal = ""
        self.frontier = Frontier(self, ("frontier", "output"))  # type: ignore[arg-type]

    def call(self, service: str, payload: Any = None, data: bytes = b"") -> dict[str, Any]:
        if service == "output":
            self.segments.append(payload["segment"])
            if data:
                self.items.append(zlib.decompress(data))
            return {"refusal": self.refusal}
        assert service == "frontier"
        talk = json.loads(data[1:])
        self.asked.append(talk)
        told = IN_JSON + json.dumps(self.answers.pop(0)(talk)).encode()
        return {"data": base64.b64encode(told).decode(), "refusal": ""}


def told(*answers: Any, life: int = 1, waiting: int = 0) -> Answer:
    counts = {"waiting": waiting, "leased": 0}
    return lambda _: {"life": life, "counts": counts, "answers": [*answers]}


def forgotten(life: int, step: int = 0) -> Answer:
    return lambda _: {"life": life, "counts": {"waiting": 0}, "step": step, "answers": None}


def lease(token: int, *ids: int) -> list[Any]:
    urls = [[id, f"{id}", 0, 1, 0, None] for id in ids]
    return [{"host": HOST, "token": token, "urls": urls, "state": {}}]


def answered(*pages: Page) -> None:
    for page in pages:
        page.status = 200


def test_items_are_durable_before_the_step_that_counts_them() -> None:
    master = Master(told({}), told(1), told(lease(7, 1, 2)), told([]), told(None), told({}))
    frontier = master.frontier
    frontier.open()
    frontier.add([[1, "1", HOST, 0]])
    (first, _), (second, _) = frontier.lease(5, 10)
    first.lines.append(frontier.items.line(["a"], '{"a": 1}'))
    first.links[3] = [3, "3", HOST, 0]
    second.lines.append(frontier.items.line(["a"], '{"a": 2}'))
    answered(first)
    frontier.commit([first])
    (step,) = master.asked[-1]["asks"]
    (host,) = step["commit"]["hosts"]
    assert (host["token"], host["release"], host["visits"][0][4]) == (7, False, [[3, "3", HOST, 0]])
    run = {"execution_id": "exec-2", "last": 1, "items": 1}
    notes = {"items": 1, "pages": 1, "urls": 1, "task_id": "task-1"}
    assert step["commit"]["receipts"] == {
        "fleet:items@exec-2": {"runs": [run]},
        "*crawl@exec-2": notes,
    }
    frontier.close()
    assert master.items == [b'["items",{"a": 1}]\n'], "what is not done is not there"
    assert [(each["sequence"], each["counted"]) for each in master.segments] == [(1, 0), (2, 1)]
    assert master.segments[0]["shared"]
    assert (frontier.items.count, frontier.items.pages) == (1, 1)


def test_what_several_pages_of_a_step_led_to_is_said_once_and_never_lost() -> None:
    other = "https://other.example"
    leases = [*lease(7, 1, 2), {**lease(9, 5)[0], "host": other}]
    master = Master(told(leases), told([HOST]), told([]))
    pages = [page for page, _ in master.frontier.lease(5, 10)]
    for page in pages:
        page.links[3] = [3, "3", HOST, 0]
    master.frontier.commit(pages)
    refused, made = (each["asks"][0]["commit"]["hosts"] for each in master.asked[1:])
    assert [visit[4] for part in refused for visit in part["visits"]] == [
        [[3, "3", HOST, 0]],
        [],
        [],
    ]
    assert [visit[4] for part in made for visit in part["visits"]] == [[[3, "3", HOST, 0]]]


def test_a_step_that_is_refused_is_made_without_what_is_not_ours_any_more() -> None:
    other = "https://other.example"
    leases = [*lease(7, 1), {**lease(9, 5)[0], "host": other}]
    master = Master(told(leases), told([HOST]), told([]))
    frontier = master.frontier
    pages = [page for page, _ in frontier.lease(5, 10)]
    for page in pages:
        page.lines.append(frontier.items.line(["id"], f'{{"id": {page.id}}}'))
    assert frontier.commit(pages) == pages[:1]
    assert [each["host"] for each in master.asked[-1]["asks"][0]["commit"]["hosts"]] == [other]
    last = master.segments[-1]
    assert (last["first"], last["counted"]) == (2, 0), "the segment before is taken back"
    assert master.items[-1] == b'["items",{"id": 5}]\n'
    assert frontier.items.count == 1


def test_a_master_that_was_away_is_told_who_has_what() -> None:
    master = Master(told(lease(7, 1, 2)), forgotten(4), told({HOST: 8}, life=4), told([], life=4))
    frontier = master.frontier
    pages = [page for page, _ in frontier.lease(5, 10)]
    frontier.commit(pages)
    assert master.asked[2]["asks"] == [
        {"ask": "reclaim", "worker": "spider", "hosts": {HOST: [1, 2]}}
    ]
    again = master.asked[3]
    assert (again["life"], again["asks"][0]["commit"]["hosts"][0]["token"]) == (4, 8)


def test_a_step_whose_answer_was_lost_with_the_master_is_settled() -> None:
    master = Master(
        told(lease(7, 1, 2)),
        forgotten(4, step=1),
        told({HOST: 8}, life=4),
        told([], life=4),
        told([], life=4),
    )
    (first, _), (second, _) = master.frontier.lease(5, 10)
    assert master.frontier.commit([first]) == []
    assert master.asked[2]["asks"][0]["hosts"] == {HOST: [2]}, "what is done is not to be had again"
    assert master.frontier.commit([second]) == []
    (host,) = master.asked[-1]["asks"][0]["commit"]["hosts"]
    assert (host["token"], host["release"]) == (8, True)


def test_a_step_that_was_made_is_settled_though_its_host_is_lost() -> None:
    master = Master(
        told(lease(7, 1, 2)),
        forgotten(4, step=1),
        told({}, life=4),
        told([], life=4),
        told(lease(9, 2), life=4),
    )
    (first, _), (second, _) = master.frontier.lease(5, 10)
    assert master.frontier.commit([first]) == []
    assert master.frontier.commit([second]) == [second]
    ((again, _),) = master.frontier.lease(5, 10)
    assert again.id == second.id
    assert master.asked[-1]["asks"][0]["held"] == {}


def test_what_the_master_gave_to_others_meanwhile_is_left_to_them() -> None:
    master = Master(told(lease(7, 1)), forgotten(4), told({}, life=4), told([HOST], life=4))
    ((page, _),) = master.frontier.lease(5, 10)
    assert master.frontier.commit([page]) == [page]
    assert master.asked[3]["asks"][0]["commit"]["hosts"][0]["token"] == 0
    assert master.frontier.items.count == 0


def test_what_earlier_attempts_found_counts_beside_it() -> None:
    run = {"execution_id": "exec-1", "last": 4, "items": 9}
    receipts = {"fleet:items@exec-1": {"runs": [run]}}
    master = Master(told(receipts), told(receipts))
    master.frontier.open()
    master.frontier.close()
    (segment,) = master.segments
    assert (segment["shared"], segment["earlier"], segment["items"]) == (True, [run], 0)
    assert master.frontier.items.count == 9


def test_a_part_of_a_crawl_counts_what_was_done_for_its_own_task() -> None:
    receipts = {
        f"fleet:items@exec-{number}": {"runs": [{"execution_id": f"exec-{number}", "items": 9}]}
        for number in (1, 3)
    } | {
        "*crawl@exec-1": {"items": 9, "pages": 4, "task_id": "task-1"},
        "*crawl@exec-3": {"items": 9, "pages": 4, "task_id": "task-2"},
    }
    master = Master(told(receipts), is_part=True)
    master.frontier.open()
    assert (master.frontier.items.count, master.frontier.items.pages) == (9, 4)


def test_a_page_that_is_leased_again_counts_once_though_both_requests_end() -> None:
    """The host was somebody else's for a while, and the first request is still under way."""
    master = Master(told(lease(7, 1)), told(lease(9, 1)), told([]))
    frontier = master.frontier
    ((before, _),) = frontier.lease(5, 10)
    ((again, _),) = frontier.lease(5, 10)
    assert before is not again
    for page in (before, again):
        page.lines.append(frontier.items.line(["a"], '{"a": 1}'))
    assert frontier.commit([before, again]) == [before]
    assert master.items == [b'["items",{"a": 1}]\n']
    (host,) = master.asked[-1]["asks"][0]["commit"]["hosts"]
    assert (host["token"], [visit[0] for visit in host["visits"]]) == (9, [1])
    assert frontier.items.count == 1


def test_a_host_that_rests_is_given_back_until_then() -> None:
    master = Master(told(lease(7, 1, 2, 3)), told([]), told([]), told([]))
    frontier = master.frontier
    pages = [page for page, _ in frontier.lease(5, 10)]
    frontier.commit([], pages[1:], {HOST: 99.0})
    (host,) = master.asked[-1]["asks"][0]["commit"]["hosts"]
    assert (host["returned"], host["release"], "state" in host) == ([2, 3], False, False)
    frontier.lease(5, 10, {HOST})
    assert master.asked[-1]["asks"][0]["held"] == {}, "nothing more of a host that is given back"
    frontier.commit(pages[:1], (), {HOST: 99.0})
    (host,) = master.asked[-1]["asks"][0]["commit"]["hosts"]
    assert (host["release"], host["state"]) == (True, {"next_at": 99.0})
    assert not frontier.held()


def test_a_node_that_passes_nothing_on_and_items_that_are_refused_are_told() -> None:
    with pytest.raises(Failed, match="passes nothing on"):
        Frontier(Master(), ("output",))  # type: ignore[arg-type]
    master = Master(told(lease(7, 1)))
    master.refusal = "the disk is full"
    ((page, _),) = master.frontier.lease(5, 10)
    page.lines.append(master.frontier.items.line(["a"], "{}"))
    with pytest.raises(Failed, match="the disk is full"):
        master.frontier.commit([page])
