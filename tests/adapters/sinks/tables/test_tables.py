"""Tables: names that are only names, several crawls in one, and a fence."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from crawlfleet.adapters.sinks.tables.by_url import from_spec, table_of
from crawlfleet.adapters.sinks.tables.sink import shown
from crawlfleet.adapters.sinks.tables.view import quoted
from crawlfleet.errors import InvalidRequest, SinkUnusable
from crawlfleet.model.crawl.parameters import SinkSpec
from crawlfleet.ports.sink import Sink
from tests.adapters.sink_pages import page, run


def sink_of(path: Path, table: str = "items") -> Sink:
    return from_spec(SinkSpec(url=f"sqlite:///{path}?table={table}"))


def rows(path: Path, sql: str) -> list[tuple]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:////a/b.db", ("sqlite:////a/b.db", "items")),
        ("sqlite:////a/b.db?table=x", ("sqlite:////a/b.db", "x")),
        (
            "postgresql://u:p@h/d?host=/run/x&table=a%22b&port=1",
            ("postgresql://u:p@h/d?host=/run/x&port=1", 'a"b'),
        ),
    ],
)
def test_table_is_named_in_the_url(url: str, expected: tuple[str, str]) -> None:
    assert table_of(url) == expected


@pytest.mark.parametrize("table", ["", "a%00b", "x" * 64, "crawlfleet_output", "sqlite_master"])
def test_name_that_cannot_be_used_is_refused(table: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        table_of(f"postgresql://user:secret@host/db?table={table}")
    assert "secret" not in str(raised.value.problems)


def test_address_is_shown_without_secrets() -> None:
    assert shown("postgresql://u:p@h:5/d?password=x") == "postgresql://h:5/d"


def test_sqlite_url_without_a_file_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="names no file"):
        from_spec(SinkSpec(url="sqlite://items.db"))


@pytest.mark.parametrize("name", ['x"; DROP TABLE y; --', "select", "two words", "größe", "{t}%s"])
def test_any_name_is_only_a_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "shop.db"
    rows(path, "CREATE TABLE y (a)")

    async def scenario() -> None:
        from urllib.parse import quote

        sink = sink_of(path, quote(name))
        await sink.open(None)
        await sink.stage([page({"n": 1})])
        await sink.finish()

    run(scenario)
    assert rows(path, f"SELECT fields FROM {quoted(name)}") == [('{"n":1}',)]
    assert rows(path, "SELECT * FROM y") == []


def test_table_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE items (name)")
        connection.execute("INSERT INTO items VALUES ('mine')")

    async def scenario() -> None:
        sink = sink_of(path)
        with pytest.raises(SinkUnusable, match=r"other columns .* another one by \?table="):
            await sink.open(None)
        await sink.close()

    run(scenario)
    assert rows(path, "SELECT * FROM items") == [("mine",)]
    assert rows(path, "SELECT name FROM sqlite_master") == [("items",)]


def test_crawls_share_a_table_and_leave_each_other_alone(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"

    async def scenario() -> None:
        first, second = sink_of(path), sink_of(path)
        await first.open(None)
        await second.open(None)
        receipt = await second.stage([])
        await first.stage([page({"n": 1})])
        await second.stage([page({"n": 2})])
        await second.open(receipt)
        await first.finish()
        await second.finish()

    run(scenario)
    assert rows(path, "SELECT fields FROM items") == [('{"n":1}',)]


def test_process_that_was_succeeded_writes_no_more(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"

    async def scenario() -> None:
        late, successor = sink_of(path), sink_of(path)
        await late.open(None)
        receipt = await late.stage([page({"n": 1})])
        await successor.open(receipt)
        with pytest.raises(SinkUnusable, match="another process goes on with this crawl"):
            await late.stage([page({"n": 2}, id=2)])
        await successor.stage([page({"n": 3}, id=3)])
        await successor.finish()
        await late.close()

    run(scenario)
    found = rows(path, "SELECT page, position, sequence, url, at, kind, fields FROM items")
    assert found == [
        (1, 0, 1, "https://a.example/1", 1e9, "products", '{"n":1}'),
        (3, 0, 2, "https://a.example/3", 1e9, "products", '{"n":3}'),
    ]


def test_page_that_comes_again_replaces_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"

    async def scenario() -> None:
        sink = sink_of(path)
        await sink.open(None)
        await sink.stage([page({"n": 1}, {"n": 2}), page({"n": 5}, id=2)])
        await sink.stage([page({"n": 3}), page({"n": 4})])
        await sink.finish()

    run(scenario)
    found = rows(path, "SELECT fields FROM items ORDER BY page")
    assert [json.loads(fields)["n"] for (fields,) in found] == [4, 5]


def test_locked_or_foreign_file_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    path.write_text("this is no database, but a text of some length" * 50)

    async def scenario() -> None:
        sink = sink_of(path)
        with pytest.raises(SinkUnusable, match="not a SQLite database; name another"):
            await sink.open(None)
        await sink.close()

    run(scenario)
