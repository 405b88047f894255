"""Whether every figure that is shown of a crawl is what the crawl has come to.

There is one truth: the lines of the output, and the pages that the site's own log has. Whatever was
killed meanwhile, each figure equals it, wherever it is shown: by the API and the command line, of
all crawls and of one, in the result of the task and in the summary of a crawl on this machine.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from crawlfleet.client import Client
from crawlfleet.crawl.engine.crawl import Summary
from crawlfleet.features.crawls.views import CrawlView
from crawlfleet.model.crawl.figures import CrawlFigures
from crawlfleet.model.crawl.parameters import ERRORS, FETCHED
from crawlfleet.testing.known_site import ServedSite
from tests.support.local_fleet import LocalFleet
from tests.support.several_masters import SeveralMasters


class Truth(NamedTuple):
    """What a crawl has come to."""

    pages: int
    """That were fetched at least once, by the site's own log."""
    items: int
    """Lines in the output."""
    requests: int | None = None
    """That the site has seen, those too whose pages were lost with a process."""
    is_exact: bool = False
    """Whether nothing was killed, so that none of these was lost."""


def truth_of(site: ServedSite, items: int, *, is_exact: bool = False) -> Truth:
    """By the log of the site, and so many lines of output."""
    hits = site.hits()
    pages = len({hit.page for hit in hits if hit.page >= 0})
    return Truth(pages, items, len(hits), is_exact)


def assert_agree(figures: CrawlFigures) -> None:
    """Figures that are shown together agree, at any moment."""
    outcomes = figures.outcomes
    assert figures.pages == sum(outcomes.get(each, 0) for each in FETCHED), figures
    assert figures.failed == sum(outcomes.get(each, 0) for each in ERRORS), figures
    assert figures.done == sum(outcomes.values()), figures
    assert figures.known == figures.waiting + figures.in_flight + figures.done, figures
    assert figures.known == sum(figures.depths), figures
    assert figures.requests >= figures.pages, figures


def assert_shown(crawl: CrawlView) -> None:
    """A crawl that may still run shows nothing that cannot be. What can be read of its output may
    be a step behind the figures, or ahead of them where they are told."""
    if crawl.figures is not None and crawl.figures.known:
        assert_agree(crawl.figures)


def assert_true(truth: Truth, pages: float, items: float, requests: float) -> None:
    """What was told is what there is."""
    assert (pages, items) == (truth.pages, truth.items)
    assert requests >= pages
    if truth.requests is not None:
        assert requests <= truth.requests
        assert not truth.is_exact or requests == truth.requests


def assert_figures(figures: CrawlFigures | None, truth: Truth) -> None:
    """Of a crawl that has ended."""
    assert figures is not None
    assert_agree(figures)
    assert_true(truth, figures.pages, figures.items, figures.requests)
    assert figures.bytes > 0


def assert_agrees(summary: Summary, items: int) -> None:
    """Of any crawl on this machine, with so many lines of output."""
    outcomes = summary.outcomes
    assert summary.items == items, summary
    assert summary.pages == sum(outcomes.get(each, 0) for each in FETCHED), summary
    assert summary.failed == sum(outcomes.get(each, 0) for each in ERRORS), summary
    assert summary.urls == summary.waiting + sum(outcomes.values()), summary
    assert summary.requests >= summary.pages, summary


def assert_summary(summary: Summary, truth: Truth) -> None:
    """Of a crawl on this machine, or of one on a fleet that the same command has had done."""
    assert_agrees(summary, truth.items)
    assert_true(truth, summary.pages, summary.items, summary.requests)


def assert_metrics(metrics: Mapping[str, float], truth: Truth, figures: CrawlFigures) -> None:
    """Of the task's result; nothing that is in two places differs."""
    assert_true(truth, metrics["pages_crawled"], metrics["items"], metrics["requests"])
    told = {"requests": figures.requests, "data_size": figures.bytes, "retries": figures.retries}
    told |= {"failed": figures.failed, "urls": figures.done, "progress_done": figures.pages}
    assert {name: metrics[name] for name in told} == told


FINAL_WITHIN_S = 30.0
Fleet = LocalFleet | SeveralMasters


async def assert_shown_everywhere(fleet: Fleet, client: Client, id: str, truth: Truth) -> None:
    """Of a crawl of a fleet that has completed, wherever it is shown."""
    async with asyncio.timeout(FINAL_WITHIN_S):
        # The last words travel apart from the end.
        while not ((crawl := await client.crawl(id)).figures and crawl.figures.is_final):
            await asyncio.sleep(0.1)
    assert_figures(crawl.figures, truth)
    assert crawl.figures is not None
    assert crawl.output is not None
    assert crawl.output.items == truth.items
    (listed,) = [each async for each in client.crawls() if each.task_id == id]
    assert listed.figures == msgspec.structs.replace(crawl.figures, hosts=(), rates=())
    task = await client.task(id)
    assert task.result is not None
    assert_metrics(task.result["metrics"], truth, crawl.figures)
    if "output" in task.result["data"]:
        assert task.result["data"]["items"] == truth.items
    work = await client.crawl_work(id)
    assert sum(each.pages or 0 for each in work.shards) == truth.pages
    assert sum(each.items or 0 for each in work.shards) == truth.items
    for told in (await _told(fleet, "show", id), await _told(fleet, "list")):
        (shown,) = [each for each in told if each["task_id"] == id]
        figures = msgspec.convert(shown["figures"], CrawlFigures)
        assert msgspec.structs.replace(figures, hosts=(), rates=()) == listed.figures


async def assert_used(client: Client, truth: Truth) -> None:
    """By all crawls of a fleet that has run nothing else."""
    crawls = [each async for each in client.crawls()]
    used = (await client.usage()).total
    assert used.pages == truth.pages
    assert used.bytes == sum(each.figures.bytes for each in crawls if each.figures)


async def _told(fleet: Fleet, *arguments: str) -> list[dict[str, Any]]:
    """What `crawlfleet crawls` writes."""
    if isinstance(fleet, LocalFleet):
        url, key = fleet.url, fleet.key
    else:
        url, key = ",".join(fleet.urls.values()), fleet._key
    command = [sys.executable, "-m", "crawlfleet", "crawls", *arguments, "--json"]
    environment = {**os.environ, "CRAWLFLEET_URL": url, "CRAWLFLEET_KEY": key}
    ran = await asyncio.to_thread(
        subprocess.run,
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    found = msgspec.json.decode(ran.stdout)
    return found if isinstance(found, list) else [found]
