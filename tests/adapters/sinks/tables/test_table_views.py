"""The view beside a table of items: a column for each field, whatever the fields are called."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from crawlfleet.adapters.sinks.tables.by_url import from_spec, table_of
from crawlfleet.adapters.sinks.tables.view import (
    LONGEST_FIELD,
    MAX_COLUMNS,
    OWN,
    quoted,
    view_of,
    with_fields,
)
from crawlfleet.errors import InvalidRequest, SinkUnusable
from crawlfleet.model.crawl.parameters import SinkSpec
from crawlfleet.ports.sink import PageRecord, Sink
from tests.adapters.sink_pages import page, run

BESIDE = ["page_url", *OWN]
HOSTILE = [
    'x"; DROP TABLE items; --',
    "it's",
    "'); DELETE FROM items; --",
    "a.b[0]",
    "$",
    "[0]",
    "0",
    "",
    " ",
    "two words",
    "größe 茶",
    "back\\slash",
    "line\nbreak",
    '"',
    "%s {x} :y ?1 $1",
    "select",
    "/*",
]


def sink_of(path: Path, *columns: str, table: str = "items") -> Sink:
    url = f"sqlite:///{path}?table={quote(table)}"
    return from_spec(SinkSpec(url=url, columns=columns))


def staged(path: Path, *pages: PageRecord, columns: tuple[str, ...] = (), **more: Any) -> None:
    """A whole crawl; each page is a stage."""

    async def scenario() -> None:
        sink = sink_of(path, *columns, **more)
        await sink.open(None)
        for each in pages:
            await sink.stage([each])
        told = await sink.finish()
        assert told["view"] == view_of(more.get("table", "items"))

    run(scenario)


def viewed(path: Path, view: str = "items_fields") -> list[dict[str, Any]]:
    """The rows of the view without what it has beside the fields."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        found = [*connection.execute(f"SELECT * FROM {quoted(view)} ORDER BY page_url")]
    return [{name: row[name] for name in row.keys() if name not in BESIDE} for row in found]  # noqa: SIM118


def test_each_field_of_the_crawl_is_a_column_before_anything_is_found(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    staged(path, columns=("page_url", "title", "price"))
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT * FROM items_fields")
    assert [name for name, *_ in found.description] == [*BESIDE, "title", "price"]


def test_values_are_those_of_the_items(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    item = {"page_url": "x", "t": "a'\"\n茶", "n": 19.99, "i": 3, "l": [1, "b"], "no": None}
    staged(path, page(item, kind="teas"))
    assert viewed(path) == [{"t": "a'\"\n茶", "n": 19.99, "i": 3, "l": '[1,"b"]', "no": None}]
    with closing(sqlite3.connect(path)) as connection:
        (row,) = connection.execute("SELECT page_url, item_kind, visited_at FROM items_fields")
        (crawls,) = connection.execute("SELECT count(DISTINCT crawl_id) FROM items_fields")
    assert row == ("https://a.example/1", "teas", "2001-09-09T01:46:40Z")
    assert crawls == (1,)


def test_names_are_only_names(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    staged(path, page({name: number for number, name in enumerate(HOSTILE)}))
    (row,) = viewed(path)
    assert [*row.values()] == [*range(len(HOSTILE))]
    assert [name for name in HOSTILE if name not in row] == [""]
    assert row["field"] == HOSTILE.index("")


@pytest.mark.parametrize("table", ['t"; DROP TABLE y; --', "two words", "x" * 60, "茶" * 21])
def test_the_view_of_any_table_is_only_a_view(tmp_path: Path, table: str) -> None:
    path = tmp_path / "shop.db"
    staged(path, page({"n": 1}), table=table)
    view = view_of(table)
    assert len(view.encode()) <= 63
    assert viewed(path, view) == [{"n": 1}]


def test_new_fields_come_after_the_columns_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    staged(path, page({"a": 1}), page({"b": 2}, id=2), columns=("a",))
    staged(path, page({"c": 3, "a": 4}, id=3), columns=("c", "a"))
    assert viewed(path) == [
        {"a": 1, "b": None, "c": None},
        {"a": None, "b": 2, "c": None},
        {"a": 4, "b": None, "c": 3},
    ]


def test_a_crawl_that_goes_on_keeps_its_view(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"

    async def scenario() -> None:
        sink = sink_of(path, "a")
        await sink.open(None)
        receipt = await sink.stage([page({"a": 1})])
        await sink.stage([page({"b": 2}, id=2)])  # not committed
        await sink.close()
        again = sink_of(path, "a")
        await again.open(receipt)
        await again.stage([page({"b": 3}, id=3)])
        await again.finish()

    run(scenario)
    assert viewed(path) == [{"a": 1, "b": None}, {"a": None, "b": 3}]


def test_what_an_earlier_version_wrote_is_in_the_view(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    staged(path, page({"old": 1}))
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("DROP VIEW items_fields; DROP TABLE crawlfleet_columns")
    staged(path, page({"new": 2}, id=2), columns=("new",))
    assert viewed(path) == [{"new": None, "old": 1}, {"new": 2, "old": None}]


def test_a_view_that_was_removed_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    staged(path, page({"a": 1}))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP VIEW items_fields")
    staged(path)
    assert viewed(path) == [{"a": 1}]


@pytest.mark.parametrize("thing", ["VIEW items_fields AS SELECT 1", "TABLE Items_Fields (a)"])
def test_what_is_somebody_elses_is_not_touched(tmp_path: Path, thing: str) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE {thing}")

    async def scenario() -> None:
        sink = sink_of(path)
        with pytest.raises(SinkUnusable, match=r"rename it, or name another table by \?table="):
            await sink.open(None)
        await sink.close()

    run(scenario)
    with closing(sqlite3.connect(path)) as connection:
        assert [*connection.execute("SELECT name FROM sqlite_master")] == [(thing.split()[1],)]


def test_names_that_differ_in_case_alone_are_told_apart() -> None:
    columns = with_fields([], ["Title", "title", "TITLE", "title_2", "Item_Kind", "PAGE_URL"])
    assert [column.name for column in columns] == [
        "page_url",
        "Title",
        "title_2",
        "TITLE_3",
        "title_2_2",
        "Item_Kind_2",
        "PAGE_URL_2",
    ]
    assert with_fields(columns, ["title", "Title"]) == columns


def test_long_names_are_cut_and_told_apart() -> None:
    columns = with_fields([], [f"{'茶' * 40}{n}" for n in range(12)])
    names = [column.name for column in columns]
    assert len({name.lower() for name in names}) == 13
    assert all(len(name.encode()) <= 63 for name in names)


def test_there_are_columns_for_so_many_fields(tmp_path: Path) -> None:
    many = [f"{n:04}{'x' * (LONGEST_FIELD - 4)}" for n in range(MAX_COLUMNS + 5)]
    assert len(with_fields([], many)) == MAX_COLUMNS
    assert len(with_fields([], ["x" * (LONGEST_FIELD + 1), "a\0b"])) == 1
    path = tmp_path / "shop.db"
    staged(path, page({"n": 1}), columns=tuple(many))
    assert len(viewed(path)[0]) == MAX_COLUMNS - 1


def test_no_table_has_the_name_of_that_of_the_columns() -> None:
    with pytest.raises(InvalidRequest, match="has another use"):
        table_of("sqlite:///x.db?table=crawlfleet_columns")
