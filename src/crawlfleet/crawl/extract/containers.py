"""Finds out which key of a flat map is the item: the one whose elements contain those of the other
keys."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from selectolax.lexbor import LexborNode

from crawlfleet.crawl.extract.fields import FieldReader
from crawlfleet.crawl.extract.markup import HtmlPage, search
from crawlfleet.crawl.extract.nesting import contained, lies_within, sort_into

FEW: Final = 8
"""Maximum number of items within which fields are searched one by one; with more, one search of the
page is cheaper."""
ANCHORS: Final = "a[href],area[href]"

Sorted = list[list[list[LexborNode]]]


class Container(NamedTuple):
    """The elements found for each field, and the position of the field that is the item, if any."""

    at: int | None
    found: Sequence[Sequence[LexborNode]]
    """Elements found for each field, in the fields' order. With an item, the lists of other fields
    may be left empty."""
    sorted_: Sorted
    """Elements of each field that belong to each item; empty if there is no item."""
    links: Sequence[Sequence[LexborNode]] | None = None
    """Links of each item, if they were found together with its fields."""


class Inside(NamedTuple):
    """A plan for searching the fields of an item within its element."""

    others: Mapping[int, str]
    """The tag name of each field other than the item, by the field's position."""
    together: str
    """A selector that finds at once all fields with a tag name of their own, since each search
    takes time."""
    columns: Mapping[str | None, int]
    """Position of the field with each tag name. The number of all fields stands for the links."""
    alone: Sequence[int]
    """Positions of the fields that are searched for one by one."""


def inside(fields: Sequence[FieldReader], item: int) -> Inside | None:
    """Return the plan for searching within that field; `None` if tag names alone do not tell all
    other fields apart."""
    others = {at: field.tag for at, field in enumerate(fields) if at != item and field.tag}
    if len(others) < len(fields) - 1:
        return None
    names = Counter([*others.values(), "a", "area"])
    columns: dict[str | None, int] = {tag: at for at, tag in others.items() if names[tag] == 1}
    together = [fields[at].query.expression for at in columns.values()]
    if names["a"] == names["area"] == 1:
        columns |= dict.fromkeys(("a", "area"), len(fields))
        together.append(ANCHORS)
    alone = [at for at, tag in others.items() if names[tag] > 1]
    return Inside(others, ",".join(together), columns, alone)


def choose(
    fields: Sequence[FieldReader], page: HtmlPage, likely: int, inside: Inside | None = None
) -> Container:
    """Find all fields, and choose the one that contains elements of most others. Of several, the
    one with more elements within wins; then the first by name. The order of the keys means nothing,
    since stores and clients may change it.

    `likely` is tried first, for speed, and with `inside` by a shorter way; neither changes the
    answer.
    """
    scopes = fields[likely].elements(page)
    if inside is not None and scopes and len(scopes) <= FEW:
        sorted_ = _search_within(fields, page, scopes, inside)
        if sorted_ is not None:
            links = sorted_.pop()
            found = [scopes if at == likely else [] for at in range(len(fields))]
            known = links if len(fields) in inside.columns.values() else None
            return Container(likely, found, sorted_, known)
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
    fields: Sequence[FieldReader], page: HtmlPage, scopes: list[LexborNode], inside: Inside
) -> Sorted | None:
    """Return the elements of each field, and last the links, within each scope. `None` if the
    scopes are not certain to be the items.

    They are certain if every other field lies within one of them or nowhere, and none around them;
    the tag name alone must show that.
    """
    around = _tags_around(scopes)
    if around is None or not around.isdisjoint(inside.others.values()):
        return None
    sorted_: Sorted = [[[] for _ in scopes] for _ in range(len(fields) + 1)]
    for number, scope in enumerate(scopes):
        for node in search(inside.together, scope) if inside.together else ():
            column = inside.columns.get(node.tag)
            if column is None:
                return None  # its name is spelt otherwise than in the selector
            sorted_[column][number].append(node)
    for at in inside.alone:
        sorted_[at] = [search(fields[at].query.expression, scope) for scope in scopes]
    others = 0
    for at in inside.others:
        each = sorted_[at]
        pairs = zip(scopes, each, strict=True)
        if any(own and own[-1].mem_id != scope.mem_id for scope, own in pairs):
            others += 1
        elif any(each) or fields[at].elements(page):
            return None
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
