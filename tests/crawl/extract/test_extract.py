"""What a plan takes out of a page."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.crawl.extract import containers
from crawlfleet.crawl.extract.extract import Extractor
from crawlfleet.crawl.extract.markup import HtmlPage
from crawlfleet.crawl.extract.page_reader import open_page
from crawlfleet.model.crawl.extraction import Item
from tests.sampling import examples

SHOP = "https://example.com/products"
SELECTORS = {"product": "div.product", "title": "h2.title", "price": "span.price"}
PRODUCTS = """<html><head><title>Shop</title></head><body><h2 class="title">Our products</h2>
<div class="product"><h2 class="title"> Product
  1 </h2><span class="price">$19.99</span><a href="/products/1">more</a> <a href="/x">x</a></div>
<div class="product"><a href="/products/2"><h2 class="title">Product <b>2</b></h2></a>
  <p>now <span class="price">$29.99</span></p></div>
</body></html>"""


def items(html: str, selectors: dict[str, Any], **how: Any) -> list[Item]:
    return Extractor(make_plan(selectors, **how)).items(HtmlPage(html.encode(), SHOP))


def own(item: Item) -> dict[str, Any]:
    """The fields that the selectors name; the page's address, which every item has, is checked."""
    fields = dict(item.fields)
    assert fields.pop("page_url") == SHOP
    return fields


def one(html: str, field: Any) -> Any:
    found = items(html, {"x": field})
    return found[0].fields["x"] if found else None


def test_the_example_of_the_flat_map() -> None:
    """The products of a shop, named and shaped as the API's example of a finished task has them."""
    assert items(PRODUCTS, SELECTORS) == [
        Item(
            kind="products",
            fields={
                "page_url": SHOP,
                "title": "Product 1",
                "price": "$19.99",
                "url": "https://example.com/products/1",
            },
        ),
        Item(
            kind="products",
            fields={
                "page_url": SHOP,
                "title": "Product 2",
                "price": "$29.99",
                "url": "https://example.com/products/2",
            },
        ),
    ]


@pytest.mark.parametrize(
    "order",
    [("product", "title", "price"), ("price", "product", "title"), ("title", "price", "product")],
)
def test_the_order_of_the_keys_does_not_matter(order: tuple[str, ...]) -> None:
    found = items(PRODUCTS, {name: SELECTORS[name] for name in order})
    assert [dict(item.fields) for item in found] == [
        dict(item.fields) for item in items(PRODUCTS, SELECTORS)
    ]
    assert {item.kind for item in found} == {"products"}


def test_what_was_on_earlier_pages_does_not_matter() -> None:
    pages = [
        PRODUCTS,
        '<h2 class="title">About <span class="price">us</span></h2>',
        '<div class="product"></div>',
        '<span class="price">$1</span>',
        "<p>nothing</p>",
        '<h2 class="title"><div class="product"><span class="price">9</span></div></h2>',
    ]
    alone = [items(page, SELECTORS) for page in pages]
    extractor = Extractor(make_plan(SELECTORS))
    forwards = [extractor.items(HtmlPage(page.encode(), SHOP)) for page in pages]
    backwards = [extractor.items(HtmlPage(page.encode(), SHOP)) for page in reversed(pages)]
    assert alone == forwards == backwards[::-1]


def test_without_a_container_the_page_is_the_item() -> None:
    found = items('<h1>Tea</h1><p class="price">$3</p>', {"title": "h1", "price": ".price"})
    assert found == [Item(kind="pages", fields={"page_url": SHOP, "title": "Tea", "price": "$3"})]


def test_a_page_without_anything_gives_nothing() -> None:
    assert items("<p>nothing</p>", SELECTORS) == []
    assert items("", SELECTORS) == []
    assert items("<p>nothing</p>", {"title": "h1"}) == []


def test_the_outermost_key_is_the_item() -> None:
    html = """<section><div class="product"><h2>A</h2></div><div class="product"><h2>B</h2></div>
    </section>"""
    found = items(html, {"title": "h2", "product": ".product", "section": "section"})
    assert [item.kind for item in found] == ["sections"]


def test_an_item_that_is_a_link_is_its_own_url() -> None:
    html = '<a class="card" href="/1"><h3>A</h3></a><a class="card" href="/2"><h3>B</h3></a>'
    found = items(html, {"card": "a.card", "title": "h3"})
    assert [own(item) for item in found] == [
        {"title": "A", "url": "https://example.com/1"},
        {"title": "B", "url": "https://example.com/2"},
    ]


