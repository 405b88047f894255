"""What a crawl has found, opened with the tools that people open it with.

A small site whose every value is known is crawled by the real command, and each output is read by a
program of somebody else: none may lack a field, hide where an item is from, or change a value.
"""

import asyncio
import csv
import json
import math
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import asyncpg
import pandas as pd
import pytest

from tests.support.servers import postgres_server

pytestmark = pytest.mark.slow

ELSEWHERE = "https://elsewhere.example/read/this"
LISTING = 30
"""Pages with nothing on them but links, so that selectors have time to catch nothing."""
PAGES = {
    "/": "".join(f'<a href="/list/{n}">more</a>' for n in range(LISTING))
    + '<a href="/first">1</a> <a href="/second">2</a> <a href="/shop">shop</a>',
    **{f"/list/{n}": "<p>nothing here" for n in range(LISTING)},
    "/first": f"""<article class="post"><h1>First, "quoted" post</h1><p>Read
      <a href="{ELSEWHERE}">this</a> first.</p><b class="views">12345678</b></article>""",
    "/second": """<article class="post"><h1>第二 =1+1</h1><p>No link.</p></article>""",
    "/shop": """<div class="product"><a href="/first">see</a><h2>Green tea</h2><b>19.99</b></div>
      <div class="product"><h2>Black tea</h2></div>""",
}


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = PAGES.get(self.path)
        body = f"<html><body>{page}</body></html>".encode()
        self.send_response(200 if page is not None else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres_server(fsync=False) as server:
        yield server.url()


FIELDS = (
    *("--css", "text=article.post", "--css", "title=article.post h1"),
    *("--css", "link=article.post a@href", "--css", "missing=em.nowhere"),
    *("--xpath", "views=number(//article//b)", "--xpath", "links=count(//article//a)"),
)
COLUMNS = ["page_url", "text", "title", "link", "missing", "views", "links"]


class Crawled:
    """A crawl of the site, and where its outputs are."""

    def __init__(self, site: str, folder: Path, database: str, table: str, *fields: str) -> None:
        self.jsonl, self.csv = folder / "items.jsonl", folder / "items.csv"
        self.sqlite = folder / "items.db"
        places = (self.jsonl, self.csv, f"sqlite:///{self.sqlite}", f"{database}&table={table}")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "crawlfleet", "crawl", site, "--fast", "--allow-private"),
                *(*fields, "--json", *(word for place in places for word in ("-o", str(place)))),
            ],
            env={**os.environ, "XDG_STATE_HOME": str(folder / "state"), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.said = done.stderr
        assert done.returncode == 0, self.said
        self.summary = json.loads(done.stdout)


@pytest.fixture(scope="module")
def posts(site: str, database: str, tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    """Each page is an item."""
    return Crawled(site, tmp_path_factory.mktemp("posts"), database, "posts", *FIELDS)


@pytest.fixture(scope="module")
def teas(site: str, database: str, tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    """Each product is an item."""
    fields = ("--item", "div.product", "--css", "title=h2", "--css", "price=b")
    return Crawled(site, tmp_path_factory.mktemp("teas"), database, "teas", *fields)


def expected(site: str) -> dict[str, dict[str, str | None]]:
    """The pages with a post, by their addresses."""
    return {
        f"{site}/first": {
            "text": 'First, "quoted" post Read this first. 12345678',
            "title": 'First, "quoted" post',
            "link": ELSEWHERE,
            "missing": None,
            "views": "12345678",
            "links": "1",
        },
        f"{site}/second": {
            "text": "第二 =1+1 No link.",
            "title": "第二 =1+1",
            "link": None,
            "missing": None,
            "views": None,
            "links": "0",
        },
    }


def told(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The fields of the pages with a post, by the addresses of the pages."""
    named = {row["page_url"]: {name: row[name] for name in COLUMNS[1:]} for row in rows}
    return {url: fields for url, fields in named.items() if fields["title"]}


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table, with nothing where there is nothing."""
    return [
        {
            str(name): None
            if value is None or (isinstance(value, float) and math.isnan(value))
            else value
            for name, value in row.items()
        }
        for row in table.to_dict("records")
    ]


def test_lines_of_json(site: str, posts: Crawled) -> None:
    found = [json.loads(line) for line in posts.jsonl.read_text("utf-8").splitlines()]
    assert all([*item] == COLUMNS for item in found)
    assert told(found) == expected(site)
    # Every page counts the links of its posts, and is an item for that.
    assert {item["page_url"] for item in found} == {f"{site}{path}" for path in PAGES}


def test_csv_in_pandas(site: str, posts: Crawled) -> None:
    table = pd.read_csv(posts.csv, dtype=str)
    assert [*table.columns] == COLUMNS
    assert told(records(table)) == expected(site)


def test_csv_by_python(site: str, posts: Crawled) -> None:
    with posts.csv.open(encoding="utf-8", newline="") as file:
        rows = [{name: text or None for name, text in row.items()} for row in csv.DictReader(file)]
    assert told(rows) == expected(site)


def test_the_view_in_sqlite(site: str, posts: Crawled) -> None:
    with closing(sqlite3.connect(posts.sqlite)) as connection:
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute("SELECT * FROM items_fields")]
        table = pd.read_sql("SELECT * FROM items_fields", connection)
    assert told(rows) == told(records(table)) == expected(site)
    assert set(COLUMNS) <= {*table.columns}


def test_the_view_in_postgresql(site: str, posts: Crawled, database: str) -> None:
    async def rows() -> list[dict[str, Any]]:
        connection = await asyncpg.connect(database)
        try:
            return [dict(row) for row in await connection.fetch("SELECT * FROM posts_fields")]
        finally:
            await connection.close()

    found = asyncio.run(asyncio.wait_for(rows(), 60))
    assert told(found) == expected(site)
    assert set(COLUMNS) <= {*found[0]}


def test_psql_shows_the_view(site: str, teas: Crawled, database: str) -> None:
    sql = "SELECT page_url, title, price::numeric + 1 FROM teas_fields ORDER BY title DESC"
    shown = subprocess.run(
        ["psql", "--no-psqlrc", "--csv", "--tuples-only", "--dbname", database, "--command", sql],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert shown.stdout.splitlines() == [f"{site}/shop,Green tea,20.99", f"{site}/shop,Black tea,"]


def test_each_product_is_an_item_of_its_page(site: str, teas: Crawled) -> None:
    page = {"page_url": f"{site}/shop"}
    truth = [
        {**page, "title": "Green tea", "price": "19.99"},
        {**page, "title": "Black tea", "price": None},
    ]
    assert [json.loads(line) for line in teas.jsonl.read_text("utf-8").splitlines()] == truth
    assert records(pd.read_csv(teas.csv, dtype=str)) == truth
    with closing(sqlite3.connect(teas.sqlite)) as connection:
        sql = "SELECT page_url, title, price FROM items_fields ORDER BY title DESC"
        table = pd.read_sql(sql, connection)
    assert records(table) == truth


def test_a_selector_that_catches_nothing_is_told_of_once_and_at_the_end(posts: Crawled) -> None:
    assert posts.summary["empty_fields"] == {"missing": "em.nowhere"}
    warnings = [line for line in posts.said.splitlines() if line.startswith("warning:")]
    (warning,) = [line for line in warnings if "missing (em.nowhere)" in line]
    assert warnings == [warning]
    assert "caught nothing  missing (em.nowhere)" in posts.said


def test_selectors_that_catch_something_are_not_told_of(teas: Crawled) -> None:
    assert teas.summary["empty_fields"] == {}
    assert "caught nothing" not in teas.said
