"""The outcomes of a crawl's first seeds, which explain a crawl that got no page at all."""

from typing import Final

from crawlfleet.crawl.engine.crawl import explain
from crawlfleet.model.crawl.frontier import UrlRecord
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.ports.frontier.frontier import Frontier

MAX_FATES: Final = 3


async def fates_of_seeds(parameters: CrawlParameters, frontier: Frontier) -> list[UrlRecord]:
    """Return the records of the first few seeds. The crawl must not be running; its frontier is
    opened and closed."""
    told = [await explain(parameters, frontier, url) for url in parameters.seeds[:MAX_FATES]]
    return [each.record for each in told if each.record is not None]


def in_words(fate: UrlRecord) -> str:
    """One of them for people."""
    outcome = f"{fate.outcome}".replace("_", " ")
    return f"{fate.url}: {outcome}" + (f" ({fate.note})" if fate.note else "")
