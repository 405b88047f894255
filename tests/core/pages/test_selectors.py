"""What people write becomes a plan, or they are told what to write instead."""

from typing import Any

import pytest

from crawlfleet.core.pages.selectors import DEEPEST, MAX_FIELDS, make_plan
from crawlfleet.errors import InvalidRequest
from crawlfleet.model.crawl.extraction import Language, ValueType


def query(text: Any) -> Any:
    (field,) = make_plan({"x": text}).page
    return field.query


@pytest.mark.parametrize(
    ("text", "language", "expression", "taken"),
    [
        ("h2.title", Language.CSS, "h2.title", (None, False, False)),
        ("h2.title::text", Language.CSS, "h2.title", (None, False, False)),
        ("h2.title::own", Language.CSS, "h2.title", (None, False, True)),
        ("div.text::html", Language.CSS, "div.text", (None, True, False)),
        ("a@href", Language.CSS, "a", ("href", False, False)),
        ("a @data-id", Language.CSS, "a", ("data-id", False, False)),
        ("a::attr(href)", Language.CSS, "a", ("href", False, False)),
        ("a::attr( href )", Language.CSS, "a", ("href", False, False)),
        ("@id", Language.CSS, "", ("id", False, False)),
        ("::text", Language.CSS, "", (None, False, False)),
        ("css: a > b", Language.CSS, "a > b", (None, False, False)),
        ('a[title="x@y"]', Language.CSS, 'a[title="x@y"]', (None, False, False)),
        ("p:contains('x')", Language.CSS, "p:lexbor-contains('x')", (None, False, False)),
        ("xpath://a/@href", Language.XPATH, "//a/@href", (None, False, False)),
        ("//a/@href", Language.XPATH, "//a/@href", (None, False, False)),
        ("./b", Language.XPATH, "./b", (None, False, False)),
        ("(//b)[1]", Language.XPATH, "(//b)[1]", (None, False, False)),
        ("$.a.b", Language.JSON, "$.a.b", (None, False, False)),
        ("json:a.b", Language.JSON, "a.b", (None, False, False)),
    ],
)
def test_the_beginning_tells_the_language_and_the_end_what_is_taken(
    text: str, language: Language, expression: str, taken: tuple[Any, ...]
) -> None:
    found = query(text)
    assert (found.language, found.expression) == (language, expression)
    assert (found.attribute, found.html, found.own) == taken


def test_an_object_says_more() -> None:
    written = {"css": "span.price", "type": "price", "many": True, "default": 0, "regex": r"\d+"}
    (field,) = make_plan({"price": written}).page
    assert (field.type, field.many, field.default) == (ValueType.PRICE, True, 0)
    assert field.pattern == r"\d+"


def test_a_map_of_several_css_selectors_is_flat() -> None:
    plan = make_plan({"product": "div.product", "title": "h2"})
    assert [field.name for field in plan.flat] == ["product", "title"]
    assert not plan.page
    assert not plan.groups


def test_one_selector_or_another_language_means_the_page() -> None:
    assert [field.name for field in make_plan({"title": "h1"}).page] == ["title"]
    assert len(make_plan({"title": "h1", "lang": "/html/@lang"}).page) == 2


def test_only_where_it_may_be_inferred_a_key_is_the_item() -> None:
    selectors = {"product": "div.product", "title": "h2"}
    plan = make_plan(selectors, infer_item=False)
    assert [field.name for field in plan.page] == ["product", "title"]
    assert not plan.flat


def test_a_named_item_has_the_selectors_as_its_fields() -> None:
    maker = {"select": ".maker", "fields": {"name": "b"}}
    plan = make_plan({"title": "h2", "maker": maker}, item="div.product")
    (group,) = plan.groups
    assert (group.name, group.many, group.path) == ("items", True, "item")
    assert [field.path for field in group.fields] == ["title", "maker"]
    assert group.fields[1].fields[0].path == "maker.name"
    assert not plan.page
    assert not plan.flat


@pytest.mark.parametrize(
    ("item", "selectors", "field", "remedy"),
    [
        ("div[", {"a": "b"}, "item", "extract"),
        (" ", {"a": "b"}, "item", "selector"),
        ("div@class", {"a": "b"}, "item", "fields"),
        ("div", {}, "item", "`selectors`"),
        ("div", {"a": "//b"}, "selectors.a", "its `item` in xpath"),
        ("//div", {"a": "css:b"}, "selectors.a", "in xpath"),
        ("div", {"page_url": "b"}, "selectors.page_url", "rename"),
    ],
)
def test_a_problem_with_a_named_item_names_the_field(
    item: str, selectors: dict[str, Any], field: str, remedy: str
) -> None:
    with pytest.raises(InvalidRequest) as raised:
        make_plan(selectors, item=item)
    (problem,) = raised.value.problems
    assert problem.field == field
    assert remedy in problem.remedy


