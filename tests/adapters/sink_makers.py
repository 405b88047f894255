"""The sinks under test, each made from nothing but its folder, in any process."""

from pathlib import Path

from crawlfleet.adapters.sinks import csv, jsonl, warc
from crawlfleet.adapters.sinks.tables import by_url, postgres, sqlite
from crawlfleet.crawl.output.sinks import completed
from crawlfleet.model.crawl.parameters import SinkSpec
from crawlfleet.ports.sink import Sink
from crawlfleet.testing.sink_suite.harness import COLUMNS

IMPORTED = (postgres, sqlite)
"""Children have them from the start, see `conftest`."""
SMALL_MB = 0.002
"""A part of a rotated file."""


def spec(folder: Path, name: str, **options: object) -> SinkSpec:
    return completed(SinkSpec(url=str(folder / name), columns=COLUMNS, **options))


def plain_lines(folder: Path) -> Sink:
    return jsonl.from_spec(spec(folder, "items.jsonl"))


def gzip_lines(folder: Path) -> Sink:
    return jsonl.from_spec(spec(folder, "items.jsonl.gz"))


def zstd_lines(folder: Path) -> Sink:
    return jsonl.from_spec(spec(folder, "items.jsonl.zst"))


def rotated_lines(folder: Path) -> Sink:
    return jsonl.from_spec(spec(folder, "my.items.jsonl", rotate_mb=SMALL_MB))


def rotated_gzip_rows(folder: Path) -> Sink:
    return csv.from_spec(spec(folder, "items.csv.gz", rotate_mb=SMALL_MB))


def plain_rows(folder: Path) -> Sink:
    return csv.from_spec(spec(folder, "items.csv"))


def plain_archive(folder: Path) -> Sink:
    return warc.from_spec(spec(folder, "pages.warc"))


def gzip_archive(folder: Path) -> Sink:
    return warc.from_spec(spec(folder, "pages.warc.gz"))


def rotated_archive(folder: Path) -> Sink:
    return warc.from_spec(spec(folder, "pages.warc.gz", rotate_mb=SMALL_MB))


def sqlite_rows(folder: Path) -> Sink:
    return by_url.from_spec(SinkSpec(url=f"sqlite:///{folder}/shop.db?table=the+%22items%22"))


def postgres_rows(folder: Path) -> Sink:
    return by_url.from_spec(SinkSpec(url=(folder / "url").read_text()))
