"""CSS selectors find what another engine finds."""

from html import escape

import pytest
from cssselect import HTMLTranslator
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import html as lxml_html

from crawlfleet.core.pages import css
from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.crawl.extract.css_search import _by_parts, find
from crawlfleet.crawl.extract.extract import Extractor
from crawlfleet.crawl.extract.markup import HtmlPage
from tests.sampling import examples

pytestmark = pytest.mark.slow

TAGS = ("div", "span", "section", "b", "i")
CLASSES = ("x", "y", "z")

attributes = st.fixed_dictionaries(
    {},
    optional={
        "class": st.lists(st.sampled_from(CLASSES), min_size=1, max_size=2).map(" ".join),
        "title": st.sampled_from(["a", "a-b", "a b", ""]),
        "lang": st.sampled_from(["en", "en-GB"]),
    },
)
# Trees of elements that every parser leaves where they were written.
nodes = st.recursive(
    st.tuples(st.sampled_from(TAGS), attributes, st.just([])),
    lambda inner: st.tuples(st.sampled_from(TAGS), attributes, st.lists(inner, max_size=4)),
    max_leaves=25,
)
simple = st.sampled_from(
    [
        *TAGS,
        *(f".{name}" for name in CLASSES),
        "*",
        "div.x",
        "[title]",
        "[title=a]",
        "[title^=a]",
        "[title*=b]",
        "[title~=b]",
        "[lang|=en]",
        "b:first-child",
        "b:last-child",
        "*:nth-child(2n+1)",
        "div:nth-of-type(2)",
        "i:only-child",
        "span:not(.x)",
        "div:empty",
    ]
)
selectors = st.lists(
    st.tuples(st.sampled_from([" ", " > ", " + ", " ~ "]), simple), min_size=1, max_size=4
).map(lambda parts: "".join(joint + part for joint, part in parts).lstrip(" >+~"))
alternatives = st.lists(selectors, min_size=1, max_size=2).map(", ".join)


def written(tree: list[tuple], numbers: list[int]) -> str:
    """The mark-up of a tree, each element with a number of its own."""
    parts = []
    for tag, own, inner in tree:
        numbers.append(len(numbers))
        attributes = "".join(f' {name}="{escape(value)}"' for name, value in own.items())
        start = f'<{tag} id="n{numbers[-1]}"{attributes}>'
        parts.append(f"{start}{written(inner, numbers)}</{tag}>")
    return "".join(parts)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(nodes, max_size=5), alternatives)
def test_the_same_elements_are_found_in_the_same_order(tree: list[tuple], selector: str) -> None:
    page = f"<html><head></head><body><main>{written(tree, [])}</main></body></html>"
    other = lxml_html.document_fromstring(page).xpath(HTMLTranslator().css_to_xpath(selector))
    expected = [id for element in other if (id := element.get("id"))]
    ours = HtmlPage(page.encode(), "https://x.example/")
    for found in (find(ours, selector, css.chains(selector)), _by_parts(ours, selector)):
        ids = [id for node in found if (id := node.attributes.get("id"))]
        assert list(dict.fromkeys(ids)) == expected


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(nodes, max_size=5), selectors, selectors)
def test_fields_belong_to_the_nearest_item(tree: list[tuple], item: str, field: str) -> None:
    page = f"<html><head></head><body><main>{written(tree, [])}</main></body></html>"
    group = {"select": item, "fields": {"id": "@id", "found": {"css": f"{field}@id", "many": True}}}
    found = Extractor(make_plan({"rows": group})).items(
        HtmlPage(page.encode(), "https://x.example/")
    )

    document = lxml_html.document_fromstring(page)
    translate = HTMLTranslator().css_to_xpath
    items = document.xpath(translate(item))
    expected = {id(element): (element.get("id"), []) for element in items}
    for match in document.xpath(translate(field)):
        owner = next((each for each in _upwards(match) if id(each) in expected), None)
        if owner is not None and match.get("id"):
            expected[id(owner)][1].append(match.get("id"))
    assert [(row.fields["id"], row.fields["found"]) for row in found] == list(expected.values())


def _upwards(element):
    yield element
    yield from element.iterancestors()