def test_no_field_has_the_name_of_the_address_of_the_page() -> None:
    for selectors in (
        {"page_url": "b"},
        {"page_url": "b", "title": "h1"},
        {"rows": {"select": "li", "fields": {"page_url": "a@href"}}},
    ):
        with pytest.raises(InvalidRequest, match=r"page_url: has the name under which"):
            make_plan(selectors)
    deeper = {"select": "li", "fields": {"page_url": "a@href"}}
    make_plan({"rows": {"select": "ul", "fields": {"cells": deeper}}})
    make_plan({"page_url": {"select": "li", "fields": {"a": "b"}}})


def test_groups_stand_beside_fields_of_the_page() -> None:
    plan = make_plan({"title": "h1", "rows": {"select": "tr", "fields": {"a": "td"}}})
    assert [field.name for field in plan.groups] == ["rows"]
    assert [field.name for field in plan.page] == ["title"]
    assert plan.groups[0].many


def test_within_json_a_plain_text_is_a_path() -> None:
    plan = make_plan({"rows": {"select": "$.rows[*]", "fields": {"a": "b.c"}}})
    assert plan.groups[0].fields[0].query.path == ("b", "c")
    script = {"css": "script#data", "json": "$.rows[*]", "fields": {"a": "b"}}
    plan = make_plan({"rows": script})
    assert plan.groups[0].inner == ("rows", None)
    assert plan.groups[0].fields[0].query.language is Language.JSON


def test_nothing_is_an_empty_plan() -> None:
    assert not make_plan({})
    assert make_plan({}, structured=True)


@pytest.mark.parametrize(
    ("selectors", "field", "remedy"),
    [
        ({"a": "div["}, "selectors.a", "crawlfleet extract"),
        ({"a": "h2::text b"}, "selectors.a", "stand at the end"),
        ({"a": ":scope > b"}, "selectors.a", ":scope"),
        ({"a": {"css": "div["}}, "selectors.a.css", "crawlfleet extract"),
        ({"a": "//a["}, "selectors.a", "correct"),
        ({"a": "$.a["}, "selectors.a", "$.products"),
        ({"a": 3}, "selectors.a", "h2.title"),
        ({"a": ["h1"]}, "selectors.a", "h2.title"),
        ({"a": ""}, "selectors.a", ""),
        ({"a": {}}, "selectors.a", "`css`"),
        ({"a": {"css": "b", "xpath": "//b"}}, "selectors.a", "one of"),
        ({"a": {"css": "b", "tpye": "price"}}, "selectors.a.tpye", "'type'"),
        ({"a": {"css": "b", "type": "prize"}}, "selectors.a.type", "price"),
        ({"a": {"css": "b", "regex": "(?=x)"}}, "selectors.a.regex", "look-around"),
        ({"a": {"css": "b", "regex": "("}}, "selectors.a.regex", "RE2"),
        ({"a": {"css": "b", "format": "x"}}, "selectors.a.format", "%d"),
        ({"a": {"css": "b", "type": "text", "format": "%d"}}, "selectors.a.format", "%d"),
        ({"a": {"css": "b@c", "attr": "d"}}, "selectors.a.css", "`attr`"),
        ({"a": {"xpath": "//b", "attr": "d"}}, "selectors.a.attr", "expression"),
        ({"a": {"css": "b", "fields": {}}}, "selectors.a.fields", "at least one"),
        ({"a": {"css": "b", "type": "url", "fields": {"c": "d"}}}, "selectors.a.type", "field"),
        ({"a": {"css": "b@c", "fields": {"c": "d"}}}, "selectors.a", "its fields"),
        ({"a": {"css": "b", "fields": {"c": "//d"}}}, "selectors.a.fields.c", "in css"),
        ({"a": {"xpath": "//b", "fields": {"c": "css:d"}}}, "selectors.a.fields.c", "in xpath"),
        ({"a": {"css": "b", "fields": {"c": "d["}}}, "selectors.a.fields.c", "extract"),
    ],
)
def test_a_problem_names_the_field_and_a_remedy(
    selectors: dict[str, Any], field: str, remedy: str
) -> None:
    with pytest.raises(InvalidRequest) as raised:
        make_plan(selectors)
    (problem,) = raised.value.problems
    assert problem.field == field
    assert remedy in problem.remedy


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidRequest) as raised:
        make_plan({"a": "b[", "c": "d", "e": {"css": "f", "regex": "("}})
    assert [problem.field for problem in raised.value.problems] == [
        "selectors.a",
        "selectors.e.regex",
    ]


def test_a_plan_has_limits() -> None:
    deep: dict[str, Any] = {"a": "b"}
    for _ in range(DEEPEST):
        deep = {"a": {"css": "b", "fields": deep}}
    with pytest.raises(InvalidRequest, match="deep"):
        make_plan(deep)
    with pytest.raises(InvalidRequest, match="more than"):
        make_plan({f"f{number}": "a" for number in range(MAX_FIELDS + 1)})
