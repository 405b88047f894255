"""Where a crawl begins: the addresses that it was given, as it goes on to spell them."""

from collections.abc import Iterator

from crawlfleet.core.urls.canonical import Canonicaliser
from crawlfleet.errors import FieldProblem
from crawlfleet.model.crawl.parameters import CrawlParameters


def seeds_of(parameters: CrawlParameters) -> Iterator[str | FieldProblem]:
    """The canonical form of each address, or what is wrong with it; a problem if there is none."""
    canonical = Canonicaliser(parameters.canonical)
    for number, address in enumerate(parameters.seeds):
        url = canonical.canonical(address)
        of_list = number - bool(parameters.url)
        yield url or FieldProblem(
            field="url" if of_list < 0 else f"urls[{of_list}]",
            message="is not an address of the web",
            remedy="begin it with https:// or http://",
            value=address,
        )
    if not parameters.seeds:
        yield FieldProblem(field="url", message="is missing", remedy="name where to begin")


def seed_problems(parameters: CrawlParameters) -> Iterator[FieldProblem]:
    """Why the crawl could not begin where it was told to."""
    return (seed for seed in seeds_of(parameters) if isinstance(seed, FieldProblem))
