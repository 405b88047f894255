"""What `crawlfleet crawl` does when a fleet is to do the work."""

import contextlib

from crawlfleet.cli.crawl.display import Display, print_explanation
from crawlfleet.cli.crawl.fleet import FleetCrawl, Order, check
from crawlfleet.cli.crawl.state import CrawlState
from crawlfleet.cli.shell.access import Access
from crawlfleet.cli.shell.command import reach
from crawlfleet.cli.shell.loop import run
from crawlfleet.client import Client
from crawlfleet.crawl.engine.crawl import Explanation, Summary
from crawlfleet.errors import ConfigError


def crawl_on_fleet(
    order: Order, access: Access, state: CrawlState, *, quiet: bool
) -> tuple[int, Summary | None]:
    """Crawl, or go on watching: the exit code, and how it ended if it did and completed."""
    check(order)
    display = Display(quiet=quiet)
    with state.held():
        fleet = reach(access)
        if order.fresh:
            _forget(state, display)
        elif (ended := state.finished()) is not None:
            display.already_done(ended, state.name, on_fleet=True)
            return 0, ended
        state.begin(replacing=order.fresh)
        display.begin(order.parameters, resumed=state.resumed, again=False)
        return run(_crawl(order, fleet, state, display))


def explain_on_fleet(access: Access, state: CrawlState, url: str) -> None:
    """Say what became of a URL in the crawl that the same command began."""
    sent = state.sent
    if sent is None or not sent.task_id:
        raise ConfigError(
            f"no crawl of a fleet into {state.name} is known here; repeat its whole command, with "
            "--why, or ask with `crawlfleet crawls why`"
        )
    told = run(_explanation(access, sent.task_id, url))
    print_explanation(told)


def _forget(state: CrawlState, display: Display) -> None:
    """Begin anew; of an earlier crawl that may still run people ought to know."""
    earlier = None
    with contextlib.suppress(ConfigError):  # what cannot be read need not be known
        earlier = state.sent
    state.forget()
    if earlier is not None and earlier.task_id:
        display.say(
            f"{earlier.task_id} is left as it is; if it still runs, `crawlfleet tasks cancel "
            f"{earlier.task_id}` ends it"
        )


async def _crawl(
    order: Order, fleet: Client, state: CrawlState, display: Display
) -> tuple[int, Summary | None]:
    async with fleet:
        return await FleetCrawl(order, state, display, fleet).run()


async def _explanation(access: Access, task_id: str, url: str) -> Explanation:
    async with reach(access) as fleet:
        told = await fleet.explain_url(task_id, url)
    return Explanation(url=told.url, record=told.record, refused_by=told.refused_by, why=told.why)
