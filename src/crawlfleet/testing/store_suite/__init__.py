"""Conformance tests for stores: subclass `StoreSuite` in a test module, and pytest finds the rest.

    class TestMyStore(StoreSuite):
        def make_store(self, folder: Path) -> Store:
            return MyStore(url=...)

Each test gets a store that was just made and opened, and must find it empty but for the default
project and cluster. `folder` is a fresh temporary folder for stores that need one.
"""

from crawlfleet.testing.store_suite.audits import AuditTests
from crawlfleet.testing.store_suite.claims import ClaimTests
from crawlfleet.testing.store_suite.commits import CommitTests
from crawlfleet.testing.store_suite.counts import CountTests
from crawlfleet.testing.store_suite.glances import GlanceTests
from crawlfleet.testing.store_suite.histories import HistoryTests
from crawlfleet.testing.store_suite.keeping import KeepingTests
from crawlfleet.testing.store_suite.masters import SharedStoreTests
from crawlfleet.testing.store_suite.quality import QualityTests
from crawlfleet.testing.store_suite.queries import QueryTests
from crawlfleet.testing.store_suite.reads import ReadTests
from crawlfleet.testing.store_suite.restarts import DurableStoreTests
from crawlfleet.testing.store_suite.schedules import ScheduleTests
from crawlfleet.testing.store_suite.shards import ShardTests
from crawlfleet.testing.store_suite.upkeep import UpkeepTests
from crawlfleet.testing.store_suite.usages import UsageTests
from crawlfleet.testing.store_suite.usual import UsualTests
from crawlfleet.testing.store_suite.webhooks import WebhookTests
from crawlfleet.testing.store_suite.workflows import WorkflowTests


class StoreSuite(
    CommitTests,
    UsualTests,
    ClaimTests,
    ReadTests,
    QueryTests,
    ShardTests,
    ScheduleTests,
    WorkflowTests,
    WebhookTests,
    QualityTests,
    GlanceTests,
    UpkeepTests,
    AuditTests,
    UsageTests,
    HistoryTests,
    KeepingTests,
):
    """Every sentence of `crawlfleet.ports.store`, as a test."""


class DurableStoreSuite(StoreSuite, CountTests, DurableStoreTests):
    """Tests for stores that outlive their process.

    `make_store` called again with the same folder must give a store over the same rows.
    """


class SharedStoreSuite(DurableStoreSuite, SharedStoreTests):
    """Tests for stores that several masters use at once.

    `make_store` called again with the same folder must give the store of another master.
    """
