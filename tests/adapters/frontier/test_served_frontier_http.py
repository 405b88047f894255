"""The frontier of a real master, asked over HTTP by a node that holds the task of its crawl."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from crawlfleet.model.crawl.frontier import FrontierRules
from crawlfleet.ports.frontier.frontier import Frontier
from crawlfleet.testing.frontier_suite import FrontierSuite
from tests.support.far_frontier import FarFrontier
from tests.support.local_fleet import LocalFleet, running

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("served frontier")]


class TestServedFrontierOverHttp(FrontierSuite):
    CRAWLS = 20
    if not SOAK:
        # Each of its many lives is a node that joins; without HTTP it is in every run.
        test_random_crawls_visit_all_within_reach_once_at_their_distance = None  # type: ignore[assignment]
    fleet: ClassVar[LocalFleet]
    crawls: ClassVar[dict[Path, str]] = {}

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def master(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        patience = {
            "CRAWLFLEET_SESSION_HEARTBEAT_INTERVAL_S": "60",
            "CRAWLFLEET_SESSION_TIMEOUT_S": "600",
        }
        fleet = LocalFleet(tmp_path_factory.mktemp("fleet"), workers=0, **patience)
        with running(fleet):
            cls.fleet = fleet
            asyncio.run(fleet.until_ready())
            yield

    def make_frontier(self, folder: Path, rules: FrontierRules) -> Frontier:
        is_new = folder not in self.crawls
        name = self.crawls.setdefault(folder, f"crawl-{len(self.crawls)}")
        return FarFrontier(self.fleet, name, rules, is_new=is_new)
