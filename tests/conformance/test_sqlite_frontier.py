"""The SQLite frontier does what every frontier must, and what one file on one disk needs."""

from pathlib import Path

from crawlfleet.backends.frontier.sqlite import SqliteFrontier
from crawlfleet.model.frontier import FrontierRules
from crawlfleet.ports.frontier import Frontier
from crawlfleet.testing.frontier_suite import BloomFrontierSuite, FrontierSuite


class TestSqliteFrontier(FrontierSuite):
    def make_frontier(self, folder: Path, rules: FrontierRules) -> Frontier:
        return SqliteFrontier(path=folder / "crawl.db", rules=rules)


class TestSqliteFrontierWithBloom(BloomFrontierSuite):
    def make_frontier(self, folder: Path, rules: FrontierRules) -> Frontier:
        return SqliteFrontier(path=folder / "crawl.db", rules=rules)
