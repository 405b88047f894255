"""The text of an element as a reader sees it: a line break or a new block parts words."""

import re
from typing import Any, Final

from selectolax.lexbor import LexborNode

LONGEST: Final = 1_000_000
"""Characters of one value; what is longer is cut."""
_INLINE: Final = frozenset(
    re.findall(
        r"\w+",
        "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q "
        "rb rp rt ruby s samp small span strike strong sub sup time tt u var wbr",
    )
)
_SILENT: Final = frozenset({"script", "style", "template", "noscript", "-comment"})
_SILENT_XML: Final = _SILENT - {"-comment"}


class TextBudget:
    """Limits for reading the texts of one page.

    Nested elements repeat the same text, so that a small page can have endless texts. When the
    budget is used up, the remaining elements have no text.
    """

    __slots__ = ("chars", "steps")

    def __init__(self) -> None:
        self.steps = 2_000_000
        self.chars = 20_000_000

    @property
    def used_up(self) -> bool:
        return self.steps <= 0 or self.chars <= 0

    def take(self, text: str) -> str:
        """The text as far as it is allowed."""
        self.chars -= len(text)
        return text[:LONGEST] if self.chars >= 0 else ""


def text_of(node: LexborNode, allowance: TextBudget) -> str:
    """Return the text within an element; texts of different blocks are separated by a space."""
    child = node.first_child
    if child is None:
        return ""
    while child.next is None:  # as with most: a text, or one in an element without more
        if (text := child.text_content) is not None:
            return allowance.take(text)
        allowance.steps -= 1
        if child.tag not in _INLINE or (child := child.first_child) is None:
            break
    return "" if allowance.used_up else allowance.take("".join(_parts(node, allowance)))


def _parts(top: LexborNode, allowance: TextBudget) -> list[str]:
    parts: list[str] = []
    left = LONGEST
    end = top.mem_id
    node = top.first_child
    while node is not None and left > 0:
        tag = node.tag
        below = None
        allowance.steps -= 1
        if tag == "-text":
            text = node.text_content or ""
            parts.append(text)
            left -= len(text)
        elif tag not in _SILENT:
            if tag not in _INLINE:
                parts.append(" ")
            below = node.first_child
        if below is not None:
            node = below
            continue
        while (beside := node.next) is None:
            node = node.parent
            allowance.steps -= 1
            if node is None or node.mem_id == end:
                return parts
            if node.tag not in _INLINE:
                parts.append(" ")
        node = beside
    return parts


def text_of_xml(element: Any, allowance: TextBudget) -> str:
    """Return the text of an element of the XPath tree as a reader sees it, at most `LONGEST`
    characters."""
    if allowance.used_up:
        return ""
    parts: list[str] = []
    left = LONGEST
    stack = [(element, False)]
    while stack and left > 0:
        each, leaving = stack.pop()
        allowance.steps -= 1
        named = isinstance(each.tag, str)
        if named and each.tag not in _INLINE and each is not element:
            parts.append(" ")
        if leaving:
            text = each.tail
        else:
            if each is not element:
                stack.append((each, True))
            if not named or each.tag in _SILENT_XML:
                continue
            stack.extend((child, False) for child in reversed(each))
            text = each.text
        if text:
            parts.append(text)
            left -= len(text)
    return allowance.take("".join(parts))
