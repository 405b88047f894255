"""How items and pages look in files."""

import csv
import io
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from crawlfleet.adapters.sinks import csv as csv_sink
from crawlfleet.adapters.sinks import warc
from crawlfleet.adapters.sinks.csv import CommaSeparated, cell
from crawlfleet.adapters.sinks.jsonl import JsonLines
from crawlfleet.errors import InvalidRequest
from crawlfleet.model.crawl.parameters import SinkSpec
from tests.adapters.sink_pages import page, run


def test_lines_are_the_fields_as_they_are() -> None:
    fields = {"title": "Tee, grün\n2", "price": 9.5, "tags": ["a", {"b": None}], "n": 2**60}
    (data,), items = JsonLines().encode([page(fields), page(), page({"title": "x"}, id=2)])
    assert items == 2
    assert [json.loads(line) for line in data.splitlines()] == [fields, {"title": "x"}]


def test_lines_name_the_kind_where_there_are_several() -> None:
    (data,), _ = JsonLines(kinds=True).encode([page({"a": 1}), page({"b": 2}, kind="pages")])
    assert [json.loads(line) for line in data.splitlines()] == [
        {"kind": "products", "a": 1},
        {"kind": "pages", "b": 2},
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        ("", ""),
        ("plain", "plain"),
        ("=1+1", "'=1+1"),
        ("+49 30 1", "'+49 30 1"),
        ("-2+3+cmd|' /C calc'!A0", "'-2+3+cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("\n=1", "'\n=1"),
        ("＝1+1", "'＝1+1"),
        ("- a list", "'- a list"),
        ("-5", "-5"),
        ("+5.25", "+5.25"),
        ("-1e-3", "-1e-3"),
        ("-٣", "'-٣"),
        ("-5\n", "'-5\n"),
        (-5, "-5"),
        (-0.5, "-0.5"),
        (float("nan"), ""),
        (True, "true"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (["=1"], '["=1"]'),
    ],
)
def test_cells_are_harmless_and_numbers_stay_numbers(value: Any, expected: str) -> None:
    assert cell(value) == expected


def test_rows_are_read_back_by_other_programs() -> None:
    format = CommaSeparated(["title", "price", "=col"])
    texts = ['say "hi", all', "two\r\nlines", "茶", " space ", "a;b", "nul\0"]
    rows, items = format.encode([page(*({"title": text, "price": 1, "x": 2} for text in texts))])
    data = format.head("items.csv") + b"".join(rows)
    assert items == len(texts)
    assert data.startswith(b"title,price,'=col\r\n")
    read = list(csv.reader(io.StringIO(data.decode(), newline="")))
    assert read[1:] == [[text, "1", ""] for text in texts]
    assert b'"say ""hi"", all",1,\r\n' in data


def test_rows_name_the_kind_where_there_are_several() -> None:
    format = CommaSeparated(["a"], kinds=True)
    rows, _ = format.encode([page({"a": 1}), page({"b": 2}, kind="=x")])
    assert format.head("") + b"".join(rows) == b"kind,a\r\nproducts,1\r\n'=x,\r\n"


def test_csv_without_columns_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest) as raised:
        csv_sink.from_spec(SinkSpec(url=str(tmp_path / "items.csv"), format="csv"))
    assert "give selectors" in raised.value.problems[0].remedy


PAGES = [
    page(id=1, status=200, headers=(("content-type", "text/html"),), body=b"<h1>a</h1>"),
    page(
        id=2,
        status=200,
        headers=(
            ("Content-Encoding", "gzip"),
            ("content-length", "99"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=é"),
            ("transfer-encoding", "chunked"),
        ),
        body=b"\r\n\r\nWARC/1.0\r\n\0\xff" * 1000,
        address="2001:db8::1",
    ),
    page(id=3, status=404, headers=(("content-length", "0"),), body=b"", address="proxy"),
    page(id=4, status=299, headers=(("x-odd", "→ not latin"),), body=b"x"),
]


def archive(tmp_path: Path, name: str) -> Path:
    path = tmp_path / name
    spec = SinkSpec(url=str(path), compress="gzip" if name.endswith(".gz") else None)

    async def scenario() -> None:
        sink = warc.from_spec(spec)
        await sink.open(None)
        await sink.stage(PAGES[:1])
        await sink.stage(PAGES[1:])
        assert (await sink.finish())["items"] == len(PAGES)

    run(scenario)
    return path


@pytest.mark.parametrize("name", ["pages.warc", "pages.warc.gz"])
def test_every_page_is_replayed_as_it_was(tmp_path: Path, name: str) -> None:
    found = {}
    asked = {}
    with archive(tmp_path, name).open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            body = record.content_stream().read()
            url = record.rec_headers.get_header("WARC-Target-URI")
            if record.rec_type == "response":
                found[url] = (record, body)
            elif record.rec_type == "request":
                asked[url] = record
    assert list(found) == [each.url for each in PAGES] == list(asked)
    for each in PAGES:
        record, body = found[each.url]
        assert body == each.body
        assert record.http_headers.get_statuscode() == str(each.status)
        assert record.rec_headers.get_header("WARC-Date") == "2001-09-09T01:46:40.000000Z"
        request = asked[each.url]
        assert request.http_headers.protocol == "GET"
        assert request.http_headers.get_header("Host") == "a.example"
        answer_id = record.rec_headers.get_header("WARC-Record-ID")
        assert request.rec_headers.get_header("WARC-Concurrent-To") == answer_id
    headers = {url: record.http_headers.headers for url, (record, _) in found.items()}
    first, second, third, fourth = (headers[each.url] for each in PAGES)
    assert first == [("content-type", "text/html"), ("content-length", "10")]
    assert second == [
        ("x-crawl-content-encoding", "gzip"),
        ("x-crawl-content-length", "99"),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=é"),
        ("x-crawl-transfer-encoding", "chunked"),
        ("content-length", str(len(PAGES[1].body))),
    ]
    assert third == [("content-length", "0")]
    assert fourth[0] == ("x-odd", "→ not latin")
    addresses = [record.rec_headers.get_header("WARC-IP-Address") for record, _ in found.values()]
    assert addresses == [None, "2001:db8::1", None, None]


def test_each_record_of_a_packed_archive_is_a_member_of_its_own(tmp_path: Path) -> None:
    rest = archive(tmp_path, "pages.warc.gz").read_bytes()
    kinds = []
    while rest:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        text = unpacker.decompress(rest)
        assert text.startswith(b"WARC/1.1\r\n")
        assert text.endswith(b"\r\n\r\n")
        kinds.append(text.split(b"\r\n")[1].removeprefix(b"WARC-Type: ").decode())
        rest = unpacker.unused_data
    assert kinds == ["warcinfo", *["response", "request"] * len(PAGES)]
