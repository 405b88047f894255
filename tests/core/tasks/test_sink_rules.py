"""Where sinks of tasks may write and connect."""

import pytest

from crawlfleet.core.tasks.sink_rules import (
    SinkRefusal,
    path_below,
    postgres_address,
    problem_of,
    sqlite_path,
)
from crawlfleet.model.crawl.parameters import PostgresAddress, SinkSpec


@pytest.mark.parametrize(
    ("url", "format"),
    [
        ("items.jsonl", None),
        ("./shop//items.ndjson.gz", None),
        ("/srv/sinks/items.csv.zst", "csv"),
        ("file:///srv/sinks/pages.warc.gz", None),
        ("evil.pth.csv", None),
        ("ITEMS.CSV", None),
        ("items.parquet", "parquet"),
        ("sqlite:///shop.db", None),
        ("sqlite:////srv/sinks/shop.sqlite3?table=x", "table"),
        ("postgresql://me:${secret:PG}@db.example/shop?table=x&sslmode=verify-full", None),
        ("parquet://bucket/x?part=1", None),
        ("fleet:items", None),
        ("fleet:pages", None),
    ],
)
def test_a_task_may_name(url: str, format: str | None) -> None:
    assert problem_of(SinkSpec(url=url, format=format)) is None


@pytest.mark.parametrize(
    ("url", "format", "why"),
    [
        ("../items.jsonl", None, "leads out"),
        ("a/../../items.jsonl", None, "leads out"),
        ("file://../items.jsonl", None, "leads out"),
        ("a/..", None, "leads out"),
        ("", "csv", "names no file"),
        ("/", "csv", "names no file"),
        ("a.csv/", None, "names no file"),
        ("a\0.csv", None, "names no file"),
        ("authorized_keys", "csv", "ending"),
        ("evil.pth", "csv", "ending"),
        ("evil.py", "jsonl", "ending"),
        ("items.csv", "jsonl", "ending"),
        (".csv", "csv", "ending"),
        (".jsonl.gz", None, "ending"),
        ("evil.pth.gz", "csv", "ending"),
        ("evil.sh", "parquet", "ending"),
        ("shop.db", "table", "no database"),
        ("file:///shop.db", "table", "no database"),
        ("parquet://a/../../x.jsonl", "jsonl", "scheme"),
        ("parquet://a/x.db", "table", "scheme"),
        ("FILE:///etc/x.jsonl", None, "no known kind"),
        ("sqlite:///shop.db", "csv", "is a table"),
        ("sqlite:///../shop.db", None, "leads out"),
        ("sqlite:///..%2Fshop.db", None, "leads out"),
        ("sqlite:///a.db?table=x&mode=memory", None, "parameter"),
        ("sqlite:///a.db?x=../../b.db", None, "parameter"),
        ("sqlite:///.bashrc", None, "ending"),
        ("sqlite://shop.db", None, "names no file"),
        ("postgresql://me@db.example/shop", "csv", "is a table"),
    ],
)
def test_a_task_may_not_name(url: str, format: str | None, why: str) -> None:
    refusal = problem_of(SinkSpec(url=url, format=format))
    assert refusal is not None
    assert why in refusal.message


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("items.jsonl", "items.jsonl"),
        ("./a//items.jsonl", "a/items.jsonl"),
        ("/srv/sinks/a/items.jsonl", "a/items.jsonl"),
        ("//srv/./sinks/items.jsonl", "items.jsonl"),
        ("/srv/sinks", None),
        ("/srv/sinks2/items.jsonl", None),
        ("/srv/items.jsonl", None),
        ("/etc/passwd", None),
        ("/srv/sinks/../items.jsonl", None),
    ],
)
def test_paths_lie_below_the_folder_of_the_node(path: str, expected: str | None) -> None:
    found = path_below("/srv/sinks", path)
    assert isinstance(found, SinkRefusal) if expected is None else found == expected


def test_a_sqlite_url_names_its_path() -> None:
    assert sqlite_path("sqlite:///a%20b.db?table=x") == "a b.db"
    assert sqlite_path("sqlite:////srv/a.db") == "/srv/a.db"


def test_a_postgresql_url_names_all_that_is_needed() -> None:
    url = "postgresql://m%65:p%40ss@a.example:1,[::1],10.0.0.7:65535/sh%6Fp?sslmode=require"
    address = postgres_address(url)
    assert address == PostgresAddress(
        hosts=(("a.example", 1), ("::1", 5432), ("10.0.0.7", 65535)),
        user="me",
        password="p@ss",
        database="shop",
        sslmode="require",
    )
    assert "p@ss" not in repr(address)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me@db/shop?host=/var/run/postgresql",
        "postgresql://me@db/shop?hostaddr=127.0.0.1",
        "postgresql://me@db/shop?service=prod",
        "postgresql://me@db/shop?servicefile=/etc/x",
        "postgresql://me@db/shop?passfile=/root/.pgpass",
        "postgresql://me@db/shop?sslkey=/etc/key",
        "postgresql://me@db/shop?sslcert=/etc/cert",
        "postgresql://me@db/shop?sslrootcert=/etc/passwd",
        "postgresql://me@db/shop?sslcrl=/etc/passwd",
        "postgresql://me@db/shop?user=other",
        "postgresql://me@db/shop?dbname=other",
        "postgresql://me@db/shop?port=1",
        "postgresql://me@db/shop?options=-c",
        "postgresql://me@db/shop?krbsrvname=x",
        "postgresql://me@db/shop?search_path=pg_catalog",
        "postgresql://me@db/shop?HOST=/run",
        "postgresql://me@db/shop?sslmode=allow",
        "postgresql:///shop",
        "postgresql://me@/shop",
        "postgresql://me@%2Fvar%2Frun/shop",
        "postgresql://me@/var/run/shop",
        "postgresql://me@db,/shop",
        "postgresql://me@db:0/shop",
        "postgresql://me@db:70000/shop",
        "postgresql://me@db:x/shop",
        "postgresql://me@[::1/shop",
        "postgresql://db/shop",
        "postgresql://me@db/",
        "postgresql://me@db",
        "postgresql://me@-db/shop",
        "postgresql://me@d b/shop",
    ],
)
def test_a_postgresql_url_that_leads_to_files_or_elsewhere_is_refused(url: str) -> None:
    assert isinstance(postgres_address(url), SinkRefusal)
