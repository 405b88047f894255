"""What pages say of themselves for machines."""

from typing import Any

import msgspec

from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.crawl.extract.extract import Extractor
from crawlfleet.crawl.extract.markup import HtmlPage
from crawlfleet.crawl.extract.structured import DEEPEST, structured_data


def of(html: str) -> dict[str, Any]:
    return structured_data(HtmlPage(html.encode(), "https://x.example/a"))


def test_json_ld_of_all_scripts_is_one_list() -> None:
    html = """<script type="application/ld+json">{"@type": "Product", "name": "A"}</script>
      <script type="application/ld+json">[{"@type": "B"}, 5]</script>
      <script type="Application/LD+JSON"><!-- {"@graph": [{"@type": "C"}]} --></script>
      <script type="application/ld+json">{broken</script>"""
    found = of(html)
    assert found == {"json_ld": [{"@type": "Product", "name": "A"}, {"@type": "B"}, {"@type": "C"}]}


def test_open_graph() -> None:
    html = """<meta property="og:title" content="A"><meta property="og:image" content="/1">
      <meta property="og:image" content="/2"><meta name="twitter:card" content="summary">
      <meta name="description" content="no"><meta property="og:empty">"""
    assert of(html) == {
        "open_graph": {"og:title": "A", "og:image": ["/1", "/2"], "twitter:card": "summary"}
    }


def test_microdata_is_nested() -> None:
    html = """<div itemscope itemtype="https://schema.org/Product"><h2 itemprop="name">A</h2>
      <img itemprop="image" src="/a.png"><div itemprop="offers" itemscope itemtype="Offer">
      <meta itemprop="price" content="5"></div></div>"""
    assert of(html)["microdata"] == [
        {
            "type": "https://schema.org/Product",
            "properties": {
                "name": ["A"],
                "image": ["https://x.example/a.png"],
                "offers": [{"type": "Offer", "properties": {"price": ["5"]}}],
            },
        }
    ]


def test_it_is_an_item_of_its_own_and_only_if_there_is_any() -> None:
    extractor = Extractor(make_plan({}, structured=True))
    page = HtmlPage(b'<meta property="og:title" content="A">', "https://x.example/a")
    (item,) = extractor.items(page)
    assert item.kind == "structured"
    assert item.fields == {"page_url": "https://x.example/a", "open_graph": {"og:title": "A"}}
    assert extractor.items(HtmlPage(b"<p>", "https://x.example/a")) == []


def levels(item: dict[str, Any]) -> int:
    inner = [each for own in item["properties"].values() for each in own if isinstance(each, dict)]
    return 1 + max(map(levels, inner), default=0)


def test_microdata_is_nested_only_so_deep() -> None:
    found = of("<div itemscope itemprop=x>" * 400)["microdata"]
    assert sum(map(levels, found)) == 400
    assert max(map(levels, found)) == DEEPEST + 1


def test_microdata_with_several_names_does_not_double_at_each_level() -> None:
    found = of("<div itemscope itemprop='x y'>" * 60)["microdata"]
    assert len(msgspec.json.encode(found)) < 10_000


def test_an_item_may_have_several_names() -> None:
    page = "<p itemscope><b itemscope itemprop='brand maker'><i itemprop=name>A</i></b>"
    (item,) = of(page)["microdata"]
    brand = [{"properties": {"name": ["A"]}}]
    assert item["properties"] == {"brand": brand, "maker": brand}


def test_json_ld_that_is_nested_too_deep_is_left_out() -> None:
    def page(depth: int) -> str:
        value = '{"a":' * depth + "1" + "}" * depth
        return f'<script type="application/ld+json">{value}</script>'

    assert of(page(150))["json_ld"]
    assert of(page(900)) == {}
