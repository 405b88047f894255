"""Selectors are tried on pages that are at hand."""

import asyncio
import io
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from typer.testing import Result
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from crawlfleet.crawl.output.sinks import open_sink
from crawlfleet.model.crawl.extraction import ExtractionPlan
from crawlfleet.model.crawl.parameters import SinkSpec
from crawlfleet.ports.sink import PageRecord

Run = Callable[..., Result]

PAGE = """<html><head><meta property="og:title" content="Shop"></head><body>
<div class="product"><h2 class="title">茶 1</h2><span class="price">$19.99</span>
<a href="/products/1" rel="nofollow">more</a></div>
<div class="product"><h2 class="title">茶 2</h2><span class="price">$29.99</span>
<a href="/products/2">more</a></div></body></html>"""
FLAGS = (
    "--item",
    "div.product",
    "--css",
    "link=a@href",
    "--css",
    "title=h2.title",
    "--css",
    "price=span.price",
)


@pytest.fixture
def page(place: Path) -> Path:
    path = place / "shop.html"
    path.write_text(PAGE, encoding="utf-8")
    return path


def lines(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_people_see_what_each_selector_caught(run: Run, page: Path) -> None:
    result = run(
        "extract", str(page), *FLAGS, "--css", "sold=em.sold", "--url", "https://x.example/"
    )
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["title", "2", "1", "-"] in rows
    assert ["sold", "0", "0", "caught", "nothing"] in rows
    assert ["items:", "2"] in rows
    assert ["item", "2", "1", "-"] in rows
    assert ["https://x.example/", "/products/1", "茶", "1", "$19.99", "-"] in rows
    assert "2 items of 1 page" in result.stderr


def test_machines_get_json_lines(run: Run, page: Path) -> None:
    found = lines(run("extract", str(page), *FLAGS, "--url", "https://x.example/", "--json"))
    item = {
        "page_url": "https://x.example/",
        "link": "/products/1",
        "title": "茶 1",
        "price": "$19.99",
    }
    assert found[0] == {"page": "https://x.example/", "kind": "items", "item": item}
    assert len(found) == 2


def test_items_go_to_a_file(run: Run, page: Path, place: Path) -> None:
    result = run("extract", str(page), *FLAGS, "-o", "items.jsonl")
    assert result.exit_code == 0
    assert len((place / "items.jsonl").read_text().splitlines()) == 2
    assert "items.jsonl" in result.stderr


def test_a_plan_can_come_from_a_file(run: Run, page: Path, place: Path) -> None:
    plan = {
        "rows": {"select": "div.product", "fields": {"price": {"css": "span", "type": "price"}}}
    }
    (place / "plan.json").write_text(json.dumps(plan))
    found = lines(run("extract", str(page), "--selectors", "plan.json", "--json"))
    assert [line["item"]["price"] for line in found] == [19.99, 29.99]
    (place / "crawl.json").write_text(json.dumps({"url": "https://x.example", "selectors": plan}))
    assert lines(run("extract", str(page), "--selectors", "crawl.json", "--json")) == found


def test_a_key_is_the_item_only_in_the_parameters_of_a_task(
    run: Run, page: Path, place: Path
) -> None:
    flat = {"product": "div.product", "title": "h2.title"}
    (place / "flat.json").write_text(json.dumps(flat))
    (line,) = lines(run("extract", str(page), "--selectors", "flat.json", "--json"))
    assert line["item"]["product"] == "茶 1 $19.99 more"
    flags = ("--css", "product=div.product", "--css", "title=h2.title", "--json")
    assert lines(run("extract", str(page), *flags)) == [line]

    (place / "crawl.json").write_text(json.dumps({"url": "https://x.example", "selectors": flat}))
    found = lines(run("extract", str(page), "--selectors", "crawl.json", "--json"))
    assert [each["kind"] for each in found] == ["products", "products"]
    task = {"urls": ["https://x.example"], "item": "div.product", "selectors": {"title": "h2"}}
    (place / "named.json").write_text(json.dumps(task))
    found = lines(run("extract", str(page), "--selectors", "named.json", "--json"))
    assert [each["item"]["title"] for each in found] == ["茶 1", "茶 2"]


def test_xpath_structured_data_and_json(run: Run, page: Path, place: Path) -> None:
    found = lines(run("extract", str(page), "--xpath", "n=count(//h2)", "--structured", "--json"))
    assert found[0]["item"]["n"] == "2"
    assert found[1]["item"]["open_graph"] == {"og:title": "Shop"}
    (place / "data.json").write_text('{"a": [{"b": 1}]}')
    found = lines(run("extract", "data.json", "--path", "b=$.a[0].b", "--json"))
    assert found[0]["item"]["b"] == 1


def test_links_are_shown(run: Run, page: Path) -> None:
    url = ("--url", "https://x.example/")
    found = lines(run("extract", str(page), "--links", *url, "--json"))
    assert [(link["url"], link["nofollow"]) for link in found] == [
        ("https://x.example/products/1", True),
        ("https://x.example/products/2", False),
    ]
    assert "nofollow" in run("extract", str(page), "--links", *url).stdout


def test_standard_input_is_a_page(run: Run) -> None:
    found = lines(run("extract", "-", "--css", "t=h1", "--json", input="<h1>A</h1>"))
    assert found[0]["item"]["t"] == "A"


def test_other_charsets_are_read(run: Run, place: Path) -> None:
    (place / "a.html").write_bytes('<meta charset="gbk"><h1>茶叶</h1>'.encode("gbk"))
    assert lines(run("extract", "a.html", "--css", "t=h1", "--json"))[0]["item"]["t"] == "茶叶"


def archive(*answers: tuple[str, str, str, bytes]) -> bytes:
    out = io.BytesIO()
    writer = WARCWriter(out, gzip=True)
    for url, status, kind, body in answers:
        headers = StatusAndHeaders(status, [("Content-Type", kind)], protocol="HTTP/1.1")
        writer.write_record(
            writer.create_warc_record(
                url, "response", payload=io.BytesIO(body), http_headers=headers
            )
        )
    return out.getvalue()


def test_an_archive_is_extracted_again_without_fetching(run: Run, place: Path) -> None:
    kept = archive(
        ("https://x.example/1", "200 OK", "text/html; charset=gbk", "<h1>茶</h1>".encode("gbk")),
        ("https://x.example/x", "404 Not Found", "text/html", b"<h1>missing</h1>"),
        ("https://x.example/i", "200 OK", "image/png", b"<h1>image</h1>"),
        ("https://x.example/2", "200 OK", "text/html", b"<h1>two</h1>"),
    )
    (place / "kept.warc.gz").write_bytes(kept)
    found = lines(run("extract", "kept.warc.gz", "--css", "t=h1", "--json"))
    assert [(line["page"], line["item"]["t"]) for line in found] == [
        ("https://x.example/1", "茶"),
        ("https://x.example/2", "two"),
    ]
    limited = lines(run("extract", "kept.warc.gz", "--css", "t=h1", "--json", "--limit", "1"))
    assert len(limited) == 1


@pytest.mark.parametrize("name", ["pages.warc", "pages.warc.gz"])
def test_the_output_of_a_crawl_is_an_archive(run: Run, place: Path, name: str) -> None:
    packed = (("content-type", "text/html"), ("content-encoding", "gzip"), ("content-length", "9"))
    pages = [
        PageRecord(
            id=number,
            url=f"https://x.example/{number}",
            at=1e9,
            status=200,
            headers=packed,
            body=f"<h1>茶 {number}</h1>".encode(),
        )
        for number in range(20)
    ]

    async def crawl() -> None:
        sink = open_sink(SinkSpec(url=str(place / name)), ExtractionPlan())
        await sink.open(None)
        await sink.stage(pages[:7])
        await sink.stage(pages[7:])
        await sink.finish()

    asyncio.run(crawl())
    found = lines(run("extract", name, "--css", "t=h1", "--json"))
    assert [(line["page"], line["item"]["t"]) for line in found] == [
        (page.url, f"茶 {page.id}") for page in pages
    ]


def test_a_broken_archive_is_told(run: Run, place: Path) -> None:
    (place / "kept.warc.gz").write_bytes(b"no archive at all")
    result = run("extract", "kept.warc.gz", "--css", "t=h1")
    assert result.exit_code == 1
    assert "kept.warc.gz" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("shop.html",), 2, "--css"),
        (("shop.html", "--css", "h1"), 2, "NAME=EXPRESSION"),
        (("shop.html", "--path", "$.a"), 2, "--path"),
        (("shop.html", "--css", "a=b["), 1, "selectors.a.css"),
        (("nowhere.html", "--css", "a=b"), 1, "nowhere.html"),
        (("http://127.0.0.1:9/", "--css", "a=b"), 1, "--allow-private"),
        (("http://127.0.0.1:9/", "--css", "a=b", "--allow-private"), 1, "127.0.0.1:9"),
    ],
)
def test_trouble_names_the_remedy(
    arguments: tuple[str, ...], code: int, words: str, run: Run, page: Path
) -> None:
    result = run("extract", *arguments)
    assert result.exit_code == code
    assert words in " ".join(result.stderr.split())


@pytest.fixture
def site() -> Iterator[str]:
    """A web server in a thread of its own, since the command has its own loop."""
    loop = asyncio.new_event_loop()

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/old":
            raise web.HTTPFound("/new/")
        return web.Response(text='<h1>New</h1><a href="x">x</a>', content_type="text/html")

    async def start() -> tuple[web.AppRunner, int]:
        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return runner, runner.addresses[0][1]

    runner, port = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield f"http://127.0.0.1:{port}"
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def test_an_address_is_fetched(run: Run, site: str) -> None:
    found = lines(run("extract", f"{site}/old", "--css", "t=h1", "--json", "--allow-private"))
    assert found[0]["page"] == f"{site}/new/"
    assert found[0]["item"]["t"] == "New"
