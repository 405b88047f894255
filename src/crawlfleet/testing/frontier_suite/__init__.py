"""Conformance tests for frontiers: subclass `FrontierSuite` in a test module, pytest finds the
rest.

    class TestMyFrontier(FrontierSuite):
        def make_frontier(self, folder: Path, rules: FrontierRules) -> Frontier:
            return MyFrontier(url=..., rules=rules)

`make_frontier` called again with the same folder must give a frontier over the same crawl; a new
folder is a new crawl. `DEDUP` is what the rules of all tests ask for, `CRAWLS` how many random
crawls are tried. Needs pytest and hypothesis.
"""

from crawlfleet.testing.frontier_suite.commits import FrontierCommitTests
from crawlfleet.testing.frontier_suite.crawls import CrawlTests
from crawlfleet.testing.frontier_suite.depths import DepthTests
from crawlfleet.testing.frontier_suite.intake import IntakeTests
from crawlfleet.testing.frontier_suite.leases import LeaseTests
from crawlfleet.testing.frontier_suite.limits import LimitTests
from crawlfleet.testing.frontier_suite.notes import NoteTests
from crawlfleet.testing.frontier_suite.restarts import FrontierRestartTests
from crawlfleet.testing.frontier_suite.rounds import RoundTests


class BloomFrontierSuite(
    IntakeTests,
    LeaseTests,
    FrontierCommitTests,
    LimitTests,
    NoteTests,
    FrontierRestartTests,
    RoundTests,
):
    """Tests that hold without exact knowledge of all depths."""

    DEDUP = "bloom"


class FrontierSuite(BloomFrontierSuite, DepthTests, CrawlTests):
    """Every sentence of `crawlfleet.ports.frontier.frontier`, as a test."""

    DEDUP = "exact"
