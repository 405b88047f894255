"""Tests of receipts: they are small, and valid only for their own output."""

from pathlib import Path

import msgspec
import pytest

from crawlfleet.errors import SinkUnusable
from crawlfleet.testing.sink_suite.harness import SinkHarness, begun, kept, on_sinks, pages

SMALL_BYTES = 1000


class ReceiptTests(SinkHarness):
    @on_sinks
    async def test_receipt_is_a_small_json_value(self, folder: Path) -> None:
        sink = self.make_sink(folder)
        receipt = await begun(sink)
        for number in range(50):
            receipt = await sink.stage(pages([number]))
        written = msgspec.json.encode(receipt)
        assert msgspec.json.encode(kept(receipt)) == written
        assert len(written) < SMALL_BYTES
        await sink.close()

    @on_sinks
    async def test_nothing_staged_leaves_the_receipt_as_it_was(self, folder: Path) -> None:
        sink = self.make_sink(folder)
        await begun(sink)
        receipt = await sink.stage(pages(range(3)))
        assert await sink.stage([]) == receipt
        await sink.close()

    @on_sinks
    async def test_spoilt_output_is_refused_and_left_alone(self, folder: Path) -> None:
        sink = self.make_sink(folder)
        await begun(sink)
        receipt = kept(await sink.stage(pages(range(10))))
        await sink.close()
        self.spoil(folder)
        before = self.snapshot(folder)
        again = self.make_sink(folder)
        with pytest.raises(SinkUnusable, match=r"afresh|another|put"):
            await again.open(receipt)
        await again.close()
        assert self.snapshot(folder) == before

    @on_sinks
    async def test_receipt_of_another_output_is_refused(self, folder: Path) -> None:
        (folder / "a").mkdir()
        (folder / "b").mkdir()
        sink = self.make_sink(folder / "a")
        await begun(sink)
        receipt = kept(await sink.stage(pages(range(10))))
        await sink.close()
        other = self.make_sink(folder / "b")
        with pytest.raises(SinkUnusable):
            await other.open(receipt)
        await other.close()

    @on_sinks
    async def test_receipt_of_another_kind_of_sink_is_refused(self, folder: Path) -> None:
        sink = self.make_sink(folder)
        with pytest.raises(SinkUnusable, match=r"receipt|manifest"):
            await sink.open({"something": "else"})
        await sink.close()
