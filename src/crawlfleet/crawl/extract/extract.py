"""Runs a plan on a page.

CSS fields are looked for in the whole page once, and each match is then given to the nearest item
around it: that is as many searches as there are fields, however many items the page has.
"""

from collections.abc import Sequence
from typing import Any, Final

from selectolax.lexbor import LexborNode

from crawlfleet.core.crawls.empty_fields import has_value
from crawlfleet.core.pages import json_path
from crawlfleet.core.pages.selectors import plural
from crawlfleet.core.pages.values import absolute
from crawlfleet.crawl.extract.containers import ANCHORS, choose, inside
from crawlfleet.crawl.extract.fields import MOST, FieldReader
from crawlfleet.crawl.extract.links import leads_on
from crawlfleet.crawl.extract.markup import HtmlPage, search
from crawlfleet.crawl.extract.nesting import lies_within, nest_into, sort_into
from crawlfleet.crawl.extract.structured import structured_data
from crawlfleet.model.crawl.extraction import (
    FIRST_LINK,
    PAGE_URL,
    PAGES,
    STRUCTURED,
    ExtractionPlan,
    Item,
    Language,
)

MAX_ITEMS: Final = 100_000
"""Maximum number of items of one page."""


class Extractor:
    """A compiled plan, for many pages."""

    def __init__(self, plan: ExtractionPlan) -> None:
        self._flat = tuple(FieldReader(field) for field in plan.flat)
        self._kinds = [plural(field.name) for field in plan.flat]
        self._groups = tuple(FieldReader(field) for field in plan.groups)
        self._page = tuple(FieldReader(field) for field in plan.page)
        self._structured = plan.structured
        self._insides = [inside(self._flat, at) for at in range(len(self._flat))]
        self._likely = 0
        """Position of the item's field on the last page that had an item. It is tried first, for
        speed; it changes no result."""

    def items(self, page: HtmlPage, document: Any = None) -> list[Item]:
        """Return the items that the plan finds on the page; `document` is its body where that is
        JSON.

        The answer depends on this page alone. Never raises.
        """
        items: list[Item] = []
        if self._flat and document is None:
            items += self._flat_items(page)
        if self._groups:
            for group in self._groups:
                made = _group(group, [None], page, document)[0]
                items += [
                    Item(kind=group.name, fields={PAGE_URL: page.url, **fields}) for fields in made
                ]
        if self._page:
            fields = _fields(self._page, [None], page, document)[0]
            items += _page_item(page, fields, self._page)
        if self._structured and document is None and (found := structured_data(page)):
            items.append(Item(kind=STRUCTURED, fields={PAGE_URL: page.url, **found}))
        return items[:MAX_ITEMS]

    def caught(self, page: HtmlPage, document: Any = None) -> dict[str, int]:
        """Return how many matches each expression of the plan has anywhere on the page."""
        counts: dict[str, int] = {}
        for field in (*self._flat, *self._groups, *self._page):
            _count(field, [None], page, document, counts)
        return counts

    def container(self, page: HtmlPage) -> str | None:
        """Return the key of the flat map that is the item on this page; `None` if none is."""
        at = choose(self._flat, page, self._likely, self._insides[self._likely]).at
        return None if at is None else self._flat[at].name

    def _flat_items(self, page: HtmlPage) -> list[Item]:
        likely = self._likely
        at, found, sorted_, links = choose(self._flat, page, likely, self._insides[likely])
        if at is None:
            fields = {
                field.name: field.value(nodes, page)
                for field, nodes in zip(self._flat, found, strict=True)
            }
            return _page_item(page, fields, self._flat)
        self._likely = at
        scopes = found[at]
        columns: list[tuple[str, list[Any]]] = [(PAGE_URL, [page.url] * len(scopes))]
        columns += [
            (field.name, [field.value(own, page) for own in each])
            for field, each in zip(self._flat, sorted_, strict=True)
            if field is not self._flat[at]
        ]
        if all(name != FIRST_LINK for name, _ in columns):
            links = links or _links(scopes, page)
            columns.append((FIRST_LINK, [_first_address(own, page) for own in links]))
        names = [name for name, _ in columns]
        kind = self._kinds[at]
        return [
            Item(kind=kind, fields=dict(zip(names, row, strict=True)))
            for row in zip(*(values for _, values in columns), strict=True)
        ]


