"""The SQLite frontier does what every frontier must, and what one file on one disk needs."""

import asyncio
import os
import random
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.frontier import books, packing
from crawlfleet.adapters.frontier.counts import RunningTotals
from crawlfleet.adapters.frontier.sql import Tables
from crawlfleet.adapters.frontier.sqlite import SqliteFrontier
from crawlfleet.errors import ConfigError, StoreUnavailable
from crawlfleet.model.crawl.frontier import FrontierCounts, FrontierRules
from crawlfleet.ports.frontier.frontier import Frontier
from crawlfleet.testing.frontier_suite import BloomFrontierSuite, FrontierSuite
from crawlfleet.testing.frontier_suite.harness import (
    NOW,
    A,
    B,
    commit,
    lease,
    link,
    links,
    paths,
    retry,
    visit,
)
from tests.adapters import crawler

pytestmark = pytest.mark.slow


class TestSqliteFrontier(FrontierSuite):
    # Each of its commits waits for the disk; the books are the same as those in memory.
    CRAWLS = 500 if os.environ.get("CRAWLFLEET_SOAK") else 30

    def make_frontier(self, folder: Path, rules: FrontierRules) -> Frontier:
        return SqliteFrontier(path=folder / "crawl.db", rules=rules)


class TestSqliteFrontierWithBloom(BloomFrontierSuite):
    def make_frontier(self, folder: Path, rules: FrontierRules) -> Frontier:
        return SqliteFrontier(path=folder / "crawl.db", rules=rules)


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)


def check_tables(path: Path) -> set[int]:
    """Every URL is in exactly one place, and the totals are right; the numbers visited."""
    with closing(connect(path)) as connection:

        def rows(statement: str) -> list:
            return connection.execute(statement).fetchall()

        assert rows("PRAGMA integrity_check") == [("ok",)]
        places = [place for (place,) in rows("SELECT place FROM urls ORDER BY place")]
        assert places == list(range(1, len(places) + 1))
        queued = [key & packing.PLACE for (key,) in rows("SELECT key FROM queue")]
        delayed = [place for (place,) in rows("SELECT place FROM delayed")]
        visited = [place for (place,) in rows("SELECT place FROM visits")]
        assert sorted(queued + delayed + visited) == places
        assert len({id for (id,) in rows("SELECT id FROM urls")}) == len(places)
        ((stored,),) = rows("SELECT tally FROM books")
        tally = msgspec.json.decode(stored, type=RunningTotals)
        assert (tally.known, tally.done) == (len(places), len(visited))
        assert tally.outcomes == ({"ok": len(visited)} if visited else {})
        depths = dict(rows("SELECT depth, count(*) FROM urls GROUP BY depth"))
        assert {depth: count for depth, count in tally.depths.items() if count} == depths
        done = rows("SELECT url FROM urls JOIN visits USING (place)")
    return {crawler.number_of(url) for (url,) in done}


def test_acknowledged_commits_survive_kill_9_whole(tmp_path: Path) -> None:
    path, journal = tmp_path / "crawl.db", tmp_path / "journal"
    chance = random.Random(5)
    commits = 0
    for life in range(25):
        crawler.crawl_until_killed(path, journal, life, chance.uniform(0, 0.15))
        lines = journal.read_text().splitlines()
        acknowledged = [int(number) for line in lines for number in line.split()[1:]]
        assert len(acknowledged) == len(set(acknowledged))

        async def reopen() -> tuple[dict, FrontierCounts]:
            frontier = SqliteFrontier(path=path, rules=crawler.RULES)
            receipts = await frontier.open()
            counts = await frontier.counts()
            await frontier.close()
            return dict(receipts), counts

        receipts, counts = asyncio.run(reopen())
        visited = check_tables(path)
        last = int(lines[-1].split()[0])
        assert receipts["count"] in (last, last + 1)
        assert set(acknowledged) <= visited
        assert counts.done == len(visited)
        assert counts.leased == 0
        if receipts["count"] == last:
            assert set(acknowledged) == visited
        else:
            # It was killed between the commit and its line: write what it could not.
            missing = " ".join(map(str, visited - set(acknowledged)))
            with journal.open("a") as file:
                file.write(f"{last + 1} {missing}\n")
        commits = last
    assert commits > 100


def run(path: Path, scenario: Callable[[SqliteFrontier], Awaitable[None]], **rules: Any) -> None:
    async def main() -> None:
        frontier = SqliteFrontier(path=path, rules=FrontierRules(**rules))
        await frontier.open()
        try:
            await scenario(frontier)
        finally:
            await frontier.close()

    asyncio.run(main())


async def add_many(frontier: SqliteFrontier) -> None:
    await frontier.add(links(range(100)), NOW)


def test_second_process_is_told_that_the_file_is_in_use(tmp_path: Path) -> None:
    path = tmp_path / "crawl.db"

    async def scenario(frontier: SqliteFrontier) -> None:
        with pytest.raises(ConfigError, match="in use by another process"):
            await SqliteFrontier(path=path, rules=FrontierRules()).open()

    run(path, scenario)
    run(path, add_many)


