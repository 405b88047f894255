"""Finds out which elements of a page lie within which others.

Each ancestor is visited once per question, so that deep pages cost no more than flat ones of the
same size.
"""

from collections.abc import Iterable, Sequence

from selectolax.lexbor import LexborNode


def sort_into(scopes: Sequence[LexborNode], found: Iterable[LexborNode]) -> list[list[LexborNode]]:
    """Return, for each scope, the elements of which it is the nearest scope around them.

    A scope belongs to itself.
    """
    sorted_: list[list[LexborNode]] = [[] for _ in scopes]
    owners: dict[int, int | None] = {scope.mem_id: at for at, scope in enumerate(scopes)}
    for node in found:
        owner = _owner(node, owners)
        if owner is not None:
            sorted_[owner].append(node)
    return sorted_


def nest_into(scopes: Sequence[LexborNode], found: Iterable[LexborNode]) -> list[list[LexborNode]]:
    """Return, for each scope, the elements of which it is the nearest scope strictly around them.

    Unlike in `sort_into`, no scope belongs to itself.
    """
    sorted_: list[list[LexborNode]] = [[] for _ in scopes]
    owners: dict[int, int | None] = {scope.mem_id: at for at, scope in enumerate(scopes)}
    for node in found:
        above = node.parent
        owner = None if above is None else _owner(above, owners)
        if owner is not None:
            sorted_[owner].append(node)
    return sorted_


def contained(found: Sequence[Sequence[LexborNode]]) -> list[dict[int, int]]:
    """Return, for each set of elements, the other sets with elements strictly within, and their
    number."""
    marks: dict[int, int] = {}
    for at, nodes in enumerate(found):
        for node in nodes:
            key = node.mem_id
            marks[key] = marks.get(key, 0) | 1 << at
    above: dict[int, int] = {}
    within: list[dict[int, int]] = [{} for _ in found]
    for at, nodes in enumerate(found):
        for node in nodes:
            around = _marks_above(node, marks, above) & ~(1 << at)
            while around:
                low = around & -around
                around ^= low
                inside = within[low.bit_length() - 1]
                inside[at] = inside.get(at, 0) + 1
    return within


def lies_within(nodes: Sequence[LexborNode], others: set[int]) -> bool:
    """Return whether any element lies strictly within one of the others, given by their ids."""
    seen: set[int] = set()
    for node in nodes:
        each = node.parent
        while each is not None:
            key = each.mem_id
            if key in others:
                return True
            if key in seen:
                break
            seen.add(key)
            each = each.parent
    return False


def is_within(nodes: Sequence[LexborNode], others: Sequence[LexborNode]) -> dict[int, bool]:
    """Return, by the id of each element, whether it lies strictly within one of the others."""
    outer = {node.mem_id for node in others}
    known: dict[int, bool] = {}
    for node in nodes:
        path: list[int] = []
        each: LexborNode | None = node
        inside = False
        while each is not None:
            key = each.mem_id
            if key in known:
                inside = known[key] or key in outer
                break
            path.append(key)
            each = each.parent
        for key in reversed(path):
            # What was found so far is about the parent of this one: it, or something around it.
            known[key] = inside
            inside = inside or key in outer
    return known


def _owner(node: LexborNode, owners: dict[int, int | None]) -> int | None:
    path: list[int] = []
    owner: int | None = None
    each: LexborNode | None = node
    while each is not None:
        key = each.mem_id
        if key in owners:
            owner = owners[key]
            break
        path.append(key)
        each = each.parent
    for key in path:
        owners[key] = owner
    return owner


def _marks_above(node: LexborNode, marks: dict[int, int], above: dict[int, int]) -> int:
    """The marks of all elements strictly around one."""
    path: list[int] = []
    mask = 0
    each = node.parent
    while each is not None:
        key = each.mem_id
        known = above.get(key)
        if known is not None:
            mask = known | marks.get(key, 0)
            break
        path.append(key)
        each = each.parent
    for key in reversed(path):
        above[key] = mask
        mask |= marks.get(key, 0)
    return mask
