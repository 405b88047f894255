"""A request by the windows of a ledger, one at a time, on a simulated clock."""

import asyncio
from pathlib import Path

import pytest

from crawlfleet.core.politeness.host_clock import HostClock
from crawlfleet.crawl.engine.build import fetcher_of
from crawlfleet.crawl.fetch.fetcher import NotSent
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.crawl.politeness.ledger_client import Granted
from crawlfleet.crawl.politeness.robots_gate import NoLedger
from crawlfleet.crawl.public_suffixes import bundled
from crawlfleet.errors import LedgerUnavailable, Refused
from crawlfleet.model.crawl.parameters import Outcome, Politeness
from crawlfleet.model.wire.politeness import LedgerReply, LedgerRequest, Window
from crawlfleet.testing.simulation.clock import run_simulated
from tests.crawl.crawling import parameters_for

HOST = "http://192.0.2.1"
POLITE = Politeness(delay_s=0, obey_robots=False)


class PlayedLedger:
    """Grants whatever is asked for, after it has raised what it is given."""

    def __init__(self, *troubles: Exception) -> None:
        self._troubles = [*troubles]
        self.asked: list[LedgerRequest] = []

    async def ask(self, ask: LedgerRequest) -> LedgerReply:
        self.asked.append(ask)
        if self._troubles:
            raise self._troubles.pop(0)
        windows = [
            Window(key=terms.key, start_in_s=0.0, end_in_s=30.0, delay_s=0.0, permits=4)
            for want in ask.wants
            for terms in want.keys
        ]
        return LedgerReply(windows=tuple(windows))


class Site:
    """Answers, but for the first so many requests, for which it is too late to go out."""

    def __init__(self, *, late: int = 0) -> None:
        self.late = late
        self.requests = 0

    async def send(self, request: FetchRequest) -> Fetched:
        assert request.may_go is not None
        assert request.may_go(), "nothing stands in the way"
        self.requests += 1
        if self.requests <= self.late:
            raise NotSent
        return Fetched(url=request.url, outcome=Outcome.OK, status=200)


async def asked(
    folder: Path, ledger: PlayedLedger, site: Site, *, is_needed: bool = False
) -> Fetched:
    loop = asyncio.get_running_loop()
    parameters = parameters_for(folder, f"{HOST}/", politeness=POLITE)
    async with fetcher_of(parameters, allow_private=True) as fetcher:
        granted = Granted(
            POLITE,
            ledger=ledger,
            fetcher=fetcher,
            longest_s=10.0,
            suffixes=bundled,
            is_needed=is_needed,
            clock=loop.time,
            wall=loop.time,
        )
        try:
            return await granted.fetch(
                HOST, HostClock(POLITE), FetchRequest(url=f"{HOST}/"), site.send
            )
        finally:
            await granted.close()


def test_what_was_too_late_to_go_out_is_tried_again(tmp_path: Path) -> None:
    ledger, site = PlayedLedger(), Site(late=2)
    assert run_simulated(asked(tmp_path, ledger, site)).status == 200
    assert site.requests == 3
    assert ledger.asked[-1].returns, "the window is given back"


def test_a_ledger_that_is_away_is_asked_again(tmp_path: Path) -> None:
    ledger, site = PlayedLedger(LedgerUnavailable("away"), LedgerUnavailable("away")), Site()
    assert run_simulated(asked(tmp_path, ledger, site)).status == 200
    assert site.requests == 1
    assert [bool(each.wants) for each in ledger.asked[:3]] == [True] * 3


def test_without_a_ledger_a_host_is_asked_all_the_same(tmp_path: Path) -> None:
    site = Site()
    assert run_simulated(asked(tmp_path, PlayedLedger(Refused("none")), site)).status == 200


def test_where_a_ledger_is_needed_nobody_is_asked_without(tmp_path: Path) -> None:
    site = Site()
    with pytest.raises(NoLedger):
        run_simulated(asked(tmp_path, PlayedLedger(Refused("none")), site, is_needed=True))
    assert not site.requests
