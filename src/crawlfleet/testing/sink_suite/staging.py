"""Tests of staging: staged and committed pages are in the output once, whatever happens in
between."""

from pathlib import Path

import msgspec
import pytest

from crawlfleet.errors import SinkUnusable
from crawlfleet.testing.sink_suite.harness import SinkHarness, begun, kept, on_sinks, page, pages


class StagingTests(SinkHarness):
    @on_sinks
    async def test_all_staged_pages_are_in_the_output(self, folder: Path) -> None:
        sink = self.make_sink(folder)
        await begun(sink)
        await sink.stage(pages(range(5)))
        await sink.stage(pages(range(5, 400)))
        told = await sink.finish()
        assert told["items"] == len(self.expected(range(400)))
        self.check(folder, range(400))

    @on_sinks
    async def test_output_without_any_page_is_whole(self, folder: Path) -> None:
        sink = self.make_sink(folder)
        await begun(sink)
        assert (await sink.finish())["items"] == 0
        self.check(folder, [])

    @on_sinks
    async def test_pages_without_items_are_no_trouble(self, folder: Path) -> None:
        sink = self.make_sink(folder)
        await begun(sink)
        await sink.stage([page(0), page(4)])
        await sink.stage(pages([5]))
        await sink.finish()
        self.check(folder, [0, 4, 5])

    @on_sinks
    async def test_finishing_and_closing_twice_changes_nothing(self, folder: Path) -> None:
        sink = self.make_sink(folder)
        await begun(sink)
        await sink.stage(pages(range(9)))
        first = await sink.finish()
        assert await sink.finish() == first
        await sink.close()
        await sink.close()
        self.check(folder, range(9))

    @on_sinks
    async def test_finished_output_can_be_opened_and_finished_again(self, folder: Path) -> None:
        """The process died between finishing and writing down that it did."""
        sink = self.make_sink(folder)
        await begun(sink)
        receipt = kept(await sink.stage(pages(range(9))))
        first = await sink.finish()
        again = self.make_sink(folder)
        await again.open(receipt)
        assert await again.finish() == first
        self.check(folder, range(9))

    @on_sinks
    async def test_what_no_commit_counted_is_cut(self, folder: Path) -> None:
        sink = self.make_sink(folder)
        await begun(sink)
        receipt = kept(await sink.stage(pages(range(10))))
        await sink.stage(pages(range(10, 20)))
        await sink.close()
        again = self.make_sink(folder)
        await again.open(receipt)
        await again.stage(pages(range(15, 25)))
        await again.finish()
        self.check(folder, [*range(10), *range(15, 25)])

    @on_sinks
    async def test_first_pages_that_no_commit_counted_are_cut(self, folder: Path) -> None:
        sink = self.make_sink(folder)
        receipt = await begun(sink)
        await sink.stage(pages(range(10)))
        await sink.close()
        again = self.make_sink(folder)
        await again.open(receipt)
        await again.stage(pages([21]))
        await again.finish()
        self.check(folder, [21])

    @on_sinks
    async def test_open_sink_takes_back_what_was_not_committed(self, folder: Path) -> None:
        """The commit was refused, and the same process goes on."""
        sink = self.make_sink(folder)
        await begun(sink)
        receipt = kept(await sink.stage(pages(range(10))))
        await sink.stage(pages(range(10, 20)))
        await sink.open(receipt)
        receipt = kept(await sink.stage(pages(range(12, 18))))
        await sink.stage(pages(range(30, 40)))
        await sink.open(receipt)
        await sink.finish()
        self.check(folder, [*range(10), *range(12, 18)])

    @on_sinks
    async def test_many_lives_leave_one_output(self, folder: Path) -> None:
        receipt = await begun(self.make_sink(folder))
        counted: list[int] = []
        for life in range(12):
            sink = self.make_sink(folder)
            await sink.open(receipt)
            for step in range(life % 3):
                numbers = range(life * 100 + step * 10, life * 100 + step * 10 + 7)
                receipt = kept(await sink.stage(pages(numbers)))
                counted += numbers
            await sink.stage(pages(range(5000, 5005)))
            await sink.close()
        sink = self.make_sink(folder)
        await sink.open(receipt)
        await sink.finish()
        self.check(folder, counted)

    @on_sinks
    async def test_closed_sink_says_so(self, folder: Path) -> None:
        sink = self.make_sink(folder)
        receipt = await begun(sink)
        await sink.close()
        with pytest.raises(SinkUnusable, match="open"):
            await sink.stage(pages(range(3)))
        await sink.open(receipt)
        await sink.stage(pages(range(3)))
        await sink.finish()
        self.check(folder, range(3))

    @on_sinks
    async def test_bodies_are_only_asked_for_where_they_are_kept(self, folder: Path) -> None:
        sink = self.make_sink(folder)
        assert sink.wants_bodies is self.WHOLE_PAGES
        await begun(sink)
        bare = [msgspec.structs.replace(one, body=b"", headers=()) for one in pages(range(5))]
        if not sink.wants_bodies:
            await sink.stage(bare)
            await sink.finish()
            self.check(folder, range(5))
        await sink.close()