def test_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="not a frontier"):
        run(path, add_many)
    assert path.read_bytes() == before
    (tmp_path / "text").write_text("no database at all, but long enough to be looked at" * 9)
    with pytest.raises(StoreUnavailable, match="not a SQLite"):
        run(tmp_path / "text", add_many)


@pytest.mark.parametrize(("field", "value"), [("max_depth", 2), ("dedup", "bloom")])
def test_crawl_cannot_go_on_by_rules_that_its_rows_do_not_fit(
    tmp_path: Path, field: str, value: Any
) -> None:
    run(tmp_path / "crawl.db", add_many)
    with pytest.raises(ConfigError, match=f"was begun with {field}="):
        run(tmp_path / "crawl.db", add_many, **{field: value})
    run(tmp_path / "crawl.db", add_many, max_pages=3, max_per_host=2)


def test_commit_that_fails_changes_neither_the_file_nor_what_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(tables: Tables, tally: bytes) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async def scenario(frontier: SqliteFrontier) -> None:
        await add_many(frontier)
        one = (await lease(frontier, urls=3))[A]
        before = await frontier.counts()
        found = [link("1"), link("new"), link("x", B)]
        work = partial(commit, frontier, one, visit("0", links=found), retries=[retry("1", NOW)])
        with monkeypatch.context() as broken:
            broken.setattr(Tables, "set_tally", full)
            with pytest.raises(StoreUnavailable, match="disk is full"):
                await work()
        assert await frontier.counts() == before
        assert await frontier.record(link("new").id) is None
        assert not await work()
        counts = await frontier.counts()
        assert (counts.known, counts.done, counts.leased) == (102, 1, 1)

    run(tmp_path / "crawl.db", scenario)
    with closing(connect(tmp_path / "crawl.db")) as connection:
        assert connection.execute("SELECT count(*) FROM urls").fetchone() == (102,)


def test_log_stays_short_and_waits_for_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "crawl.db"
    log = tmp_path / "crawl.db-wal"

    async def scenario(frontier: SqliteFrontier) -> None:
        assert frontier._opened is not None
        execute = frontier._opened._connection.execute
        assert execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert execute("PRAGMA synchronous").fetchone() == (2,)
        longest = 0
        for number in range(60):
            await frontier.add(links(range(number * 1000, (number + 1) * 1000)), NOW)
            longest = max(longest, log.stat().st_size)
        assert longest < 24_000_000

    run(path, scenario)
    assert not log.exists()


def test_heads_are_bounded_for_each_host_and_for_all(tmp_path: Path) -> None:
    async def scenario(frontier: SqliteFrontier) -> None:
        hosts = [f"https://{number}.example" for number in range(1500)]
        await frontier.add([link(str(n), host) for host in hosts for n in range(60)], NOW)
        given = await lease(frontier, hosts=1500, urls=1)
        assert len(given) == 1500
        assert frontier._opened is not None
        known = frontier._opened.books._hosts
        heads = [len(known[host].head or ()) for host in hosts]
        assert max(heads) <= books.PORTION
        assert sum(heads) < 2 * books.MAX_READ
        found = [link(f"new {number}", hosts[0], 9) for number in range(5000)]
        await commit(frontier, given[hosts[0]], visit("0", hosts[0], links=found))
        assert len(known[hosts[0]].head or ()) <= books.PORTION * books.HEAD_PORTIONS
        more = await lease(frontier, hosts=0, held={hosts[0]: 6000})
        assert paths(more[hosts[0]])[:2] == ["new 0", "new 1"]
        assert len(more[hosts[0]].urls) == 5059

    run(tmp_path / "crawl.db", scenario)


def test_filter_is_saved_and_what_is_younger_is_added_from_the_rows(tmp_path: Path) -> None:
    rules = {"dedup": "bloom", "dedup_capacity": 1000}
    known: list[int] = []

    async def fill(frontier: SqliteFrontier) -> None:
        await frontier.add(links("s"), NOW)
        one = (await lease(frontier))[A]
        await commit(frontier, one, visit("s", links=links(range(5000))))
        known.append((await frontier.counts()).known)

    async def again(frontier: SqliteFrontier) -> None:
        assert frontier._opened is not None
        seen = frontier._opened.books._seen
        assert [stage.capacity for stage in seen.stages] == [1000, 2000, 4000]
        assert len(seen) == known[0]
        one = (await lease(frontier, urls=1))[A]
        await commit(frontier, one, visit("0", links=links(range(5000))))
        assert (await frontier.counts()).known == known[0]

    path = tmp_path / "crawl.db"
    run(path, fill, **rules)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT filtered FROM books").fetchone() == (known[0],)
    run(path, again, **rules)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM filter")
        connection.execute("UPDATE books SET filtered = 0")
    run(path, again, **rules)
