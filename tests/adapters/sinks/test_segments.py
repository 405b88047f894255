"""Segments: immutable, fenced by the manifest, merged in one order."""

from pathlib import Path
from typing import Any

import pytest

from crawlfleet.adapters.sinks.csv import CommaSeparated
from crawlfleet.adapters.sinks.jsonl import JsonLines
from crawlfleet.adapters.sinks.manifest import Manifest, Run, Segment, united
from crawlfleet.adapters.sinks.segments import SegmentFolder, SegmentSink
from crawlfleet.errors import SinkUnusable
from tests.adapters.sink_pages import page, run


def run_of(partition: int, token: int, last: int) -> Run:
    return Run(partition=partition, token=token, last=last, bytes=last * 2, items=last)


def sink_of(folder: Path, **options: Any) -> SegmentSink:
    given = {"crawl": "c", "target": folder / "items.jsonl", **options}
    return SegmentSink(SegmentFolder(folder / "segments"), JsonLines(), **given)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "segments" / "c").iterdir())


def test_manifest_is_read_in_the_order_of_partition_token_and_sequence() -> None:
    manifest = Manifest(crawl="c")
    for run_ in (run_of(10, 1, 1), run_of(2, 7, 1), run_of(2, 3, 2)):
        manifest = manifest.extended(run_)
    assert list(manifest.segments()) == [
        Segment("c", 2, 3, 1),
        Segment("c", 2, 3, 2),
        Segment("c", 2, 7, 1),
        Segment("c", 10, 1, 1),
    ]


def test_old_news_shorten_no_run() -> None:
    manifest = Manifest(crawl="c").extended(run_of(1, 1, 5)).extended(run_of(1, 1, 3))
    assert [run_.last for run_ in manifest.runs] == [5]
    assert manifest.extended(run_of(1, 2, 0)) == manifest


def test_union_does_not_depend_on_the_order_of_the_partitions() -> None:
    parts = [Manifest(crawl="c", runs=(run_of(n % 3, n, n),)) for n in range(1, 9)]
    assert united("c", parts) == united("c", reversed(parts))
    assert united("c", parts).items == sum(range(1, 9))


def test_segment_is_never_replaced(tmp_path: Path) -> None:
    folder = SegmentFolder(tmp_path)
    segment = Segment("c", 0, 1, 1)
    folder.put(segment, b"one")
    folder.put(segment, b"one")
    with pytest.raises(SinkUnusable, match="two writers use the same token"):
        folder.put(segment, b"two")
    assert folder.path(segment).read_bytes() == b"one"
    assert [path.name for path in (tmp_path / "c").iterdir()] == [folder.path(segment).name]


@pytest.mark.parametrize("crawl", ["", "../x", "a/b", ".", "a\0"])
def test_crawl_that_is_no_name_of_a_folder_is_refused(tmp_path: Path, crawl: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        SegmentFolder(tmp_path).put(Segment(crawl, 0, 1, 1), b"")


def test_writer_that_lost_its_partition_writes_for_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        late = sink_of(tmp_path, token=1)
        await late.open(None)
        receipt = await late.stage([page({"n": 1})])
        successor = sink_of(tmp_path, token=2)
        await successor.open(receipt)
        await late.stage([page({"n": 2}, id=2)])
        receipt = await successor.stage([page({"n": 3}, id=3)])
        await late.stage([page({"n": 4}, id=4)])
        assert len(names(tmp_path)) == 4
        await successor.finish()
        assert (tmp_path / "items.jsonl").read_bytes() == b'{"n":1}\n{"n":3}\n'

    run(scenario)


def test_late_opener_removes_nothing_of_its_successor(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = sink_of(tmp_path, token=1)
        await first.open(None)
        begun = await first.stage([])
        successor = sink_of(tmp_path, token=2)
        await successor.open(begun)
        receipt = await successor.stage([page({"n": 3})])
        await sink_of(tmp_path, token=1).open(begun)
        await successor.open(receipt)
        await successor.finish()
        assert (tmp_path / "items.jsonl").read_bytes() == b'{"n":3}\n'

    run(scenario)


def test_partitions_are_merged_into_one_file_that_is_always_the_same(tmp_path: Path) -> None:
    async def scenario() -> None:
        format, folder = CommaSeparated(["n"]), SegmentFolder(tmp_path / "segments")
        manifests = []
        for partition in (2, 0, 1):
            sink = SegmentSink(
                folder, format, crawl="c", partition=partition, token=5, target=tmp_path / "none"
            )
            await sink.open(None)
            for n in range(3):
                receipt = await sink.stage([page({"n": partition * 10 + n}, id=n)])
            await sink.stage([page({"n": 99}, id=99)])  # not committed
            manifests.append(Manifest(crawl="c", runs=tuple(Run(**r) for r in receipt["runs"])))
        for target, order in (("a.csv", manifests), ("b.csv", manifests[::-1])):
            folder.merge(united("c", order), tmp_path / target, head=format.head(target))
        assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
        rows = (tmp_path / "a.csv").read_text().split()
        assert rows == ["n", "0", "1", "2", "10", "11", "12", "20", "21", "22"]
        folder.remove_crawl("c")
        assert folder.found("c") == []

    run(scenario)


def test_merge_with_a_missing_segment_leaves_no_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        sink = sink_of(tmp_path)
        await sink.open(None)
        await sink.stage([page({"n": 1})])
        await sink.stage([page({"n": 2}, id=2)])
        (tmp_path / "segments" / "c" / names(tmp_path)[0]).unlink()
        with pytest.raises(SinkUnusable, match="is missing; put it back"):
            await sink.finish()
        assert not (tmp_path / "items.jsonl").exists()

    run(scenario)
