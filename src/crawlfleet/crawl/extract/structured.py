"""Structured data of a page: JSON-LD, OpenGraph and similar, microdata.

Written by hand: extruct would parse each page a second time, and has had no release since 2024.
"""

from typing import Any, Final

from selectolax.lexbor import LexborNode

from crawlfleet.core.pages.values import absolute, read_json
from crawlfleet.crawl.extract.markup import HtmlPage
from crawlfleet.crawl.extract.nesting import nest_into
from crawlfleet.crawl.extract.text import text_of

MOST: Final = 1_000
"""Scripts, properties or microdata items of a page."""
DEEPEST: Final = 50
"""Levels of microdata items within an item; what would have more stands for itself."""
MAX_NAMES: Final = 10
"""Maximum number of names of one microdata property. An item that contains items has only one: with
two on each of fifty levels, a page of two kilobytes would have more values than any memory."""
_PREFIXES: Final = ("og:", "article:", "product:", "book:", "profile:", "video:", "twitter:")
_ADDRESSES: Final = {
    "a": "href",
    "area": "href",
    "link": "href",
    "img": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "iframe": "src",
    "embed": "src",
    "object": "data",
}


def structured_data(page: HtmlPage) -> dict[str, Any]:
    """`json_ld`, `open_graph` and `microdata`, those of them that the page has."""
    found = {
        "json_ld": _json_ld(page),
        "open_graph": _open_graph(page),
        "microdata": _microdata(page),
    }
    return {name: value for name, value in found.items() if value}


def _json_ld(page: HtmlPage) -> list[Any]:
    """The objects of all scripts in one list; graphs and lists are taken apart."""
    objects: list[Any] = []
    for script in page.find('script[type="application/ld+json" i]')[:MOST]:
        value = read_json(_bare(script.text()))
        several = value if isinstance(value, list) else [value]
        for each in several:
            graph = each.get("@graph") if isinstance(each, dict) else None
            objects += graph if isinstance(graph, list) else [each]
    return [each for each in objects if isinstance(each, dict)][:MOST]


def _bare(script: str) -> str:
    """Return the script without the comment marks in which old pages hide scripts."""
    text = script.strip()
    for begin, end in (("<!--", "-->"), ("//<![CDATA[", "//]]>"), ("<![CDATA[", "]]>")):
        if text.startswith(begin):
            text = text.removeprefix(begin).removesuffix(end).strip()
    return text


def _open_graph(page: HtmlPage) -> dict[str, Any]:
    """Return the OpenGraph values by property; a property that comes several times has a list."""
    found: dict[str, Any] = {}
    for meta in page.find("meta[property], meta[name]")[:MOST]:
        attributes = meta.attributes
        name = (attributes.get("property") or attributes.get("name") or "").lower()
        content = attributes.get("content")
        if not content or not name.startswith(_PREFIXES):
            continue
        if name not in found:
            found[name] = content
        elif isinstance(found[name], list):
            found[name].append(content)
        elif found[name] != content:
            found[name] = [found[name], content]
    return found


def _microdata(page: HtmlPage) -> list[dict[str, Any]]:
    """The items of the page, with their types and properties; items within items are nested."""
    scopes = page.find("[itemscope]")[:MOST]
    if not scopes:
        return []
    items = [_bare_item(scope) for scope in scopes]
    made = {scope.mem_id: item for scope, item in zip(scopes, items, strict=True)}
    inner: set[int] = set()
    heights: dict[int, int] = {}
    properties = nest_into(scopes, page.find("[itemprop]")[: 10 * MOST])
    # Backwards: what is within an item is known before the item itself.
    for item, own in zip(reversed(items), reversed(properties), strict=True):
        height = 0
        for node in own:
            names = (node.attributes.get("itemprop") or "").split()[:MAX_NAMES]
            value = made.get(node.mem_id)
            if value is None:
                for name in names:
                    item["properties"].setdefault(name, []).append(_property(node, page))
                continue
            inside = heights.get(id(value), 0)
            if not names or inside >= DEEPEST:
                continue  # it stays an item of its own
            height = max(height, inside + 1)
            inner.add(id(value))
            for name in names[:1] if inside else names:
                item["properties"].setdefault(name, []).append(value)
        heights[id(item)] = height
    return [item for item in items if id(item) not in inner]


def _bare_item(scope: LexborNode) -> dict[str, Any]:
    kind = scope.attributes.get("itemtype")
    return {**({"type": kind} if kind else {}), "properties": {}}


def _property(node: LexborNode, page: HtmlPage) -> str | None:
    attributes = node.attributes
    if attributes.get("content") is not None:
        return attributes["content"]
    address = _ADDRESSES.get(node.tag or "")
    if address is not None:
        return absolute(page.base, page.spelt(attributes.get(address) or ""))
    stated = attributes.get("datetime") or attributes.get("value")
    return stated or " ".join(text_of(node, page.allowance).split())
