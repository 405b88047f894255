"""A page as a tree, whatever its mark-up does.

The HTML parser looks back over all open elements at many tags, and over all attributes of a tag
at each of them; so a page of nested `<div>` takes quadratic time, 100,000 of them a quarter of a
minute. Pages are therefore cut before they become dear: at a depth, a number of tags or of
attributes that no page for people has. Small pages are parsed as they are; they cannot be dear.
"""

import re
from functools import cached_property
from typing import Any, Final

import numpy as np
from lxml import etree
from selectolax.lexbor import LexborCSSSelector, LexborHTMLParser, LexborNode

from crawlfleet.core.values import absolute
from crawlfleet.crawl.texts import Allowance

FEW_TAGS: Final = 10_000
"""With fewer, even the worst nesting is parsed in a tenth of a second."""
SHORTEST_TAG: Final = len("<p>")
FEW_BYTES: Final = 128_000
"""With fewer, even a tag full of attributes is read in two seconds."""
MOST_TAGS: Final = 200_000
MOST_MARKS: Final = 1_000_000
"""Of `<`, whatever they stand for."""
DEEPEST: Final = 2_000
DEEPEST_IN_SCRIPTS: Final = 10_000
"""The same, with what scripts have that looks like tags."""
MOST_ATTRIBUTES: Final = 2_000
SLOPPY: Final = 1_000
"""So many end tags more than begun elements of a name are a mistake, not a trick."""

_MANY_ATTRIBUTES: Final = re.compile(
    rb"<[a-zA-Z][^\s/>]*+(?:[\s/]++[^\s/>=]?[^\s/>=]*+"
    rb"(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>\"'][^\s>]*+)?+)?+){%d}" % MOST_ATTRIBUTES
)
_SCRIPT: Final = re.compile(rb"<script\b(.*?)(?:</script|\Z)", re.IGNORECASE | re.DOTALL)
_FLAT: Final = re.findall("..", "brhriminmeliwbcosotrtdthdtddoparbaemp ")
"""How the names of elements begin that are empty, or end by themselves when the next begins."""


_LEADING: Final = "[href],meta,iframe,frame"
"""Each further alternative costs a look at every element, so attributes stand for names: `a`,
`area`, `base` and `link` are among the first ones."""
# Each tree would make one for itself.
_search: Final = LexborCSSSelector().find  # type: ignore[no-untyped-call]


class Page:
    """The mark-up of one page, parsed when it is first asked for.

    `body` is UTF-8, or nearly; nothing in it can make this raise.
    """

    def __init__(self, body: bytes, url: str) -> None:
        self.url = url
        end = _end(body)
        self.cut = end is not None
        """Whether the page was too deep or too large, and its rest is ignored."""
        self.allowance = Allowance()
        self.body = body if end is None else body[:end]

    @cached_property
    def tags(self) -> int:
        """At least as many as there are elements."""
        return self.body.count(b"<")

    @cached_property
    def tree(self) -> LexborHTMLParser:
        return LexborHTMLParser(self.body)

    @cached_property
    def xml(self) -> Any:
        """The tree for XPath; `None` where nothing can be made of the page."""
        parser = etree.HTMLParser(
            encoding="utf-8", recover=True, no_network=True, huge_tree=False, remove_pis=True
        )
        try:
            return etree.fromstring(self.body, parser)
        except (etree.XMLSyntaxError, ValueError, AssertionError):
            return None

    @cached_property
    def base(self) -> str:
        """What the page's links are relative to."""
        for tag, attributes in self.leads:
            if tag == "base" and (href := attributes.get("href")):
                return absolute(self.url, href) or self.url
        return self.url

    def find(self, selector: str) -> list[LexborNode]:
        """What the engine finds in the tree; an element comes once for each alternative that it
        matches, and a bad selector raises."""
        root = self.tree.root
        return [] if root is None else _search(selector, root)

    @cached_property
    def leads(self) -> list[tuple[str | None, dict[str, str | None]]]:
        """Name and attributes of every element that leads elsewhere, or says where it does not,
        and of some that do neither. A few come twice."""
        return [(node.tag, node.attributes) for node in self.find(_LEADING)]

    @cached_property
    def title(self) -> str:
        """What the page calls itself."""
        node = self.tree.css_first("title")
        return "" if node is None else " ".join(node.text().split())[:1000]

    @cached_property
    def shape(self) -> tuple[int, int]:
        """How deep the tree is, and how many siblings a node has on average."""
        deepest = depth = squares = nodes = 0
        node = self.tree.root
        counts = [1]
        while node is not None:
            below = node.first_child
            if below is not None:
                depth += 1
                deepest = max(deepest, depth)
                counts.append(1)
                node = below
                continue
            while node is not None:
                beside = node.next
                if beside is not None:
                    counts[-1] += 1
                    node = beside
                    break
                siblings = counts.pop()
                nodes += siblings
                squares += siblings * siblings
                depth -= 1
                node = node.parent if depth >= 0 else None
        return deepest, -(-squares // max(nodes, 1))


def _end(body: bytes) -> int | None:
    """Where the page must be cut; `None` when all of it can be parsed."""
    if len(body) < SHORTEST_TAG * FEW_TAGS:
        return None
    ends = []
    if len(body) > FEW_BYTES and (found := _MANY_ATTRIBUTES.search(body)):
        ends.append(found.start())
    if body.count(b"<") > FEW_TAGS:
        ends += _too_many(body)
    return min(ends, default=None)


def _too_many(body: bytes) -> list[int]:
    """Where there are too many tags, and where they are nested too deep."""
    text = np.frombuffer(body, np.uint8)
    at = np.flatnonzero(text[:-3] == ord("<"))
    ends = [int(at[MOST_MARKS])] if len(at) > MOST_MARKS else []
    at = at[:MOST_MARKS]
    first = text[at + 1]
    closes = first == ord("/")
    name = _LETTER[np.where(closes, text[at + 2], first)].astype(np.int32) << 8
    name |= _LETTER[np.where(closes, text[at + 3], text[at + 2])]
    opens = _LETTER[first] >= ord("a")
    # End tags of what was never begun close nothing.
    begun = np.bincount(name[opens], minlength=1 << 16)
    ended = np.bincount(name[closes], minlength=1 << 16)
    closes &= (ended <= begun + SLOPPY)[name]
    nests = _NESTS[name]
    change = np.where(nests & opens, 1, np.where(nests & closes, -1, 0))
    plain = change.copy()
    for script in _SCRIPT.finditer(body):
        begin, end = np.searchsorted(at, script.span(1))
        plain[begin:end] = 0
    tags = np.flatnonzero(opens)
    if len(tags) > MOST_TAGS:
        ends.append(int(at[tags[MOST_TAGS]]))
    # What looks like a script may be a trick; then the other limit holds.
    for steps, deepest in ((plain, DEEPEST), (change, DEEPEST_IN_SCRIPTS)):
        depth = np.cumsum(steps)
        depth -= np.minimum(np.minimum.accumulate(depth), 0)
        ends += [int(at[where]) for where in np.flatnonzero(depth > deepest)[:1]]
    return ends


def _nesting() -> Any:
    """By the first two letters of a name, whether such elements can be nested without end."""
    nests = np.ones(1 << 16, np.bool_)
    for name in _FLAT:
        nests[ord(name[0]) << 8 | ord(name[1])] = False
    return nests


_LETTER: Final = np.array(
    [ord(c.lower()) if (c := chr(code)).isascii() and c.isalnum() else 32 for code in range(256)],
    np.uint8,
)
"""By byte: a letter in lower case or a digit; what ends a name is a space."""
_NESTS: Final = _nesting()
