"""Conformance tests for sinks: subclass `SinkSuite` in a test module, pytest finds the rest.

    class TestMySink(SinkSuite):
        def make_sink(self, folder: Path) -> Sink:
            return MySink(folder / "out")

        def read(self, folder: Path) -> list[Found]:
            return [...]  # all that a reader finds, once it is finished, in any order

`make_sink` called again with the same folder must give a sink over the same output; a new folder
is a new one. `spoil` makes the output another than what was committed. `CrashingSinkSuite` adds a
process that is killed again and again. Needs pytest.
"""

from crawlfleet.testing.sink_suite.crashes import CrashTests
from crawlfleet.testing.sink_suite.harness import FoundItem, SinkHarness, page, pages
from crawlfleet.testing.sink_suite.receipts import ReceiptTests
from crawlfleet.testing.sink_suite.staging import StagingTests

__all__ = ["CrashingSinkSuite", "FoundItem", "SinkHarness", "SinkSuite", "page", "pages"]


class SinkSuite(StagingTests, ReceiptTests):
    """Every sentence of `crawlfleet.ports.sink`, as a test."""


class CrashingSinkSuite(CrashTests):
    """Tests in which processes are killed; they are slow, so mark the class as such."""
