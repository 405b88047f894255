"""Which key of a flat map is the item: the one whose elements are around those of the others."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from selectolax.lexbor import LexborNode

from crawlfleet.crawl.extract.fields import FieldReader
from crawlfleet.crawl.extract.markup import HtmlPage, search
from crawlfleet.crawl.extract.nesting import contained, lies_within, sort_into

FEW: Final = 8
"""Items within which fields are looked for; with more, a search of the page is cheaper."""
ANCHORS: Final = "a[href],area[href]"

Sorted = list[list[list[LexborNode]]]


class Container(NamedTuple):
    """What was found of each field, and which of them is the item, if any."""

    at: int | None
    found: Sequence[Sequence[LexborNode]]
    """Of the fields in their order; those of others than the item only where there is none."""
    sorted_: Sorted
    """Of each field what belongs to each item."""
    links: Sequence[Sequence[LexborNode]] | None = None
    """Those of each item, where they were found with its fields."""


class Inside(NamedTuple):
    """How the fields of an item are looked for within it."""

    others: Mapping[int, str]
    """All but the item itself, and the only elements that they can be."""
    together: str
    """Finds at once what can be told apart by its name, for each search takes its time."""
    columns: Mapping[str | None, int]
    """By that name: which field it is; the number of all fields stands for the links."""
    alone: Sequence[int]
    """Fields that are looked for one by one."""


def inside(fields: Sequence[FieldReader], item: int) -> Inside | None:
    """What to look for within that field; `None` where names alone do not tell all others."""
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
    """Find all fields, and which is around most others; of several, the one that has more
    elements within; then the first by name. The order in which the keys were written means
    nothing, since stores and clients may change it.

    `likely` is tried first, and changes no answer; nor does what is known of its `inside`.
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
    """What each field, and after all of them the links, have within each scope, where these are
    sure to be the items; else `None`.

    They are if every other field is within one of them or nowhere, and none around them, which
    can be told by its name alone.
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
