"""The memory frontier does what every frontier must."""

from pathlib import Path

import pytest

from crawlfleet.adapters.frontier import books
from crawlfleet.adapters.frontier.memory import MemoryFrontier
from crawlfleet.model.crawl.frontier import FrontierRules
from crawlfleet.ports.frontier.frontier import Frontier
from crawlfleet.testing.frontier_suite import BloomFrontierSuite, FrontierSuite
from tests.sampling import SOAK, examples


class Kept:
    """One frontier for each folder, since a crawl in memory lives in its object."""

    def __init__(self) -> None:
        self._made: dict[Path, MemoryFrontier] = {}

    def make_frontier(self, folder: Path, rules: FrontierRules) -> Frontier:
        return self._made.setdefault(folder, MemoryFrontier(rules=rules))


KEPT = Kept()


class TestMemoryFrontier(FrontierSuite):
    CRAWLS = examples(150)

    def make_frontier(self, folder: Path, rules: FrontierRules) -> Frontier:
        return KEPT.make_frontier(folder, rules)


class TestMemoryFrontierThatGrows(FrontierSuite):
    """From its fourth URL on it is kept as one of very many is."""

    CRAWLS = 500 if SOAK else 20

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(books, "FEW", 3)

    def make_frontier(self, folder: Path, rules: FrontierRules) -> Frontier:
        return KEPT.make_frontier(folder, rules)


class TestMemoryFrontierWithBloom(BloomFrontierSuite):
    def make_frontier(self, folder: Path, rules: FrontierRules) -> Frontier:
        return KEPT.make_frontier(folder, rules)
