"""Conformance tests for locks: subclass a suite in a test module, and pytest finds the rest.

    class TestMyLocks(SharedLockSuite):
        make = "my.package:from_url"

        def url(self, folder: Path) -> str:
            return "mine://…"

Each test gets locks that were just made and opened, on a folder of its own, and must find none of
them held. `leap` is to set the clock that leases go by forward or back.
"""

from crawlfleet.testing.lock_suite.clocks import ClockTests
from crawlfleet.testing.lock_suite.harness import Guard
from crawlfleet.testing.lock_suite.holders import HolderTests
from crawlfleet.testing.lock_suite.holds import HoldTests
from crawlfleet.testing.lock_suite.processes import ProcessTests
from crawlfleet.testing.lock_suite.restarts import LockRestartTests


class LockSuite(HoldTests, HolderTests, ClockTests):
    """Every sentence of `crawlfleet.ports.locks`, as a test."""


class SharedLockSuite(LockSuite, LockRestartTests, ProcessTests):
    """Tests for locks that outlive their process, and that several processes use at once.

    `url` called again with the same folder must lead to the same locks.
    """


__all__ = ["Guard", "LockSuite", "SharedLockSuite"]