def test_an_own_url_field_wins_and_a_missing_link_is_none() -> None:
    html = '<div class="product"><h2>A</h2><a href="/a">x</a><i>id-1</i></div>'
    found = items(html, {"product": ".product", "title": "h2", "url": "i"})
    assert own(found[0]) == {"title": "A", "url": "id-1"}
    found = items('<div class="product"><h2>A</h2></div>', {"product": ".product", "title": "h2"})
    assert own(found[0]) == {"title": "A", "url": None}


def test_the_first_link_leads_to_a_page() -> None:
    html = """<div class="p"><h2>A</h2><link itemprop="url" href="/meta"><a href="#top">up</a>
      <a href="javascript:buy()">buy</a><a href="/a">more</a></div>"""
    found = items(html, {"p": ".p", "title": "h2"})
    assert found[0].fields["url"] == "https://example.com/a"


def test_items_within_items_keep_to_themselves() -> None:
    html = """<div class="comment"><b>Ann</b><div class="comment"><b>Bob</b><i>hi</i></div></div>"""
    found = items(html, {"comment": ".comment", "author": "b", "text": "i"})
    assert [(item.fields["author"], item.fields["text"]) for item in found] == [
        ("Ann", None),
        ("Bob", "hi"),
    ]


def test_relative_links_follow_the_base_element() -> None:
    html = '<base href="//cdn.example/dir/"><div class="p"><h2>A</h2><a href="x">x</a></div>'
    found = items(html, {"p": ".p", "title": "h2"})
    assert found[0].fields["url"] == "https://cdn.example/dir/x"


EXPLICIT = {
    "products": {
        "select": "div.product",
        "many": True,
        "fields": {
            "title": "h2.title::text",
            "price": {"css": "span.price", "type": "price"},
            "tags": {"css": "li.tag", "many": True},
            "link": "a@href",
        },
    }
}


def test_the_explicit_form() -> None:
    html = """<div class="product"><h2 class="title">A</h2><span class="price">1.299,00 €</span>
      <ul><li class="tag">new<li class="tag"> red </ul><a href="/a">more</a></div>
      <div class="product"><h2 class="title">B</h2></div>"""
    found = items(html, EXPLICIT)
    assert {item.kind for item in found} == {"products"}
    assert [own(item) for item in found] == [
        {"title": "A", "price": 1299.0, "tags": ["new", "red"], "link": "/a"},
        {"title": "B", "price": None, "tags": [], "link": None},
    ]


BLOG = """<article class="post"><h1>First post</h1><p>Read <a href="https://elsewhere.example/">
  this</a>.</p></article>"""
POST = {"title": "article.post h1", "text": "article.post"}


def test_no_named_field_vanishes_where_the_page_is_the_item() -> None:
    """Also if its matches are around those of all others; and no link is taken for the page's
    address."""
    found = items(BLOG, POST, infer_item=False)
    assert [item.kind for item in found] == ["pages"]
    assert own(found[0]) == {"title": "First post", "text": "First post Read this."}
    # In the flat map of a task, the key around the others is the item.
    (inferred,) = items(BLOG, POST)
    assert (inferred.kind, inferred.fields["page_url"]) == ("texts", SHOP)


def test_each_match_of_a_named_item_is_one() -> None:
    found = items(PRODUCTS, {"title": "h2.title", "link": "a@href"}, item="div.product")
    assert [item.kind for item in found] == ["items", "items"]
    assert [own(item) for item in found] == [
        {"title": "Product 1", "link": "/products/1"},
        {"title": "Product 2", "link": "/products/2"},
    ]
    assert items(BLOG, {"title": "h1"}, item="div.product") == []


def test_fields_of_a_named_item_may_be_around_each_other() -> None:
    html = '<div class="p"><p>one <b>two</b></p></div>'
    (item,) = items(html, {"all": "p", "some": "b", "whole": "::text"}, item=".p")
    assert own(item) == {"all": "one two", "some": "two", "whole": "one two"}


def test_named_items_of_xpath_and_of_json() -> None:
    (item,) = items("<ul><li><b>1</b></ul>", {"n": "//b", "all": "xpath:."}, item="//li")
    assert own(item) == {"n": "1", "all": "1"}
    page, document = open_page(b'{"rows": [{"n": 1}, {"n": 2}]}', SHOP, "application/json")
    found = Extractor(make_plan({"n": "n"}, item="$.rows[*]")).items(page, document)
    assert [own(item) for item in found] == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("number('12345678')", "12345678"),
        ("count(//p)", "2"),
        ("number('0.1')", "0.1"),
        ("0.1 + 0.2", "0.3"),
        ("number('1234567.125')", "1234567.125"),
        ("-0", "0"),
        ("number('1e3')", "1000"),
        ("number('1000000000000000000000')", "1000000000000000000000"),
        ("number('9007199254740993')", "9007199254740992"),
        ("1 div 8000000", "0.000000125"),
        ("number('sold out')", None),
        ("1 div 0", None),
        ("-1 div 0", None),
    ],
)
def test_numbers_of_xpath_keep_their_digits(expression: str, text: str | None) -> None:
    assert one("<p>a<p>b", {"xpath": expression}) == text


