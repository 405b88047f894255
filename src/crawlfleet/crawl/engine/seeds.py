"""Seeds: the addresses that a crawl was given, in canonical form."""

from collections.abc import Iterator

from crawlfleet.core.urls.canonical import Canonicaliser
from crawlfleet.errors import FieldProblem
from crawlfleet.model.crawl.parameters import CrawlParameters


def seeds_of(parameters: CrawlParameters) -> Iterator[str | FieldProblem]:
    """Yield the canonical form of each seed, or a problem for each that is not a web address.
    Yields one problem if there are no seeds."""
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
    """Return the problems of the seeds that keep the crawl from starting."""
    return (seed for seed in seeds_of(parameters) if isinstance(seed, FieldProblem))
