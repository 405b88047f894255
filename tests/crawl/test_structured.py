"""What pages say of themselves for machines."""

from crawlfleet.core.selectors import make_plan
from crawlfleet.crawl.extract import Extractor
from crawlfleet.crawl.markup import Page
from crawlfleet.crawl.structured import structured_data


def of(html: str) -> dict[str, object]:
    return structured_data(Page(html.encode(), "https://x.example/a"))


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
    page = Page(b'<meta property="og:title" content="A">', "https://x.example/a")
    (item,) = extractor.items(page)
    assert item.kind == "structured"
    assert item.fields == {"page_url": "https://x.example/a", "open_graph": {"og:title": "A"}}
    assert extractor.items(Page(b"<p>", "https://x.example/a")) == []