def test_numbers_of_xpath_are_numbers_where_those_are_wanted() -> None:
    html = "<i>19.99</i><i>29.99</i>"
    assert one(html, {"xpath": "sum(//i)", "type": "number"}) == 49.98
    assert one(html, {"xpath": "12345678", "type": "integer"}) == 12345678
    assert one(html, {"xpath": "number('x')", "type": "number", "default": 0}) is None


def test_groups_within_groups() -> None:
    html = """<table><caption>T</caption><tr><td>1<td>2</tr><tr><td>3<td>4</tr></table>
      <table><caption>U</caption><tr><td>5</tr></table><table></table>"""
    cell = {"select": "td", "many": True, "fields": {"value": {"css": "::text", "type": "integer"}}}
    row = {"select": "tr", "many": True, "fields": {"cells": cell}}
    plan = {"tables": {"select": "table", "fields": {"name": "caption", "rows": row}}}
    found = items(html, plan)
    assert [item.fields["name"] for item in found] == ["T", "U", None]
    assert found[0].fields["rows"] == [
        {"cells": [{"value": 1}, {"value": 2}]},
        {"cells": [{"value": 3}, {"value": 4}]},
    ]
    assert found[2].fields["rows"] == []


def test_a_group_of_one_is_an_object() -> None:
    maker = {"select": ".maker", "fields": {"name": "b"}}
    plan = {"products": {"select": ".p", "fields": {"title": "h2", "maker": maker}}}
    found = items("<div class=p><h2>A</h2><p class=maker><b>M</b></div><div class=p></div>", plan)
    assert [item.fields["maker"] for item in found] == [{"name": "M"}, None]


def test_page_fields_beside_groups() -> None:
    plan = {"heading": "h1", "rows": {"select": "li", "fields": {"text": "::text"}}}
    found = items("<h1>H</h1><ul><li>a<li>b</ul>", plan)
    assert [(item.kind, own(item)) for item in found] == [
        ("rows", {"text": "a"}),
        ("rows", {"text": "b"}),
        ("pages", {"heading": "H"}),
    ]


@pytest.mark.parametrize(
    ("html", "field", "value"),
    [
        ("<h1> a <b>b</b>c </h1>", "h1", "a bc"),
        ("<p>a<br>b</p>", "p", "a b"),
        ("<div>a<p>b</p><p>c</p>d</div>", "div", "a b c d"),
        ("<div>H<sub>2</sub>O</div>", "div", "H2O"),
        ("<div>a<script>x()</script><style>y</style><!-- z -->b</div>", "div", "ab"),
        ("<p>a<b>b</b></p>", "p::own", "a"),
        ("<p>a<b>b</b></p>", "p::html", "<p>a<b>b</b></p>"),
        ("<p></p><p>second</p>", "p", "second"),
        ("<p>a</p>", "h1, p", "a"),
        ("<input disabled>", "input@disabled", None),
        ('<i data-x=" 5 ">', {"css": "i", "attr": "data-x", "type": "integer"}, 5),
        ("<p>12 reviews, 5 stars", {"css": "p", "regex": r"(\d+) stars"}, "5"),
        ("<p>12 reviews", {"css": "p", "regex": r"\d+", "type": "integer"}, 12),
        ("<p>none", {"css": "p", "regex": r"\d+", "default": 0}, None),
        ("<p>1<p>x<p>3", {"css": "p", "type": "integer", "many": True}, [1, 3]),
        ("<p>x<p>3", {"css": "p", "type": "integer"}, 3),
        ("<p>0", {"css": "p", "type": "integer"}, 0),
        (
            '<a href="../a?b=c d">',
            {"css": "a@href", "type": "url"},
            "https://example.com/a?b=c%20d",
        ),
        ("<p class=hot>", {"css": "p.hot", "type": "exists"}, True),
        ('<time datetime="2026-11-15">', {"css": "time@datetime", "type": "date"}, "2026-11-15"),
        ("<p>a</p>", "//p", "a"),
        ("<p>a<br>b<i>c</i></p>", "//p", "a bc"),
        ("<html lang=en><p>a", "/html/@lang", "en"),
        ("<p>a<p>b", {"xpath": "count(//p)", "type": "integer"}, 2),
        ("<p>a<p>b", {"xpath": "//p/text()", "many": True}, ["a", "b"]),
        ("<p>a<p>b", "xpath:boolean(//p)", "true"),
        ('<script id=d>{"a": [{"b": 1}]}</script>', {"css": "#d", "json": "a[0].b"}, 1),
        ("<script id=d>{broken</script>", {"css": "#d", "json": "a"}, None),
        ("<p>one</p><p>two</p>", 'p:contains("two")', "two"),
    ],
)
def test_one_field(html: str, field: Any, value: Any) -> None:
    assert one(html, field) == value


