"""Which fields of a crawl no item has had a value for."""

from typing import Any

import pytest

from crawlfleet.core.crawls.empty_fields import (
    MAX_NAMED,
    fields_of,
    in_words,
    selectors_of,
    still_empty,
)
from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.model.crawl.extraction import EmptyFields, Item

FLAT = make_plan({"product": "div.product", "title": "h2", "price": "span"})
MAKER = {"select": ".maker", "fields": {"name": "b", "city": "i@title"}}
NAMED = make_plan({"title": "h2", "maker": MAKER, "n": "::text"}, item="div.product")
PAGE = make_plan({"title": "h1", "sold": {"css": "em", "type": "exists"}}, infer_item=False)
GROUPS = make_plan({"rows": {"select": "tr", "fields": {"a": "td"}}, "heading": "h1"})
COUNT = make_plan(
    {"n": {"css": "b", "type": "integer", "default": -1}, "t": {"css": "i", "many": True}}
)


def test_every_field_has_its_selector() -> None:
    assert fields_of(NAMED) == ("item", "title", "maker", "n", "maker.name", "maker.city")
    assert selectors_of(NAMED, ("title", "maker.city", "n")) == {
        "title": "h2",
        "n": "::text",
        "maker.city": "i@title",
    }
    assert selectors_of(make_plan({"a": "//b", "c": "$.d"}), ("a", "c")) == {"a": "//b", "c": "$.d"}


def test_of_a_group_that_catches_nothing_its_fields_are_not_told_of() -> None:
    assert selectors_of(NAMED, fields_of(NAMED)) == {"item": "div.product"}
    assert selectors_of(NAMED, ("maker", "maker.name")) == {"maker": ".maker"}


@pytest.mark.parametrize(
    ("plan", "items", "left"),
    [
        (PAGE, [], ("title", "sold")),
        (PAGE, [("pages", {"title": None, "sold": False})], ("title", "sold")),
        (PAGE, [("pages", {"title": "A", "sold": False}), ("pages", {"sold": True})], ()),
        (PAGE, [("structured", {"title": "A"})], ("title", "sold")),
        (FLAT, [("products", {"title": "A", "price": None, "url": "x"})], ("price",)),
        (FLAT, [("pages", {"product": None, "title": "A", "price": None})], ("product", "price")),
        (FLAT, [("pages", {"product": "B", "title": None, "price": None})], ("title", "price")),
        (GROUPS, [("rows", {"a": None})], ("heading", "rows.a")),
        (GROUPS, [("pages", {"heading": "A"}), ("rows", {"a": "1"})], ()),
        (NAMED, [("items", {"title": None, "maker": None, "n": "x"})],
         ("title", "maker", "maker.name", "maker.city")),
        (NAMED, [("items", {"title": "A", "maker": {"name": "M", "city": None}})],
         ("n", "maker.city")),
        (COUNT, [("pages", {"n": -1, "t": []})], ("n", "t")),
        (COUNT, [("pages", {"n": 0, "t": ["x"]})], ()),
    ],
)  # fmt: skip
def test_a_field_is_empty_until_an_item_has_a_value(
    plan: Any, items: list[tuple[str, dict[str, Any]]], left: tuple[str, ...]
) -> None:
    found = [Item(kind=kind, fields=fields) for kind, fields in items]
    assert still_empty(plan, fields_of(plan), found) == left


def test_people_are_told_field_and_selector() -> None:
    assert in_words(EmptyFields({"a": "b.c"}, 1)) == "nothing is caught on 1 page by a (b.c)"
    many = {f"f{n}": "x" for n in range(MAX_NAMED + 3)}
    assert in_words(EmptyFields(many, 20)).endswith("f9 (x) and 3 more")
