"""What `crawlfleet crawl -o` takes, and what it refuses before anything is fetched."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crawlfleet.cli.crawl.outputs import outputs_of
from crawlfleet.crawl.output.sinks import name_of
from crawlfleet.errors import InvalidRequest
from crawlfleet.model.crawl.parameters import SinkSpec
from crawlfleet.testing.known_site import ServedSite, SiteSpec
from tests.crawl.crawling import Command, lines
from tests.support.servers import PostgresServer, postgres_server


@pytest.fixture(scope="module")
def site() -> Iterator[ServedSite]:
    with ServedSite(SiteSpec(pages=30, hosts=1, links=6, page_bytes=1500)) as site:
        yield site


@pytest.mark.parametrize(
    ("text", "format", "url"),
    [
        ("items.jsonl", "jsonl", "{folder}/items.jsonl"),
        ("file:///tmp/a.CSV", "csv", "/tmp/a.CSV"),
        ("pages.warc.gz", "warc", "{folder}/pages.warc.gz"),
        ("sqlite:///my%20shop.db?table=x", "table", "sqlite:///{folder}/my%20shop.db?table=x"),
        ("sqlite:////data/shop.db", "table", "sqlite:////data/shop.db"),
        ("postgresql://u:p@h/d?table=x", "table", "postgresql://u:p@h/d?table=x"),
    ],
)
def test_places_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, format: str, url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (output,) = outputs_of([text])

    assert (output.spec.format, output.spec.url) == (format, url.format(folder=tmp_path))
    assert (output.path is None) is (format == "table")


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["items"], "does not tell its format"),
        (["items.xml"], "does not tell its format"),
        (["-"], "is no place"),
        ([""], "is no place"),
        (["."], "is a folder"),
        (["s3://bucket/items.jsonl"], "is of no known kind"),
        (["redis://host/0"], "is of no known kind"),
        (["a.jsonl", "./a.jsonl"], "is named twice"),
    ],
)
def test_other_places_are_refused_with_what_to_write_instead(texts: list[str], said: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        outputs_of(texts)
    (problem,) = raised.value.problems
    assert problem.field == "-o"
    assert said in problem.message
    assert problem.remedy


def test_no_secret_is_in_the_name_of_an_output() -> None:
    spec = SinkSpec(url="postgresql://me:secret@db:5/shop?password=secret&table=x&host=/run")
    assert name_of(spec) == "postgresql://db:5/shop?table=x&host=/run"
    assert name_of(SinkSpec(url="/data/a@b?c.jsonl")) == "/data/a@b?c.jsonl"


def goods(database: Path, table: str = "goods") -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(f"SELECT fields FROM {table}").fetchall()
    return sorted(json.loads(fields)["title"] for (fields,) in rows)


@pytest.mark.slow
def test_files_and_tables_get_the_same_items(site: ServedSite, tmp_path: Path) -> None:
    command = Command(tmp_path, site.spec.url(0), "--fast")
    database, table = tmp_path / "shop.db", tmp_path / "out" / "items.csv"
    places = [str(command.output), str(table), f"sqlite:///{database}?table=goods"]
    command.replace_output([text for place in places for text in ("-o", place)])
    code, said = command.run()
    assert code == 0, said
    titles = sorted(item["title"] for item in lines(command.output))
    assert titles
    assert goods(database) == titles
    assert len(table.read_text().splitlines()) == len(titles) + 1

    # Somebody else's rows stay; ours are replaced.
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "INSERT INTO goods SELECT 'other', page, position, 0, url, at, kind, fields FROM goods"
        )
    code, said = command.run("--fresh")
    assert code == 0, said
    assert goods(database) == sorted(titles * 2)
    assert sorted(path.name for path in command.output.parent.iterdir()) == [
        "items.csv",
        "items.jsonl",
    ]

    # A table that is full of an earlier run's rows is not begun upon unasked.
    command.output.unlink()
    code, said = command.run()
    assert code == 1
    assert "--fresh" in said
    assert goods(database) == sorted(titles * 2)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.mark.slow
def test_a_table_in_postgresql_is_written_and_replaced(
    site: ServedSite, tmp_path: Path, postgres: PostgresServer
) -> None:
    command = Command(tmp_path, site.spec.url(0), "--fast")
    url = postgres.url()
    command.replace_output(["-o", f"{url}{'&' if '?' in url else '?'}table=goods"])
    summary = tmp_path / "summary.json"
    for options in ([], ["--fresh"], ["--revisit"]):
        code, said = command.run("--summary", str(summary), *options)
        assert code == 0, said
        ((count,),) = postgres.execute("SELECT count(*) FROM goods")
        ((crawls,),) = postgres.execute("SELECT count(*) FROM crawlfleet_output")
        told = json.loads(summary.read_text())
        assert int(crawls) == 1
        assert int(count) == told["items"] > 0
    assert not command.output.exists()


def test_a_link_and_what_a_master_keeps_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    (tmp_path / "crawlfleet.db").touch()
    (tmp_path / "output" / "task-1").mkdir(parents=True)
    for name, why in (
        ("link.jsonl", "is a link"),
        ("pauses.jsonl", "keeps for itself"),
        ("output/task-1/items.jsonl", "keeps for itself"),
    ):
        with pytest.raises(InvalidRequest) as raised:
            outputs_of([str(tmp_path / name)])
        assert why in raised.value.problems[0].message
    assert outputs_of([str(tmp_path / "items.jsonl")])[0].path == tmp_path / "items.jsonl"
