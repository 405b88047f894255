"""Which key of a flat map is the item: the one whose elements are around those of the others."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from selectolax.lexbor import LexborNode

from crawlfleet.crawl.fields import Field
from crawlfleet.crawl.markup import Page, search
from crawlfleet.crawl.nesting import contained, lies_within, sort_into

FEW: Final = 8
"""Items in which each field is looked for by itself; with more, a search of the page is cheaper."""

Sorted = list[list[list[LexborNode]]]


class Container(NamedTuple):
    """What was found of each field, and which of them is the item, if any."""

    at: int | None
    found: Sequence[Sequence[LexborNode]]
    """Of the fields in their order; those of others than the item only where there is none."""
    sorted_: Sorted
    """Of each field what belongs to each item."""


def choose(fields: Sequence[Field], page: Page, likely: int) -> Container:
    """Find all fields, and which is around most others; of several, the one that has more
    elements within; then the first by name. The order in which the keys were written means
    nothing, since stores and clients may change it.

    `likely` is tried first, and changes no answer.
    """
    scopes = fields[likely].elements(page)
    if scopes and len(scopes) <= FEW:
        sorted_ = _search_within(fields, page, likely, scopes)
        if sorted_ is not None:
            found = [scopes if at == likely else [] for at in range(len(fields))]
            return Container(likely, found, sorted_)
    found = [scopes if at == likely else field.elements(page) for at, field in enumerate(fields)]
    if sum(1 for nodes in found if nodes) < 2:
        return Container(None, found, [])
    if scopes:
        # Where it is around all others and within none, no other can win.
        sorted_ = _sort(found, likely)
        if _around_all(found, likely, sorted_):
            return Container(likely, found, sorted_)
    within = contained(found)
    best = max(
        range(len(found)),
        key=lambda at: (len(within[at]), sum(within[at].values()), _reversed(fields[at].name)),
    )
    if not within[best]:
        return Container(None, found, [])
    return Container(best, found, _sort(found, best))


def _search_within(
    fields: Sequence[Field], page: Page, likely: int, scopes: list[LexborNode]
) -> Sorted | None:
    """What each field has within each scope, where these are sure to be the items; else `None`.

    They are if every other field is within one of them or nowhere, and none around them, which
    can be told by its name alone.
    """
    around = _tags_around(scopes)
    if around is None:
        return None
    sorted_: Sorted = []
    others = 0
    for at, field in enumerate(fields):
        if at == likely:
            sorted_.append([])
            continue
        if field.tag is None or field.tag in around:
            return None
        expression = field.query.expression
        each = [search(expression, scope) for scope in scopes]
        pairs = zip(scopes, each, strict=True)
        if any(own and own[-1].mem_id != scope.mem_id for scope, own in pairs):
            others += 1
        elif any(each) or field.elements(page):
            return None
        sorted_.append(each)
    return sorted_ if others else None


def _tags_around(scopes: Sequence[LexborNode]) -> set[str | None] | None:
    """The names of all elements around any of them; `None` when one is around another."""
    own = {scope.mem_id for scope in scopes}
    seen: set[int] = set()
    tags: set[str | None] = set()
    for scope in scopes:
        each = scope.parent
        while each is not None and (key := each.mem_id) not in seen:
            if key in own:
                return None
            seen.add(key)
            tags.add(each.tag)
            each = each.parent
    return tags


def _sort(found: Sequence[Sequence[LexborNode]], into: int) -> Sorted:
    scopes = found[into]
    return [[] if nodes is scopes else sort_into(scopes, nodes) for nodes in found]


def _around_all(found: Sequence[Sequence[LexborNode]], at: int, sorted_: Sorted) -> bool:
    scopes = found[at]
    for nodes, each in zip(found, sorted_, strict=True):
        if nodes and nodes is not scopes:
            pairs = zip(scopes, each, strict=True)
            if not any(own and own[-1].mem_id != scope.mem_id for scope, own in pairs):
                return False
    others = {node.mem_id for nodes in found if nodes is not scopes for node in nodes}
    return not lies_within(scopes, others)


def _reversed(name: str) -> tuple[int, ...]:
    """Orders names the other way round."""
    return (*(-ord(char) for char in name), 1)
