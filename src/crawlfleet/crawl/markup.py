"""A page as a tree, whatever its mark-up does; parsed once, and searched for all that is wanted."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from selectolax.lexbor import LexborCSSSelector, LexborHTMLParser, LexborNode

from crawlfleet.core.values import absolute
from crawlfleet.crawl.cutting import cut_at
from crawlfleet.crawl.texts import Allowance

_LEADING: Final = "[href]"
"""One look at every element: `a`, `area`, `base` and `link` are among these."""
_ALL_LEADING: Final = f"{_LEADING},meta,iframe,:root>frameset frame"
"""A look for each alternative, which takes as long as a quarter of the parser's work. What is
called a frame within drawings is none."""
_engine: Final = LexborCSSSelector()  # type: ignore[no-untyped-call]
search: Final = _engine.find
"""`search(selector, node)` is `node.css(selector)`, for which each tree makes an engine of its own:
all elements within, and the node itself; once for each alternative that matches."""


T = TypeVar("T")


class _once(Generic[T]):  # noqa: N801 - a decorator
    """A property that is worked out when it is first asked for. That of `functools` takes a lock
    before Python 3.12, which costs more than much of what is looked for."""

    def __init__(self, work_out: "Callable[[Page], T]") -> None:
        self._work_out = work_out
        self._name = work_out.__name__

    def __get__(self, page: "Page", _: "type[Page]") -> T:
        # Found there from now on, before anybody comes here.
        found = page.__dict__[self._name] = self._work_out(page)
        return found


class Page:
    """The mark-up of one page, parsed when it is first asked for.

    `body` is UTF-8, or nearly; nothing in it can make this raise.
    """

    def __init__(self, body: bytes, url: str) -> None:
        self.url = url
        end = cut_at(body)
        self.cut = end is not None
        """Whether the page was too deep or too large, and its rest is ignored."""
        self.allowance = Allowance()
        self.body = body if end is None else body[:end]

    @_once
    def tags(self) -> int:
        """At least as many as there are elements."""
        return self.body.count(b"<")

    @_once
    def tree(self) -> LexborHTMLParser:
        return LexborHTMLParser(self.body)

    @_once
    def xml(self) -> Any:
        """The tree for XPath; `None` where nothing can be made of the page."""
        from lxml import etree  # takes a while, and few crawls need it

        parser = etree.HTMLParser(
            encoding="utf-8", recover=True, no_network=True, huge_tree=False, remove_pis=True
        )
        try:
            return etree.fromstring(self.body, parser)
        except (etree.XMLSyntaxError, ValueError, AssertionError):
            return None

    @_once
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
        return [] if root is None else search(selector, root)

    @_once
    def leads(self) -> list[tuple[str | None, dict[str, str | None]]]:
        """Name and attributes of every element that leads elsewhere, or says where it does not,
        and of some that do neither. A few come twice. Those that lead elsewhere are in order."""
        metas = _read(self.tree.tags("meta"))
        if not _only_hrefs_lead(self.tree, metas):
            return _read(self.find(_ALL_LEADING))
        return _read(self.find(_LEADING)) + metas

    @_once
    def title(self) -> str:
        """What the page calls itself."""
        root = self.tree.root
        found = [] if root is None else _engine.find_first("title", root)  # type: ignore[attr-defined]
        return " ".join(found[0].text().split())[:1000] if found else ""

    @_once
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


Lead = tuple[str | None, dict[str, str | None]]


def _read(nodes: list[LexborNode]) -> list[Lead]:
    return [(node.tag, node.attributes) for node in nodes]


def _only_hrefs_lead(tree: LexborHTMLParser, metas: list[Lead]) -> bool:
    """Whether no frame and no `meta` leads elsewhere, as on most pages."""
    if _has_frames(tree) or tree.tags("iframe"):
        return False
    return not any("refresh" in (each.get("http-equiv") or "").lower() for _, each in metas)


def _has_frames(tree: LexborHTMLParser) -> bool:
    """Whether the page has frames in place of a body. That is the first element after its head,
    whatever `tree.body` says: one that was begun and then replaced stays there."""
    node = tree.head
    while node is not None and node.tag != "body":
        if node.tag == "frameset":
            return True
        node = node.next
    return False
