"""Tries selectors on one page before a crawl uses them: the matches of each, and the items."""

from collections.abc import Mapping
from typing import Any

import msgspec

from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.crawl.extract.extract import Extractor
from crawlfleet.crawl.extract.page_reader import open_page
from crawlfleet.crawl.fetch.charset import Text
from crawlfleet.model.crawl.extraction import Item


class Catch(msgspec.Struct, frozen=True, kw_only=True):
    """The matches of selectors on one page."""

    items: list[Item]
    caught: dict[str, int]
    """Number of matches of each selector, by its name; within groups by its path."""


def try_selectors(
    text: Text,
    url: str,
    kind: str,
    *,
    selectors: Mapping[str, Any],
    item: str | None = None,
    infer_item: bool = True,
    structured: bool = False,
) -> Catch:
    """Take items out of a page; raises `InvalidRequest` for selectors that are none."""
    plan = make_plan(selectors, item=item, infer_item=infer_item, structured=structured)
    extractor = Extractor(plan)
    page, document = open_page(text.utf8, url, kind, text.charset)
    return Catch(
        items=[*extractor.items(page, document)], caught=dict(extractor.caught(page, document))
    )
