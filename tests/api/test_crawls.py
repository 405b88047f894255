"""Crawls over HTTP, with a node by hand: output, figures and orders."""

import copy
import csv
import io
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.plain_http import CrawlingNode, Master

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api crawls")]

HOSTILE = (
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3+cmd",
    "@SUM(1)",
    "<script>alert(document.cookie)</script>",
    'a,b"c\nd\r\ne',
    "\u202etxt\u0000",
)


@pytest.fixture
def node(master: Master) -> Iterator[CrawlingNode]:
    node = CrawlingNode(master, project_id="shop")
    yield node
    node.leave()


def lines(*titles: str, kind: str = "products") -> bytes:
    return b"".join(
        json.dumps([kind, {"title": title, "n": n}]).encode() + b"\n"
        for n, title in enumerate(titles)
    )


def begun(node: CrawlingNode, *titles: str, **first: Any) -> None:
    """A crawl whose items all count."""
    assert node.keep(columns=["title", "n"], **first)["refusal"] == ""
    node.keep(lines(*titles))
    node.keep()


def test_items_are_shown_when_they_count(node: CrawlingNode, master: Master) -> None:
    assert master.get(f"{node.path_of_crawl}/items") == {
        "items": [],
        "next_cursor": None,
        "columns": [],
    }
    node.keep(columns=["title", "n"])
    node.keep(lines("a", "b", "c"))
    assert master.get(f"{node.path_of_crawl}/items")["items"] == []

    node.keep()

    page = master.get(f"{node.path_of_crawl}/items?limit=2")
    assert [(each["number"], each["kind"], each["fields"]["title"]) for each in page["items"]] == [
        (1, "products", "a"),
        (2, "products", "b"),
    ]
    assert page["columns"] == ["title", "n"]
    rest = master.get(f"{node.path_of_crawl}/items?limit=2&cursor={page['next_cursor']}")
    assert [each["fields"]["title"] for each in rest["items"]] == ["c"]
    assert rest["next_cursor"] is None
    assert master.get(node.path_of_crawl)["output"]["items"] == 3


def test_items_are_chosen_by_kind(node: CrawlingNode, master: Master) -> None:
    node.keep(kinds=True, columns=["title", "n"])
    node.keep(lines("a") + lines("b", kind="reviews") + lines("c"))
    node.keep()

    found = master.get(f"{node.path_of_crawl}/items?kind=reviews")["items"]
    assert [(each["number"], each["fields"]["title"]) for each in found] == [(2, "b")]
    content = master.call("GET", f"{node.path_of_crawl}/output").content.decode()
    assert [json.loads(line)["kind"] for line in content.splitlines()] == [
        "products",
        "reviews",
        "products",
    ]


def test_a_download_is_a_file_that_does_no_harm(node: CrawlingNode, master: Master) -> None:
    begun(node, *HOSTILE)

    jsonl = master.call("GET", f"{node.path_of_crawl}/output")
    table = master.call("GET", f"{node.path_of_crawl}/output?format=csv")

    assert [json.loads(line)["title"] for line in jsonl.content.splitlines()] == [*HOSTILE]
    for answer, kind in ((jsonl, "application/x-ndjson"), (table, "text/csv; charset=utf-8")):
        assert answer.headers["content-type"] == kind
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-disposition"].startswith("attachment; filename=")
    text = table.content.decode()
    rows = [*csv.DictReader(io.StringIO(text, newline=""))]
    assert [row["title"].removeprefix("'") for row in rows] == [*HOSTILE]
    assert not [row for row in rows if row["title"][0] in "=+-@"]
    assert [row["n"] for row in rows] == [str(n) for n in range(len(HOSTILE))]


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_a_download_goes_on_where_it_broke_off(
    node: CrawlingNode, master: Master, format: str
) -> None:
    begun(node, *HOSTILE)
    path = f"{node.path_of_crawl}/output?format={format}"
    assert "has ended" in master.call("GET", f"{path}&offset=3").expect(409)["detail"]
    master.order(node.task, "cancel")
    whole = master.call("GET", path).content
    for offset in (0, 1, 30, len(whole) - 1, len(whole), len(whole) + 5):
        assert master.call("GET", f"{path}&offset={offset}").content == whole[offset:]
    master.call("GET", f"{path}&offset=-1").expect(422)


def test_a_table_of_a_crawl_that_has_ended_has_no_column_that_no_item_has(
    node: CrawlingNode, master: Master
) -> None:
    """Such as the key of a flat map of selectors that turned out to be the item itself."""
    node.keep(columns=["page_url", "product", "title", "n"])
    node.keep(b'["products", {"page_url": "https://x.example/", "title": null, "n": 1}]\n')
    node.keep()
    path = f"{node.path_of_crawl}/output?format=csv"
    # While it runs there may be more to come.
    assert master.call("GET", path).content.startswith(b"page_url,product,title,n\r\n")
    master.order(node.task, "cancel")
    table = master.call("GET", path).content
    assert table == b"page_url,title,n\r\nhttps://x.example/,,1\r\n"
    assert master.call("GET", f"{path}&offset=20").content == table[20:]


