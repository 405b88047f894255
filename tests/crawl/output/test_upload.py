"""Items on their way to the master: bounded pieces, numbers used once, receipts that hold."""

import asyncio
import zlib
from typing import Any

import pytest

from crawlfleet.crawl.output import upload
from crawlfleet.crawl.output.upload import ItemLines, UploadSink, cut
from crawlfleet.errors import SinkUnusable
from crawlfleet.model.crawl.extraction import Item
from crawlfleet.model.wire.output import Segment
from crawlfleet.ports.sink import PageRecord


class Master:
    """Keeps what it is given."""

    task_id = "task-1"
    attempt = 1
    stores_output = True

    def __init__(self, execution_id: str = "exec-1") -> None:
        self.execution_id = execution_id
        self.segments: list[Segment] = []
        self.texts: list[bytes] = []

    async def store_segment(self, stream: str, segment: Segment, data: bytes) -> None:
        self.segments.append(segment)
        self.texts.append(zlib.decompress(data) if data else b"")


def page(*titles: str) -> PageRecord:
    items = [Item(kind="products", fields={"title": title}) for title in titles]
    return PageRecord(id=1, url="https://shop.example/", at=0.0, items=items)


def make(master: Any) -> UploadSink:
    return UploadSink(master, "items", ItemLines(), columns=("title",))


def numbers(master: Master) -> list[tuple[int, int, int]]:
    return [(each.sequence, each.first, each.counted) for each in master.segments]


def test_items_travel_before_they_count() -> None:
    async def scene() -> None:
        master = Master()
        sink = make(master)
        await sink.open(None)
        await sink.stage([])
        await sink.stage([page("a", "b")])
        empty = await sink.stage([page()])
        receipt = await sink.stage([page("c")])
        assert empty["runs"][-1]["last"] == 2
        assert [*receipt["runs"]] == [{"execution_id": "exec-1", "last": 3, "items": 3}]
        assert await sink.finish() == {"items": 3}
        assert numbers(master) == [(1, 1, 0), (2, 2, 1), (3, 3, 2), (4, 4, 3)]
        assert master.segments[0].columns == ("title",)
        assert b"".join(master.texts).splitlines() == [
            b'["products",{"title":"%s"}]' % title for title in (b"a", b"b", b"c")
        ]

    asyncio.run(scene())


def test_a_step_that_was_refused_is_taken_back_under_new_numbers() -> None:
    async def scene() -> None:
        master = Master()
        sink = make(master)
        await sink.open(None)
        await sink.stage([])
        committed = await sink.stage([page("a")])
        await sink.stage([page("refused")])
        await sink.open(committed)
        await sink.stage([page("b")])
        assert numbers(master) == [(1, 1, 0), (2, 2, 1), (3, 3, 2), (4, 4, 2)]

    asyncio.run(scene())


def test_a_later_attempt_names_the_runs_that_it_goes_on_from() -> None:
    async def scene() -> None:
        first = make(Master())
        await first.open(None)
        receipt = await first.stage([page("a")])
        master = Master("exec-2")
        second = make(master)
        await second.open(receipt)
        after = await second.stage([page("b")])
        assert [run["execution_id"] for run in after["runs"]] == ["exec-1", "exec-2"]
        assert master.segments[0].earlier[0].last == 2
        assert await second.finish() == {"items": 2}

    asyncio.run(scene())


def test_a_receipt_of_something_else_is_refused() -> None:
    with pytest.raises(SinkUnusable, match="start afresh"):
        asyncio.run(make(Master()).open({"runs": [{"path": "x"}]}))


@pytest.mark.parametrize("sizes", [(), (3,), (10,), (11,), (35,), (4, 4, 4), (4, 25, 1), (9, 1, 9)])
def test_pieces_are_bounded_and_lose_nothing(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "PIECE_BYTES", 10)
    lines = [b"x" * (size - 1) + b"\n" for size in sizes]

    pieces = [*cut(lines)]

    assert pieces
    assert all(len(piece.data) <= 10 for piece in pieces)
    assert b"".join(piece.data for piece in pieces) == b"".join(lines)
    assert [piece.items for piece in pieces] == [piece.data.count(b"\n") for piece in pieces]
    assert [piece.is_part for piece in pieces] == [
        bool(piece.data) and not piece.data.endswith(b"\n") for piece in pieces
    ]
