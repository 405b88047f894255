"""Files of sinks are opened in their folder, by no link, and never over what crawlfleet keeps."""

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from crawlfleet.adapters.frontier.redis.checkpoint import SCHEMA as CHECKPOINT
from crawlfleet.adapters.frontier.sqlite import SqliteFrontier
from crawlfleet.adapters.locks.sqlite import from_url as locks_of
from crawlfleet.adapters.sinks import csv, jsonl, warc
from crawlfleet.adapters.sinks.folder import SinkFolder
from crawlfleet.adapters.sinks.rotating_file import RotatingFile
from crawlfleet.adapters.sinks.tables import by_url as table
from crawlfleet.adapters.store.sqlite.store import from_url as store_of
from crawlfleet.core.crawls.shared_crawl import rules_of
from crawlfleet.errors import SinkUnusable
from crawlfleet.model.crawl.parameters import CrawlParameters, NodeSink, SinkSpec
from crawlfleet.ports.sink import Sink
from tests.adapters.sink_pages import page

FILES = {"jsonl": jsonl.from_spec, "csv": csv.from_spec, "warc": warc.from_spec}


def sink_of(format: str, path: Path, below: Path | None = None, **fields: object) -> Sink:
    is_table = format == "table"
    named = {"url": f"sqlite:///{path}" if is_table else str(path), "columns": ("n",), **fields}
    spec = SinkSpec(**named) if below is None else NodeSink(**named, folder=str(below))
    make = table.from_spec if is_table else FILES[format]
    return make(spec)


async def filled(sink: Sink) -> None:
    try:
        await sink.open(None)
        await sink.stage([page({"n": 1})])
        await sink.finish()
    finally:
        await sink.close()


@pytest.mark.parametrize("below", [True, False])
@pytest.mark.parametrize("format", [*FILES, "table"])
def test_no_sink_follows_a_file_that_is_a_link(tmp_path: Path, format: str, below: bool) -> None:
    folder = tmp_path / "sinks"
    folder.mkdir()
    for name, target in (("dangling", tmp_path / "made"), ("there", tmp_path / "empty")):
        link = folder / f"{name}.{format}"
        link.symlink_to(target)
        (tmp_path / "empty").touch()
        with pytest.raises(SinkUnusable, match="is a link"):
            asyncio.run(filled(sink_of(format, link, folder if below else None)))
    assert not (tmp_path / "made").exists()
    assert (tmp_path / "empty").read_bytes() == b""


@pytest.mark.parametrize("format", [*FILES, "table"])
def test_no_sink_of_a_task_goes_through_a_folder_that_is_a_link(
    tmp_path: Path, format: str
) -> None:
    folder, elsewhere = tmp_path / "sinks", tmp_path / "elsewhere" / "deep"
    (folder / "a").mkdir(parents=True)
    elsewhere.mkdir(parents=True)
    (folder / "a" / "link").symlink_to(elsewhere.parent)
    for path in (folder / "a" / "link" / "x.f", folder / "a" / "link" / "deep" / "x.f"):
        with pytest.raises(SinkUnusable, match=r"a/link is a link"):
            asyncio.run(filled(sink_of(format, path, folder)))
    with pytest.raises(SinkUnusable, match="leads out"):
        asyncio.run(filled(sink_of(format, folder / ".." / "elsewhere" / "x.f", folder)))
    assert [*elsewhere.rglob("*")] == []
    asyncio.run(
        filled(sink_of(format, elsewhere / "x.f"))
    )  # what a person names on one's own machine
    assert (elsewhere / "x.f").stat().st_size


@pytest.mark.parametrize("format", [*FILES, "table"])
def test_the_folder_of_a_node_is_not_made_up(tmp_path: Path, format: str) -> None:
    away = tmp_path / "disk" / "sinks"
    with pytest.raises(SinkUnusable, match="sinks of tasks, is not there; make it"):
        asyncio.run(filled(sink_of(format, away / "x.f", away)))
    assert [*tmp_path.iterdir()] == []


def test_a_folder_may_be_put_elsewhere_while_it_is_open(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with SinkFolder(tmp_path / "a") as folder:
        (tmp_path / "a").rename(tmp_path / "c")
        (tmp_path / "a").symlink_to(tmp_path / "b")
        os.close(folder.open("x", os.O_RDWR | os.O_CREAT))
    assert (tmp_path / "c" / "x").exists()


def test_the_next_part_of_a_rotation_follows_no_link(tmp_path: Path) -> None:
    parts = RotatingFile(tmp_path / "items.csv.gz", packing="gzip", rotate_bytes=10)
    parts.open(None)
    receipt = parts.append([b"x" * 100], 1)
    (tmp_path / "items-00002.csv.gz").symlink_to(tmp_path / "made")
    with pytest.raises(SinkUnusable, match="is a link"):
        parts.append([b"y" * 100], 1)
    assert not (tmp_path / "made").exists()
    assert (tmp_path / "items-00001.csv.gz").stat().st_size == receipt.length
    (tmp_path / "items-00002.csv.gz").unlink()
    parts.open(receipt)
    assert parts.append([b"y" * 100], 1).file == "items-00002.csv.gz"
    parts.close()


def tables_in(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


def made_store(path: Path) -> None:
    async def scenario() -> None:
        store = store_of(f"sqlite:///{path}")
        await store.open()
        await store.close()

    asyncio.run(scenario())


def made_frontier(path: Path) -> None:
    async def scenario() -> None:
        frontier = SqliteFrontier(path=path, rules=rules_of(CrawlParameters()))
        await frontier.open()
        await frontier.close()

    asyncio.run(scenario())


def made_locks(path: Path) -> None:
    async def scenario() -> None:
        locks = locks_of(f"sqlite:///{path}")
        await locks.open()
        await locks.close()

    asyncio.run(scenario())


def made_checkpoint(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(CHECKPOINT)


@pytest.mark.parametrize("make", [made_store, made_frontier, made_locks, made_checkpoint])
@pytest.mark.parametrize("below", [True, False])
def test_no_table_is_made_in_a_file_that_crawlfleet_keeps(
    tmp_path: Path, make: object, below: bool
) -> None:
    path = tmp_path / "own.db"
    make(path)  # type: ignore[operator]
    before = tables_in(path)
    with pytest.raises(SinkUnusable, match="keeps for itself"):
        asyncio.run(filled(sink_of("table", path, tmp_path if below else None)))
    with pytest.raises(SinkUnusable, match="keeps for itself"):
        asyncio.run(table.from_spec(SinkSpec(url=f"sqlite:///{path}")).discard("x"))
    assert tables_in(path) == before