def test_xpath_groups_look_within_their_matches() -> None:
    html = "<ul><li><b>1</b><a href=/1>x</a></li><li><b>2</b></li></ul>"
    plan = {"rows": {"xpath": "//li", "fields": {"b": "//b", "link": "./a/@href"}}}
    assert [own(item) for item in items(html, plan)] == [
        {"b": "1", "link": "/1"},
        {"b": "2", "link": None},
    ]


def test_json_in_a_script_can_be_a_group() -> None:
    html = '<script id="d">{"rows": [{"t": "A", "p": "$5"}, {"t": "B"}]}</script>'
    price = {"json": "p", "type": "price"}
    plan = {"rows": {"css": "#d", "json": "$.rows[*]", "fields": {"title": "t", "price": price}}}
    assert [own(item) for item in items(html, plan)] == [
        {"title": "A", "price": 5.0},
        {"title": "B", "price": None},
    ]


def test_a_json_page() -> None:
    body = b'{"products": [{"name": "A", "tags": ["x", "y"], "offer": {"price": 5}}], "n": 1}'
    tags = {"json": "tags[*]", "many": True}
    plan = {
        "products": {
            "select": "$.products[*]",
            "fields": {"name": "name", "tags": tags, "price": "$.offer.price"},
        },
        "total": "$.n",
        "heading": "h1",
    }
    page, document = open_page(body, SHOP, "application/json")
    found = Extractor(make_plan(plan)).items(page, document)
    assert [(item.kind, own(item)) for item in found] == [
        ("products", {"name": "A", "tags": ["x", "y"], "price": 5}),
        ("pages", {"total": 1, "heading": None}),
    ]


def test_what_was_caught_is_counted() -> None:
    page = HtmlPage(PRODUCTS.encode(), SHOP)
    assert Extractor(make_plan(SELECTORS)).caught(page) == {"product": 2, "title": 3, "price": 2}
    caught = Extractor(make_plan(EXPLICIT)).caught(page)
    assert caught["products"] == 2
    assert caught["products.title"] == 2
    assert caught["products.tags"] == 0
    assert Extractor(make_plan(SELECTORS)).container(page) == "product"
    named = make_plan({"title": "h2.title", "sold": "em"}, item="div.product")
    assert Extractor(named).caught(page) == {"item": 2, "title": 2, "sold": 0}


PIECES = st.sampled_from(
    ['<div class="product">', "</div>", '<h2 class="title">', "</h2>", '<span class="price">9',
     "</span>", '<a href="/a">', "</a>", "text", '<section class="product">', "</section>",
     '<div class="product price">', '<h2 class="title"><div class="product">', "<p>",
     '<a class="title" href="/b">', '<area href="/c">', '<span class="title">', "<svg>", "</svg>",
     '<a class="title">', '<foreignObject class="title">']
)  # fmt: skip
PAGES = st.lists(st.lists(PIECES, max_size=25).map("".join), max_size=4)
FLAT = st.sampled_from(
    [
        SELECTORS,
        {"product": "div.product", "title": "h2.title", "price": "div.price"},
        {"product": ".product", "title": "h2.title", "price": "span.price"},
        {"product": "div.product", "title": "h2", "price": ".price"},
        {"title": "h2.title", "price": "span.price"},
        {"product": "div.product", "title": "a.title", "price": "span.price"},
        {"product": "div.product", "title": "span.title", "price": "span.price"},
        {"product": "div.product", "title": "H2.title", "url": "span.title"},
        {"product": "div.product", "title": "foreignobject.title", "price": "span"},
        {"product": "div.product", "title": "foreignObject.title", "price": "area"},
        {"product": "div.product"},
    ]
)


@settings(max_examples=examples(200), deadline=None)
@given(FLAT, PAGES)
def test_fields_within_few_items_are_those_of_the_whole_page(
    selectors: dict[str, Any], pages: list[str]
) -> None:
    extractor = Extractor(make_plan(selectors))
    for html in pages:
        found = extractor.items(HtmlPage(html.encode(), SHOP))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(containers, "FEW", 0)
            assert found == items(html, selectors)