def test_a_preview_cuts_what_is_long(node: CrawlingNode, master: Master) -> None:
    begun(node, "x" * 50_000)

    (item,) = master.get(f"{node.path_of_crawl}/items")["items"]

    assert len(item["fields"]["title"]) == 2_001
    assert len(master.call("GET", f"{node.path_of_crawl}/output").content) > 50_000


def test_what_is_not_there_is_told(node: CrawlingNode, master: Master) -> None:
    assert "nothing of" in master.call("GET", f"{node.path_of_crawl}/output").expect(409)["detail"]
    node.keep()
    told = master.call("GET", f"{node.path_of_crawl}/output?format=csv").expect(409)["detail"]
    assert "format=jsonl" in told
    master.call("GET", f"{node.path_of_crawl}/output?format=xlsx").expect(422)
    master.call("GET", f"{node.path_of_crawl}/items?cursor=x").expect(422)
    master.call("GET", f"{node.path_of_crawl}/urls").expect(422)
    other = master.submit(task_type="nobodys")
    for rest in ("", "/items", "/output", "/urls?url=x"):
        master.call("GET", f"/api/v1/crawls/{other}{rest}").expect(404)


def test_only_the_holder_of_a_crawl_may_write(master: Master) -> None:
    node = CrawlingNode(master)
    segment = {"sequence": 1, "first": 1}
    other = master.node(task_types=["none"])
    wrong = {
        "another token": node.upload(segment=segment, token=node.work["token"] + 1),
        "another session": node.upload(segment=segment, session_id=other.session),
        "no such execution": node.upload(segment=segment, execution_id="exec-none"),
    }
    for what, upload in wrong.items():
        assert "is not held" in node.request("output", upload).expect(200)["refusal"], what
    stolen = {**node.upload(segment=segment), "session_id": other.session}
    assert "is not held" in other.request("output", stolen).expect(200)["refusal"]
    assert master.get(f"{node.path_of_crawl}/items")["items"] == []
    begun(node, "a")
    node.report(node.work, "succeeded", data={})

    assert "is not held" in node.keep(lines("late"))["refusal"]
    assert len(master.get(f"{node.path_of_crawl}/items")["items"]) == 1
    node.leave()


def test_a_new_attempt_takes_the_place_of_the_old_one(master: Master) -> None:
    node = CrawlingNode(master)
    begun(node, "old", "older")
    error = {"error_class": "crash", "message": "died"}
    node.report(node.work, "failed", error=error)
    master.order(node.task, "retry")
    old, deadline = node.work, time.monotonic() + 20
    while node.work["token"] == old["token"]:
        assert time.monotonic() < deadline
        node.work = (node.lease(wait_s=1.0).get("assignments") or [old])[0]
    node.report(node.work, "started")
    assert len(master.get(f"{node.path_of_crawl}/items")["items"]) == 2

    node.sequence = 0
    begun(node, "new")

    (item,) = master.get(f"{node.path_of_crawl}/items")["items"]
    assert item["fields"]["title"] == "new"
    node.leave()


def test_a_segment_that_is_too_large_or_makes_no_sense_is_refused(node: CrawlingNode) -> None:
    assert node.keep(b"\x00" * 10 + bytes(range(256)) * 8000)["refusal"] == ""
    node.sequence += 1
    segment = {"sequence": node.sequence, "first": 1}
    huge = node.store(segment, data="A" * 1_400_000).expect(200)
    assert "1,000,000 bytes" in huge["refusal"]
    assert not huge["may_retry"]
    for segment in ({"sequence": 0, "first": 1}, {"sequence": "x", "first": 1}, {}):
        node.store(segment).expect(422)


def test_figures_come_with_notes_and_stay(node: CrawlingNode, master: Master) -> None:
    assert "figures" not in master.get(node.path_of_crawl)
    host = {"host": "https://shop.example", "pages": 3}
    node.note(figures={"at": 5.0, "pages": 3, "hosts": [host], "depths": [1, 2]})

    shown = master.get(node.path_of_crawl)["figures"]
    assert (shown["pages"], shown["depths"], shown["hosts"]) == (3, [1, 2], [host])
    (listed,) = [
        each
        for each in master.get("/api/v1/crawls?limit=1000&status=processing")["items"]
        if each["task_id"] == node.task
    ]
    assert (listed["figures"]["pages"], listed["figures"]["hosts"]) == (3, [])

    node.note(figures={"pages": "many"})
    assert master.get(node.path_of_crawl)["figures"]["pages"] == 3
    node.note(figures={"pages": 4, "is_final": True})
    node.report(node.work, "succeeded", data={})
    assert master.get(node.path_of_crawl)["figures"]["pages"] == 4


def test_a_crawl_whose_output_is_gone_says_so(node: CrawlingNode, master: Master) -> None:
    begun(node, "a", "b")
    node.report(node.work, "succeeded", data={})
    assert "output_missing" not in master.get(node.path_of_crawl)
    kept = next(master.fleet.folder.rglob(f"output/{node.task}"))
    moved = kept.rename(kept.with_name("moved-away"))

    view = master.get(node.path_of_crawl)
    assert "output" not in view
    assert node.task in view["output_missing"]
    for rest in ("/items", "/output", "/output?format=csv"):
        said = master.call("GET", node.path_of_crawl + rest).expect(409)["detail"]
        assert said == view["output_missing"]

    moved.rename(kept)
    assert len(master.get(f"{node.path_of_crawl}/items")["items"]) == 2
    assert "output_missing" not in master.get(node.path_of_crawl)


