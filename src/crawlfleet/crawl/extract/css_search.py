"""Finds the elements that a CSS selector matches, in bounded time.

The search engine tries `a b c` for each element against all pairs of its ancestors, so that a deep
page with many elements takes cubic time. Where that could be slow, the parts of the selector are
searched for one after another, and one walk upwards finds which lie within which.
"""

from bisect import bisect_right
from functools import lru_cache
from typing import Final

from selectolax.lexbor import LexborNode

from crawlfleet.core.pages import css
from crawlfleet.crawl.extract.markup import HtmlPage
from crawlfleet.crawl.extract.nesting import is_within

STEPS: Final = 1_000_000_000
"""Maximum cost of one search, in steps of the search engine: a few seconds at worst, mostly far
less."""


def find(page: HtmlPage, selector: str, chains: tuple[css.Chain, ...]) -> list[LexborNode]:
    """Return all elements that match, each once, in their order; `chains` are those of the
    selector.

    Nothing is found if the search would exceed the limit, as for siblings of siblings among a
    hundred thousand elements.
    """
    if not chains or _is_cheap(page, chains):
        found = page.find(selector)
    else:
        found = _by_parts(page, selector)
    if "," in selector and len(found) > 1:
        # An element comes once for each alternative that it matches.
        return list({node.mem_id: node for node in found}.values())
    return found


def _is_cheap(page: HtmlPage, chains: tuple[css.Chain, ...]) -> bool:
    most = _most_tags(chains)
    # Counting tags takes longer than many a search, and most pages are small enough for all.
    return len(page.body) <= most or page.tags <= most


@lru_cache(maxsize=1000)
def _most_tags(chains: tuple[css.Chain, ...]) -> int:
    """Return the number of tags up to which no nesting can make the search exceed its maximum
    cost."""
    return (
        bisect_right(
            range(STEPS + 1),
            STEPS,
            lo=1,
            key=lambda tags: css.cost(chains, elements=tags, depth=tags, breadth=tags),
        )
        - 1
    )


def _by_parts(page: HtmlPage, selector: str) -> list[LexborNode]:
    matched: set[int] = set()
    last: list[str] = []
    for alternative in css.parts(selector):
        segments = _segments(alternative)
        last.append(_text(segments[-1]))
        around: list[LexborNode] | None = None
        for segment in segments:
            around = _step(page, segment, around)
        matched.update(node.mem_id for node in around or ())
    if not matched:
        return []
    if len(last) == 1:
        return around or []
    return [node for node in page.find(", ".join(last)) if node.mem_id in matched]


def _step(
    page: HtmlPage, segment: list[tuple[str, str]], around: list[LexborNode] | None
) -> list[LexborNode]:
    """Return the matches of a segment that lie within those of the segment before it."""
    if around is not None and not around:
        return []
    text = _text(segment)
    depth, breadth = page.shape
    chains = css.chains(text)
    if css.cost(chains, elements=page.tags, depth=depth, breadth=breadth) > STEPS:
        return []
    found = page.find(text)
    if around is None:
        return found
    heads = [_head(node, segment) for node in found]
    within = is_within([head for head in heads if head is not None], around)
    return [
        node
        for node, head in zip(found, heads, strict=True)
        if head is not None and within[head.mem_id]
    ]


def _segments(parts: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """The parts between white space, which means "anywhere within"."""
    segments: list[list[tuple[str, str]]] = []
    for combinator, compound in parts:
        if combinator in {"", " "}:
            segments.append([("", compound)])
        else:
            segments[-1].append((combinator, compound))
    return segments


def _text(segment: list[tuple[str, str]]) -> str:
    return " ".join(f"{combinator} {compound}".strip() for combinator, compound in segment)


def _head(node: LexborNode, segment: list[tuple[str, str]]) -> LexborNode | None:
    """Return an element with the same ancestors as the match of the segment's first step.

    Siblings have the same ancestors, so only steps to children count.
    """
    head: LexborNode | None = node
    for combinator, _ in segment[1:]:
        if combinator == ">" and head is not None:
            head = head.parent
    return head
