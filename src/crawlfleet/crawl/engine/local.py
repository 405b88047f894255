"""Assembles a crawl that runs in this process alone, and starts without modules that only a fleet
needs."""

from collections.abc import Callable, Mapping
from pathlib import Path

from crawlfleet import plugins
from crawlfleet.core.crawls.shared_crawl import rules_of
from crawlfleet.crawl.engine.build import checked
from crawlfleet.crawl.engine.crawl import CrawlRun
from crawlfleet.crawl.fetch.secrets import check_no_secrets
from crawlfleet.crawl.output.sinks import name_of, open_sink
from crawlfleet.model.crawl.extraction import EmptyFields
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.ports.frontier.frontier import Frontier
from crawlfleet.ports.sink import Sink


def local_frontier(parameters: CrawlParameters, path: Path) -> Frontier:
    """Return the frontier of a crawl in a file."""
    opened: Frontier = plugins.load_one(plugins.FRONTIERS, "sqlite")(
        path=path, rules=rules_of(parameters)
    )
    return opened


def local_crawl(
    parameters: CrawlParameters,
    *,
    frontier: Path,
    also: Mapping[str, Sink] | None = None,
    round: int = 1,
    warn: Callable[[EmptyFields], None] = lambda empty: None,
) -> CrawlRun:
    """Assemble a crawl that runs in this process alone, with its frontier in that file. `also` are
    further sinks by their names; `warn` is called once if selectors match nothing."""
    _, plan = checked(parameters)
    check_no_secrets(parameters)
    return CrawlRun(
        parameters,
        frontier=local_frontier(parameters, frontier),
        sinks={
            **{name_of(spec): open_sink(spec, plan) for spec in parameters.sinks},
            **(also or {}),
        },
        allow_private=parameters.fetching.allow_private,
        round=round,
        warn=warn,
    )