@pytest.mark.parametrize("verb", ["pause", "resume", "stop"])
def test_orders_reach_the_node_and_are_answered(
    node: CrawlingNode, master: Master, verb: str
) -> None:
    answer, order = node.ordered(verb)

    assert answer.expect(200)["state"] == ("paused" if verb == "pause" else "processing")
    assert (order["execution_id"], order["name"]) == (node.work["execution_id"], verb)
    happened = {"pause": "crawl.paused", "resume": "crawl.resumed", "stop": "crawl.stopped"}
    events = master.get(f"/api/v1/tasks/{node.task}/events?limit=1000")["items"]
    assert events[-1]["kind"] == happened[verb]
    entry = master.audit()[0]
    assert (entry["action"], entry["subjects"]) == (f"{verb}_crawl", [node.task])


def test_a_shared_crawl_whose_paused_shards_lost_their_nodes_stays_paused(master: Master) -> None:
    parameters = {"url": "https://shop.example/", "workers": 2}
    request = {"task_type": "web_crawl", "parameters": parameters, "node_type": "sharing"}
    id = master.submit(**request)
    nodes = [
        master.node(task_types=["web_crawl"], node_type="sharing", resources={"slots": 1})
        for _ in range(2)
    ]
    works = {each.id: each.take() for each in nodes}
    for each in nodes:
        each.report(works[each.id], "started")
    path = f"/api/v1/crawls/{id}"

    def obey(each: Any) -> None:
        work = works[each.id]
        (order,) = each.lease([work["execution_id"]])["orders"]
        note = {"execution_id": work["execution_id"], "answers": [{"number": order["number"]}]}
        each.say("note", {"session_id": each.session, "notes": [note]}).expect(200)

    with ThreadPoolExecutor(1) as people:
        other = copy.copy(master)
        other._connection = None
        asked = people.submit(other.call, "POST", f"{path}:pause")
        for each in nodes:
            obey(each)
        assert asked.result().expect(200)["state"] == "paused"
        other.close()
    for each in nodes:
        each.leave()

    shards = [work["task_id"] for work in works.values()]
    assert [master.task(shard)["status"] for shard in shards] == ["paused", "paused"]
    assert master.get(path)["state"] == "paused"
    assert master.post(f"{path}:resume")["state"] != "paused"
    assert [master.task(shard)["status"] for shard in shards] == ["pending", "pending"]
    master.order(id, "cancel").expect(200)


def test_an_order_that_is_refused_says_why(node: CrawlingNode) -> None:
    answer, _ = node.ordered("pause", error="it is not in the mood")
    assert answer.expect(409)["detail"] == "it is not in the mood"


def test_a_url_is_explained_by_the_node(node: CrawlingNode) -> None:
    told = {"url": "https://shop.example/a", "refused_by": "deny", "why": "matches `/a`"}
    answer, order = node.ordered("urls?url=https://shop.example/a", data=told)
    assert answer.expect(200) == told
    assert order["arguments"] == {"url": "https://shop.example/a"}

    answer, _ = node.ordered("urls?url=x", data=["nonsense"])
    answer.expect(409)


def test_a_crawl_that_does_not_run_takes_no_orders(master: Master) -> None:
    id = master.submit(task_type="web_crawl", parameters={"url": "https://shop.example"})
    assert "pending" in master.call("POST", f"/api/v1/crawls/{id}:stop").expect(409)["detail"]
    master.call("GET", f"/api/v1/crawls/{id}/urls?url=x").expect(409)
    assert master.post(f"/api/v1/crawls/{id}:pause")["state"] == "paused"
    assert master.post(f"/api/v1/crawls/{id}:pause")["state"] == "paused"
    assert master.post(f"/api/v1/crawls/{id}:resume")["state"] == "pending"
    master.order(id, "cancel").expect(200)
    master.call("POST", f"/api/v1/crawls/{id}:pause").expect(409)


def test_a_key_of_another_project_sees_nothing(node: CrawlingNode, master: Master) -> None:
    begun(node, "a")
    own = master.key("crawls-own", "viewer", project_id="shop")[1]
    foreign = master.key("crawls-foreign", "operator", project_id="rival")[1]
    for rest in ("", "/items", "/output", "/urls?url=x"):
        master.call("GET", node.path_of_crawl + rest, key=foreign).expect(404)
    for verb in ("pause", "resume", "stop"):
        master.call("POST", f"{node.path_of_crawl}:{verb}", key=foreign).expect(404)
    assert master.get(f"{node.path_of_crawl}/items", key=own)["items"]

    def listed(key: str) -> set[str]:
        page = master.get("/api/v1/crawls?limit=1000", key=key)
        return {each["project"] for each in page["items"]}

    assert (listed(own), listed(foreign)) == ({"shop"}, set())
