"""Files put together anew after a later round."""

import csv
import gzip
from pathlib import Path

import pytest

from crawlfleet.adapters.sinks.page_index import entries, packed
from crawlfleet.adapters.sinks.rebuild import Written, renew, renew_index
from crawlfleet.errors import SinkUnusable


def written(folder: Path, name: str, data: bytes, pages: list[tuple[int, int]]) -> Written:
    items, index = folder / name, folder / f"{name}.idx"
    items.write_bytes(data)
    index.write_bytes(packed(pages))
    return Written(items, index)


def test_items_of_pages_that_came_again_are_left_out(tmp_path: Path) -> None:
    before = written(tmp_path, "a.jsonl", b"1\n2a\n2b\n3\n", [(1, 1), (2, 2), (-7, 0), (3, 1)])
    since = written(tmp_path, "b.jsonl", b"2c\n4\n", [(2, 1), (3, 0), (4, 1)])
    into, index = tmp_path / "c.jsonl", tmp_path / "c.idx"
    renew(before, since, into, format="jsonl", packing=None)

    assert into.read_bytes() == b"1\n2c\n4\n"
    assert renew_index(before.pages, since.pages, index) == 3
    assert list(entries(index)) == [(1, 1), (2, 1), (4, 1)]


def test_a_line_break_in_a_cell_ends_no_row(tmp_path: Path) -> None:
    first = b'title,price\r\n"two\r\nlines ""so""",1\r\nplain,2\r\n"a,\nb",3\r\n'
    before = written(tmp_path, "a.csv.gz", gzip.compress(first), [(1, 1), (2, 1), (3, 1)])
    second = gzip.compress(b"title,price\r\n") + gzip.compress(b'"new\n",4\r\n')
    since = written(tmp_path, "b.csv.gz", second, [(2, 1)])
    into = tmp_path / "c.csv.gz"
    renew(before, since, into, format="csv", packing="gzip")

    rows = list(csv.reader(gzip.decompress(into.read_bytes()).decode().splitlines(keepends=True)))
    assert rows == [
        ["title", "price"],
        ['two\r\nlines "so"', "1"],
        ["a,\nb", "3"],
        ["new\n", "4"],
    ]


def test_nothing_found_at_all_is_a_valid_file(tmp_path: Path) -> None:
    before = written(tmp_path, "a.jsonl.gz", gzip.compress(b"1\n"), [(1, 1)])
    since = written(tmp_path, "b.jsonl.gz", gzip.compress(b""), [(1, 0)])
    into = tmp_path / "c.jsonl.gz"
    renew(before, since, into, format="jsonl", packing="gzip")

    assert gzip.decompress(into.read_bytes()) == b""


@pytest.mark.parametrize("data", [b"1\n", b"1\n2\n3\n"])
def test_a_file_that_does_not_fit_its_index_is_refused(tmp_path: Path, data: bytes) -> None:
    before = written(tmp_path, "a.jsonl", data, [(1, 1), (2, 1)])
    since = written(tmp_path, "b.jsonl", b"", [])

    with pytest.raises(SinkUnusable, match="other items than the crawl wrote"):
        renew(before, since, tmp_path / "c", format="jsonl", packing=None)
