"""Builds an engine and its parts from the parameters of a crawl."""

import random
from collections.abc import Callable
from datetime import UTC, datetime

from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.core.urls.canonical import Canonicaliser, fingerprint, host_key
from crawlfleet.core.urls.host_parts import queue_of
from crawlfleet.core.urls.scope import Territory
from crawlfleet.core.urls.scope import problems as scope_problems
from crawlfleet.core.urls.traps import Variants
from crawlfleet.crawl.engine.engine import Engine
from crawlfleet.crawl.engine.outcomes import OutcomeReader
from crawlfleet.crawl.engine.seeds import seeds_of
from crawlfleet.crawl.extract.limited_reader import LimitedReader
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.fetch.request import user_agent
from crawlfleet.crawl.links import Links
from crawlfleet.crawl.politeness.local_limits import Neighbourhood
from crawlfleet.crawl.politeness.robots import product_of
from crawlfleet.crawl.public_suffixes import bundled
from crawlfleet.crawl.work import WorkQueue
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.crawl.extraction import ExtractionPlan
from crawlfleet.model.crawl.frontier import Link
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.ports.ledger import Ledger


def checked(parameters: CrawlParameters, *, parts: int = 1) -> tuple[list[Link], ExtractionPlan]:
    """The first links and the plan of a crawl whose hosts have so many parts; raises
    `InvalidRequest` with all that is wrong."""
    wrong = scope_problems(parameters.scope)
    plan = ExtractionPlan()
    try:
        plan = plan_of(parameters)
    except InvalidRequest as error:
        wrong += error.problems
    seeds: dict[int, Link] = {}
    for seed in seeds_of(parameters):
        if isinstance(seed, FieldProblem):
            wrong.append(seed)
        else:
            id = fingerprint(seed)
            seeds[id] = Link(id, seed, queue_of(host_key(seed), id, parts))
    if wrong:
        raise InvalidRequest(wrong)
    return [*seeds.values()], plan


def plan_of(parameters: CrawlParameters) -> ExtractionPlan:
    """Build the extraction plan of a crawl. Raises `InvalidRequest` with every problem found."""
    return make_plan(
        parameters.selectors,
        item=parameters.item,
        infer_item=parameters.infer_item,
        structured=parameters.structured,
    )


def links_of(parameters: CrawlParameters, *, now: float, parts: int = 1) -> Links:
    """Build the `Links` that decide which links belong to a crawl and to which part of their
    host."""
    seeds, _ = checked(parameters)
    territory = Territory(
        parameters.scope,
        parameters.limits,
        [seed.url for seed in seeds],
        year=datetime.fromtimestamp(now, UTC).year,
        suffixes=bundled() if parameters.scope.within == "domain" else None,
    )
    canonical = Canonicaliser(parameters.canonical)
    variants = Variants(parameters.scope.max_query_variants)
    return Links(canonical, territory, variants, parts=parts)


def engine_of(
    parameters: CrawlParameters,
    *,
    desk: WorkQueue,
    fetcher: Fetcher,
    keep_bodies: bool,
    revisiting: bool,
    now: Callable[[], float],
    ledger: Ledger | None = None,
    name: str = "",
    parts: int = 1,
) -> Engine:
    """Build an engine that gets its work from a work queue. With a `ledger`, the engine uses it
    under that `name`. `parts` is the number of parts of each host; hosts in parts need a ledger."""
    _, plan = checked(parameters)
    granted = None
    if ledger is not None:
        from crawlfleet.crawl.politeness.ledger_client import (
            Granted,  # a crawl of one machine needs none of it
        )

        granted = Granted(
            parameters.politeness,
            ledger=ledger,
            fetcher=fetcher,
            longest_s=parameters.limits.connect_s + parameters.limits.total_s,
            suffixes=bundled,
            engine=name,
            is_needed=parts > 1,
        )
    links = links_of(parameters, now=now(), parts=parts)
    product = product_of(user_agent(parameters.fetching))
    return Engine(
        parameters,
        desk=desk,
        fetcher=fetcher,
        judge=OutcomeReader(
            parameters,
            links=links,
            reader=LimitedReader(plan, product=product),
            chance=random.random,
            keep_bodies=keep_bodies,
            revisiting=revisiting,
        ),
        links=links,
        neighbourhood=Neighbourhood(
            parameters.politeness,
            workers=parameters.workers,
            address_of=fetcher.address_of,
            suffixes=bundled,
            now=now,
        ),
        granted=granted,
        product=product,
        now=now,
        parts=parts,
    )


def fetcher_of(parameters: CrawlParameters, *, allow_private: bool) -> Fetcher:
    """Build the fetcher of a crawl. Pass `allow_private` only if both the node and the crawl allow
    private addresses."""
    return Fetcher(
        limits=parameters.limits, fetching=parameters.fetching, allow_private=allow_private
    )