def _links(scopes: Sequence[LexborNode], page: HtmlPage) -> Sequence[Sequence[LexborNode]]:
    """Return the links of each item."""
    if len(scopes) > 1 and lies_within(scopes, {scope.mem_id for scope in scopes}):
        return sort_into(scopes, page.find(ANCHORS))
    # Nothing within one of them belongs to another: few links are looked at.
    return [search(ANCHORS, scope) for scope in scopes]


def _first_address(links: Sequence[LexborNode], page: HtmlPage) -> str | None:
    """Return the absolute address of the first link to another page; `None` if there is none."""
    for link in links:
        href = link.attrs.get("href")
        if href and leads_on(href):
            return absolute(page.base, page.spelt(href))
    return None


def _page_item(page: HtmlPage, fields: dict[str, Any], wanted: Sequence[FieldReader]) -> list[Item]:
    """Return the page as one item, unless none of its fields was found."""
    if not any(has_value(field.plan, fields[field.name]) for field in wanted):
        return []
    return [Item(kind=PAGES, fields={PAGE_URL: page.url, **fields})]


def _fields(
    fields: Sequence[FieldReader], scopes: Sequence[Any], page: HtmlPage, document: Any
) -> list[dict[str, Any]]:
    """The fields of each scope; the only scope `None` is the page itself."""
    rows: list[dict[str, Any]] = [{} for _ in scopes]
    for field in fields:
        if field.fields:
            for row, made in zip(rows, _group(field, scopes, page, document), strict=True):
                many = field.plan.many
                row[field.name] = made if many else (made[0] if made else field.plan.default)
        else:
            for row, places in zip(rows, _places(field, scopes, page, document), strict=True):
                row[field.name] = field.value(places, page)
    return rows


def _group(
    group: FieldReader, scopes: Sequence[Any], page: HtmlPage, document: Any
) -> list[list[dict[str, Any]]]:
    """Return, for each scope, the objects that the group finds within it."""
    matches = [
        group.inner(places, page)[: MOST if group.plan.many else 1]
        for places in _places(group, scopes, page, document)
    ]
    flat = [match for each in matches for match in each][:MAX_ITEMS]
    rows = iter(_fields(group.fields, flat, page, document) if flat else ())
    return [[row for _, row in zip(each, rows, strict=False)] for each in matches]


def _places(
    field: FieldReader, scopes: Sequence[Any], page: HtmlPage, document: Any
) -> Sequence[Sequence[Any]]:
    """Return, for each scope, the field's matches within it."""
    language = field.query.language
    whole = len(scopes) == 1 and scopes[0] is None
    if language is Language.JSON:
        values = [document] if whole else scopes
        return [json_path.select(value, field.path) for value in values]
    if document is not None:
        return [[] for _ in scopes]
    if language is Language.XPATH:
        trees = [page.xml] if whole else scopes
        return [[] if tree is None else field.xml_places(tree) for tree in trees]
    if not field.query.expression:
        return [[page.tree.root] if whole else [scope] for scope in scopes]
    found = field.elements(page)
    if whole:
        return [found]
    return (nest_into if field.fields else sort_into)(scopes, found)


def _count(
    field: FieldReader,
    scopes: Sequence[Any],
    page: HtmlPage,
    document: Any,
    counts: dict[str, int],
) -> None:
    places = _places(field, scopes, page, document)
    found = [
        match for each in places for match in (field.inner(each, page) if field.fields else each)
    ]
    counts[field.plan.path] = len(found)
    for inner in field.fields:
        if found:
            _count(inner, found, page, document, counts)
        else:
            counts[inner.plan.path] = 0
