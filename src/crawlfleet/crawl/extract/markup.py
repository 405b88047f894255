"""A page as a tree that tolerates any mark-up: parsed once, and used for all searches."""

from typing import Any, Final

from selectolax.lexbor import LexborCSSSelector, LexborHTMLParser, LexborNode

from crawlfleet.core.pages.values import absolute
from crawlfleet.crawl.extract.text import TextBudget
from crawlfleet.crawl.extract.truncate import cut_at
from crawlfleet.crawl.fetch.charset import ASCII, UTF8, charset_of_ascii
from crawlfleet.crawl.fetch.legacy_charsets import spelt_in

_LEADING: Final = "[href]"
"""A selector that visits each element once; `a`, `area`, `base` and `link` are among its
matches."""
_ALL_LEADING: Final = f"{_LEADING},meta,iframe,:root>frameset frame"
"""A selector that visits the tree once for each alternative, which takes as long as a quarter of
parsing. Frames within drawings do not count."""
_engine: Final = LexborCSSSelector()  # type: ignore[no-untyped-call]
search: Final = _engine.find
"""`search(selector, node)` is `node.css(selector)`, for which each tree makes an engine of its own:
all elements within, and the node itself; once for each alternative that matches."""


Lead = tuple[str | None, dict[str, str | None]]
"""The tag name and the attributes of an element."""
_UNREAD: Final = object()


class HtmlPage:
    """The mark-up of one page, parsed on first use. `body` is UTF-8, or nearly, and was in
    `charset` when it came. No content can make this class raise."""

    def __init__(self, body: bytes, url: str, charset: str = UTF8) -> None:
        self.url = url
        self.charset = charset
        end = cut_at(body)
        self.cut = end is not None
        """True when the page was too deep or too large, so that its rest is ignored."""
        self.allowance = TextBudget()
        self.body = body if end is None else body[:end]
        self._tags: int | None = None
        self._tree: LexborHTMLParser | None = None
        self._xml: Any = _UNREAD
        self._base: str | None = None
        self._leads: list[Lead] | None = None
        self._shape: tuple[int, int] | None = None

    @property
    def tags(self) -> int:
        """An upper bound of the number of elements."""
        if self._tags is None:
            self._tags = self.body.count(b"<")
        return self._tags

    @property
    def tree(self) -> LexborHTMLParser:
        if self._tree is None:
            self._tree = LexborHTMLParser(self.body)
        return self._tree

    @property
    def xml(self) -> Any:
        """The tree for XPath; `None` where none can be made of the page."""
        if self._xml is _UNREAD:
            self._xml = _xml_tree(self.body)
        return self._xml

    @property
    def base(self) -> str:
        """The base address of the page's relative links."""
        if self._base is None:
            self._base = self._stated_base()
        return self._base

    def spelt(self, href: str) -> str:
        """Return a link of the page as a browser requests it: its query is in the page's
        charset."""
        if self.charset == UTF8 or href.isascii():
            return href
        if self.charset == ASCII:
            self.charset = charset_of_ascii(self.body)
        return spelt_in(href, self.charset)

    def _stated_base(self) -> str:
        for tag, attributes in self.leads:
            if tag == "base" and (href := attributes.get("href")):
                return absolute(self.url, self.spelt(href)) or self.url
        return self.url

    def find(self, selector: str) -> list[LexborNode]:
        """Return the elements that match the selector. An element comes once for each alternative
        that it matches. Raises for a bad selector."""
        root = self.tree.root
        return [] if root is None else search(selector, root)

    @property
    def leads(self) -> list[Lead]:
        """All elements with links, refreshes or directives, and some others. A few come twice.
        Those with links are in order."""
        if self._leads is None:
            metas = _read(self.tree.tags("meta"))
            if _only_hrefs_lead(self.tree, metas):
                self._leads = _read(self.find(_LEADING)) + metas
            else:
                self._leads = _read(self.find(_ALL_LEADING))
        return self._leads

    @property
    def title(self) -> str:
        """The title of the page; empty if it has none."""
        root = self.tree.root
        found = [] if root is None else _engine.find_first("title", root)  # type: ignore[attr-defined]
        return " ".join(found[0].text().split())[:1000] if found else ""

    @property
    def shape(self) -> tuple[int, int]:
        """The depth of the tree, and the average number of siblings of a node."""
        if self._shape is None:
            self._shape = _shape(self.tree)
        return self._shape


def _read(nodes: list[LexborNode]) -> list[Lead]:
    return [(node.tag, node.attributes) for node in nodes]


def _only_hrefs_lead(tree: LexborHTMLParser, metas: list[Lead]) -> bool:
    """Return whether no frame and no `meta` refresh leads elsewhere, as on most pages."""
    if _has_frames(tree) or tree.tags("iframe"):
        return False
    return not any("refresh" in (each.get("http-equiv") or "").lower() for _, each in metas)


def _has_frames(tree: LexborHTMLParser) -> bool:
    """Return whether the page has frames in place of a body. The first element after the head
    decides, whatever `tree.body` is: a body that was begun and then replaced stays there."""
    node = tree.head
    while node is not None and node.tag != "body":
        if node.tag == "frameset":
            return True
        node = node.next
    return False


def _xml_tree(body: bytes) -> Any:
    from lxml import etree  # takes a while, and few crawls need it

    parser = etree.HTMLParser(
        encoding="utf-8", recover=True, no_network=True, huge_tree=False, remove_pis=True
    )
    try:
        return etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, ValueError, AssertionError):
        return None


def _shape(tree: LexborHTMLParser) -> tuple[int, int]:
    deepest = depth = squares = nodes = 0
    node = tree.root
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
