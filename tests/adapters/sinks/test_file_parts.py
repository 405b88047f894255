"""Local files: cut to a receipt, never another's, in parts, and on a disk that is full."""

import errno
import gzip
import os
import resource
import signal
from pathlib import Path

import pytest

from crawlfleet import zstd
from crawlfleet.adapters.sinks.rotating_file import FileReceipt, RotatingFile
from crawlfleet.errors import SinkUnusable


def opened(path: Path, receipt: FileReceipt | None = None, **options: object) -> RotatingFile:
    parts = RotatingFile(path, **options)
    parts.open(receipt)
    return parts


def test_file_that_is_there_already_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text("mine")
    with pytest.raises(SinkUnusable, match=r"items.jsonl exists already; name another"):
        opened(path)
    assert path.read_text() == "mine"


def test_empty_file_that_is_there_already_is_used(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.touch()
    opened(path).append([b"a\n"], 1)
    assert path.read_bytes() == b"a\n"


@pytest.mark.parametrize(
    "content",
    [b"", b"one\ntw", b"one\ntwO\nthree\n", b"other content, which is longer\n"],
    ids=["empty", "shorter", "one byte else", "another"],
)
def test_file_other_than_the_committed_one_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "items.jsonl"
    parts = opened(path)
    receipt = parts.append([b"one\ntwo\n"], 2)
    parts.close()
    path.write_bytes(content)
    with pytest.raises(SinkUnusable, match="somebody changed it since"):
        opened(path, receipt)
    assert path.read_bytes() == content


def test_missing_file_is_refused_and_not_made(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    parts = opened(path)
    receipt = parts.append([b"one\n"], 1)
    parts.close()
    path.unlink()
    with pytest.raises(SinkUnusable, match="has 0 bytes and should have 4"):
        opened(path, receipt)
    assert not path.exists()


def test_another_file_in_place_of_an_empty_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    parts = opened(path)
    receipt = parts.append([], 0)
    parts.close()
    other = tmp_path / "other"
    other.write_text("precious")
    other.replace(path)
    with pytest.raises(SinkUnusable, match="another file than the one that was begun"):
        opened(path, receipt)
    assert path.read_text() == "precious"


def test_receipt_for_another_name_is_refused(tmp_path: Path) -> None:
    receipt = opened(tmp_path / "a.jsonl").append([b"one\n"], 1)
    with pytest.raises(SinkUnusable, match=r"is in a.jsonl, not in .*b.jsonl"):
        opened(tmp_path / "b.jsonl", receipt)
    assert not (tmp_path / "b.jsonl").exists()


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SinkUnusable, match=r"folder of .*none/items.jsonl does not exist; create"):
        opened(tmp_path / "none" / "items.jsonl")


def test_folder_or_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").mkdir()
    with pytest.raises(SinkUnusable, match="is not a file"):
        opened(tmp_path / "items.jsonl")


@pytest.mark.parametrize(("packing", "ending"), [("gzip", ".gz"), ("zstd", ".zst")])
def test_packed_file_cut_at_any_receipt_is_a_valid_file(
    tmp_path: Path, packing: str, ending: str
) -> None:
    path = tmp_path / f"items.jsonl{ending}"
    parts = opened(path, packing=packing)
    receipts = [parts.append([f"line {n}\n".encode() * 50], 50) for n in range(10)]
    whole = path.read_bytes()
    for n, receipt in enumerate(receipts):
        cut = whole[: receipt.length]
        text = gzip.decompress(cut) if packing == "gzip" else zstd.decompress(cut)
        assert text == b"".join(f"line {m}\n".encode() * 50 for m in range(n + 1))


def test_parts_are_named_in_order_and_begin_with_the_head(tmp_path: Path) -> None:
    parts = opened(
        tmp_path / "my.items.csv.gz",
        packing="gzip",
        rotate_bytes=60,
        head=lambda name: f"head of {name}\n".encode(),
    )
    for _ in range(6):
        receipt = parts.append([os.urandom(16).hex().encode() + b"\n"], 1)
    parts.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"my.items-{n:05}.csv.gz" for n in range(1, len(names) + 1)]
    assert len(names) == len(receipt.closed) + 1 > 2
    for path in tmp_path.iterdir():
        assert gzip.decompress(path.read_bytes()).startswith(f"head of {path.name}\n".encode())


def test_cut_into_an_earlier_part_leaves_no_later_one(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    parts = opened(path, rotate_bytes=10)
    receipts = [parts.append([f"line {n}\n".encode()], 1) for n in range(10)]
    parts.close()
    (tmp_path / "items-notes.jsonl").write_text("mine")
    opened(path, receipts[2], rotate_bytes=10).close()
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {
        "items-00001.jsonl": "line 0\nline 1\n",
        "items-00002.jsonl": "line 2\n",
        "items-notes.jsonl": "mine",
    }


@pytest.mark.parametrize("content", ["", "line 0\nline 1\nmore\n"])
def test_changed_closed_part_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "items.jsonl"
    parts = opened(path, rotate_bytes=10)
    receipts = [parts.append([f"line {n}\n".encode()], 1) for n in range(5)]
    parts.close()
    (tmp_path / "items-00001.jsonl").write_text(content)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(SinkUnusable, match=r"items-00001.jsonl has \d+ bytes and should have 14"):
        opened(path, receipts[2], rotate_bytes=10)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_part_of_an_earlier_crawl_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "items-00003.jsonl").write_text("old")
    with pytest.raises(SinkUnusable, match=r"items-00003.jsonl exists already"):
        opened(tmp_path / "items.jsonl", rotate_bytes=10)


@pytest.mark.parametrize("rotate_bytes", [None, 10])
def test_full_disk_takes_the_stage_back_and_the_crawl_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rotate_bytes: int | None
) -> None:
    path = tmp_path / "items.jsonl"
    parts = opened(path, rotate_bytes=rotate_bytes)
    parts.append([b"line 0\n"], 1)
    receipt = parts.append([b"line 1\n"], 1)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    write = os.pwrite

    def filling(file: int, data: bytes, at: int) -> int:
        if len(data) <= 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[:4], at)

    monkeypatch.setattr(os, "pwrite", filling)
    with pytest.raises(SinkUnusable, match=r"disk of .*items.* is full; free some space and run"):
        parts.append([b"line 2\n"], 1)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before
    with pytest.raises(SinkUnusable, match="open it first"):
        parts.append([b"line 2\n"], 1)
    monkeypatch.undo()
    parts.open(receipt)
    parts.append([b"line 2\n"], 1)
    text = b"".join(each.read_bytes() for each in sorted(tmp_path.iterdir()))
    assert text == b"line 0\nline 1\nline 2\n"


def test_file_that_the_system_lets_grow_no_more_is_cut_back(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    parts = opened(path)
    receipt = parts.append([b"a" * 5000], 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, hard))
        with pytest.raises(SinkUnusable, match="cannot be written: File too large"):
            parts.append([b"b" * 5000], 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.read_bytes() == b"a" * 5000
    parts.open(receipt)
    parts.append([b"b"], 1)
    assert path.stat().st_size == 5001
