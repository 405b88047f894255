"""Which sink a crawl gets, what it is told of the fields, and that it counts commits only."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.frontier.memory import MemoryFrontier
from crawlfleet.adapters.sinks.file import FileSink
from crawlfleet.adapters.sinks.tables.sqlite import SqliteTable
from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.crawl.engine.committer import Committer, Member
from crawlfleet.crawl.engine.local import local_crawl
from crawlfleet.crawl.fetch.secrets import NoSuchSecret
from crawlfleet.crawl.output.sinks import (
    columns_of,
    completed,
    name_of,
    on_node,
    open_sink,
    planned,
)
from crawlfleet.crawl.work import EngineReport
from crawlfleet.errors import InvalidRequest, PluginError, StoreUnavailable
from crawlfleet.model.crawl.extraction import EmptyFields, ExtractionPlan, Item
from crawlfleet.model.crawl.frontier import FrontierRules, HostCommit
from crawlfleet.model.crawl.parameters import CrawlParameters, Fetching, SinkSpec
from crawlfleet.ports.sink import PageRecord
from crawlfleet.testing.frontier_suite.harness import NOW, A, links, visit
from crawlfleet.testing.sink_suite import page

FLAT = make_plan({"product": "div", "title": "h2", "price": "b"})
NESTED = make_plan(
    {
        "products": {"select": "div", "fields": {"title": "h2", "url": "a::attr(href)"}},
        "shops": {"select": "p", "fields": {"title": "h1", "city": "i"}},
        "heading": "h1",
    }
)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("items.jsonl", FileSink),
        ("items.NDJSON.gz", FileSink),
        ("pages.warc.gz", FileSink),
        ("sqlite:///items.db?table=x", SqliteTable),
    ],
)
def test_place_tells_the_sink(url: str, kind: type) -> None:
    assert isinstance(open_sink(SinkSpec(url=url), FLAT), kind)


def test_csv_needs_to_know_its_columns_when_the_crawl_begins() -> None:
    """Which key of a flat map is the item is seen page by page: its column would stay empty."""
    spec = SinkSpec(url="items.csv.zst")
    with pytest.raises(InvalidRequest, match="do not say what one item is") as raised:
        open_sink(spec, FLAT)
    assert "`item`" in raised.value.problems[0].remedy
    selectors = {"title": "h2", "price": "b"}
    for plan in (make_plan(selectors, item="div"), make_plan(selectors, infer_item=False), NESTED):
        assert isinstance(open_sink(spec, plan), FileSink)
    named = msgspec.structs.replace(spec, columns=("title", "price"))
    assert isinstance(open_sink(named, FLAT), FileSink)


def test_postgresql_url_tells_the_sink() -> None:
    sink = open_sink(SinkSpec(url="postgresql://me:pw@host/db?table=x"), FLAT)
    assert type(sink).__name__ == "PostgresTable"


def test_other_schemes_belong_to_plugins() -> None:
    assert completed(SinkSpec(url="parquet://bucket/x")).format == "parquet"
    with pytest.raises(PluginError, match=r"no installed package offers 'parquet'.*table"):
        open_sink(SinkSpec(url="parquet://bucket/x"), FLAT)


def test_ending_that_tells_nothing_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="does not tell its format"):
        open_sink(SinkSpec(url="/tmp/items.txt"), FLAT)


def test_columns_are_all_fields_that_items_can_have() -> None:
    assert columns_of(FLAT) == ("page_url", "product", "title", "price", "url")
    assert columns_of(NESTED) == ("page_url", "title", "url", "city", "heading")
    structured = make_plan({}, structured=True)
    assert columns_of(structured) == ("page_url", "json_ld", "open_graph", "microdata")
    assert columns_of(ExtractionPlan()) == ()


@pytest.mark.parametrize(
    ("plan", "several"),
    [(FLAT, False), (NESTED, True), (make_plan({"a": "b", "c": "d"}, structured=True), True)],
)
def test_kinds_are_named_where_there_are_several(plan: ExtractionPlan, several: bool) -> None:
    spec = completed(SinkSpec(url="items.jsonl"))
    assert planned(spec, plan).kinds is several


def test_columns_that_were_asked_for_stay() -> None:
    spec = completed(SinkSpec(url="items.csv", columns=("price",), kinds=True))
    assert planned(spec, FLAT) == spec


def test_field_named_kind_is_refused_where_it_would_be_lost() -> None:
    plan = make_plan({"kind": "h1", "shops": {"select": "p", "fields": {"title": "h1"}}})
    with pytest.raises(InvalidRequest) as raised:
        open_sink(SinkSpec(url="items.jsonl"), plan)
    assert raised.value.problems[0].field == "selectors.kind"
    open_sink(SinkSpec(url="sqlite:///items.db"), plan)
    open_sink(SinkSpec(url="items.jsonl"), make_plan({"kind": "h1", "title": "h2"}))


def test_a_field_without_a_value_is_told_of_once_whoever_read_the_pages() -> None:
    """Two executions work on one frontier: what either has found counts for both."""
    plan = make_plan({"title": "h1", "sold": "em", "price": "b"}, infer_item=False)
    frontier = MemoryFrontier(rules=FrontierRules())
    told: list[EmptyFields] = []

    async def read(office: Committer, paths: str, **fields: Any) -> None:
        (lease,) = await frontier.lease("w", hosts=1, urls=len(paths), held={}, now=NOW)
        visits = [visit(waiting.url.rpartition("/")[2]) for waiting in lease.urls]
        item = Item(kind="pages", fields={"page_url": A, "sold": None, **fields})
        pages = [PageRecord(id=each.id, url=A, at=NOW, items=[item]) for each in visits]
        done = HostCommit(host=A, token=lease.token, visits=visits, release=True)
        assert not await office.desk("w").hand_in(EngineReport(at=NOW, hosts=[done], pages=pages))

    async def scenario() -> None:
        first, second = (
            Committer(frontier, {}, member=Member(name, "task"), plan=plan, warn=told.append)
            for name in ("first", "second")
        )
        await first.open()
        await frontier.add(links("abcdefghijklmnopqrstuvwxyz"), NOW)
        await read(first, "0123456789", title="A", price=None)
        assert first.empty == EmptyFields({"sold": "em", "price": "b"}, 10)
        await second.open()
        await read(second, "0123456", title=None, price="$1")
        assert (second.empty, told) == (EmptyFields({"sold": "em"}, 17), [])
        await read(second, "0123", title=None, price="$1")
        await read(second, "0123", title=None, price="$1")
        assert told == [EmptyFields({"sold": "em"}, 21)]

    asyncio.run(scenario())


class Flaky(MemoryFrontier):
    """Fails in the middle of commits, as told: `before` or `after` it took place."""

    fails = ""

    async def commit(self, worker: str, commit: Any) -> Any:
        fails, self.fails = self.fails, ""
        if fails == "before":
            raise StoreUnavailable("before")
        refused = await super().commit(worker, commit)
        if fails == "after":
            raise StoreUnavailable("after")
        return refused


@pytest.mark.parametrize("trouble", ["none", "refused", "before", "after"])
def test_output_has_what_was_committed_once(tmp_path: Path, trouble: str) -> None:
    """Whatever happens to the second of three steps; after an unknown outcome it is opened anew."""
    archive = tmp_path / "pages.warc"
    lines = tmp_path / "items.jsonl"
    frontier = Flaky(rules=FrontierRules())

    def office() -> Committer:
        sinks = {str(p): open_sink(SinkSpec(url=str(p)), FLAT) for p in (archive, lines)}
        return Committer(frontier, sinks)

    async def handed(at: Committer, path: str, number: int, *, stale: bool = False) -> Any:
        desk = at.desk("w")
        (lease,) = (await desk.lease(hosts=1, urls=1, held={}, now=NOW)).leases
        visited = visit(path)
        done = HostCommit(host=A, token=lease.token - stale, visits=[visited], release=True)
        # The page of somebody who came back after the lease of its host was lost has no visit.
        pages = [msgspec.structs.replace(page(number), id=visited.id), page(number + 100)]
        try:
            return await desk.hand_in(EngineReport(at=NOW, hosts=[done], pages=pages))
        finally:
            await frontier.forget("w")

    async def scenario() -> None:
        at = office()
        await at.open()
        await frontier.add(links("abc"), NOW)
        assert not await handed(at, "a", 1)
        if trouble == "refused":
            assert await handed(at, "b", 2, stale=True) == [A]
        elif trouble in ("before", "after"):
            frontier.fails = trouble
            with pytest.raises(StoreUnavailable):
                await handed(at, "b", 2)
            with pytest.raises(StoreUnavailable):
                await handed(at, "b", 2)
            at = office()
            await at.open()
        if trouble != "after":
            assert not await handed(at, "b", 2)
        assert not await handed(at, "c", 3)
        await at.settle()
        await at.close()

    asyncio.run(scenario())
    assert archive.read_bytes().count(b"WARC-Type: response") == 3
    urls = [line.rpartition(b'"url":')[2] for line in lines.read_bytes().splitlines()]
    assert len(urls) == len(set(urls)) == 1 + 2 + 3


@pytest.mark.parametrize(
    "given",
    [
        {"sinks": (SinkSpec(url="postgresql://me:${secret:PG}@db.example/shop"),)},
        {"fetching": Fetching(proxy="http://me:${secret:PG}@proxy.example")},
        {"fetching": Fetching(headers={"X-Key": "${secret:PG}"})},
    ],
)
def test_a_crawl_of_one_machine_has_no_secrets(tmp_path: Path, given: dict[str, Any]) -> None:
    parameters = CrawlParameters(url="https://a.example/", **given)
    with pytest.raises(NoSuchSecret, match="no secret 'PG' here"):
        local_crawl(parameters, frontier=tmp_path / "frontier.db")


def test_the_sink_of_a_task_is_told_what_its_node_allows() -> None:
    spec = SinkSpec(url="sqlite:///a%20b.db?table=x", kinds=True)
    on = on_node(spec, folder="/srv/my sinks", allow_private=True, secrets={})
    assert (on.url, on.kinds) == ("sqlite:////srv/my%20sinks/a%20b.db?table=x", True)
    assert (on.folder, on.allow_private) == ("/srv/my sinks", True)
    plugin = SinkSpec(url="parquet://bucket/x?secret_key=${secret:KEY}")
    on = on_node(plugin, folder="/srv", allow_private=False, secrets={"KEY": "a&b"})
    assert on.url == "parquet://bucket/x?secret_key=a%26b"
    assert name_of(plugin) == "parquet://bucket/x"
    database = SinkSpec(url="postgresql://me:${secret:KEY}@db.example/shop")
    on = on_node(database, folder="/srv", allow_private=False, secrets={"KEY": "a&b-long"})
    assert on.address is not None
    assert (on.address.password, "a&b-long" in repr(on)) == ("a&b-long", False)
    with pytest.raises(InvalidRequest, match="not below the folder"):
        on_node(SinkSpec(url="/etc/x.csv"), folder="/srv", allow_private=True, secrets={})
    with pytest.raises(msgspec.ValidationError, match="unknown field `folder`"):
        msgspec.convert({"url": "x.csv", "folder": "/etc"}, SinkSpec)
