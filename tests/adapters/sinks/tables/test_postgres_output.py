"""Output in PostgreSQL: a fence, and servers that go away in the middle."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from crawlfleet.adapters.sinks.tables import postgres as postgres_table
from crawlfleet.adapters.sinks.tables.by_url import from_spec
from crawlfleet.crawl.fetch.dial import AddressRefused
from crawlfleet.crawl.output.sinks import on_node
from crawlfleet.errors import SinkUnusable
from crawlfleet.model.crawl.extraction import Item
from crawlfleet.model.crawl.parameters import SinkSpec
from crawlfleet.ports.sink import PageRecord, Sink
from tests.adapters.schemas import Schemas
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.slow


def sink_of(url: str) -> Sink:
    return from_spec(SinkSpec(url=f"{url}&table=goods"))


def page(id: int, *values: Any) -> PageRecord:
    items = [Item(kind="goods", fields={"n": value}) for value in values]
    return PageRecord(id=id, url=f"https://a.example/{id}", at=1.5, items=items)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(120):
            await scenario()

    asyncio.run(main())


def values(postgres: PostgresServer, schema: str) -> list[Any]:
    sql = f"SELECT fields FROM {schema}.goods ORDER BY page, position"
    return [json.loads(fields)["n"] for (fields,) in postgres.execute(sql)]


def test_process_that_was_succeeded_writes_no_more(
    postgres: PostgresServer, schema: str, url: str
) -> None:
    async def scenario() -> None:
        late, successor = sink_of(url), sink_of(url)
        await late.open(None)
        receipt = await late.stage([page(1, 1)])
        await late.stage([page(2, 2)])
        await successor.open(receipt)
        with pytest.raises(SinkUnusable, match="another process goes on with this crawl"):
            await late.stage([page(3, 3)])
        await successor.stage([page(4, 4), page(5), page(6, 5, 6)])
        await successor.finish()
        await late.close()

    run(scenario)
    assert values(postgres, schema) == [1, 4, 5, 6]


def test_crawls_that_begin_at_once_share_a_table(
    postgres: PostgresServer, schema: str, url: str
) -> None:
    async def crawl(number: int) -> None:
        sink = sink_of(url)
        await sink.open(None)
        await sink.stage([page(number, number)])
        await sink.finish()

    async def scenario() -> None:
        await asyncio.gather(*map(crawl, range(8)))

    run(scenario)
    assert values(postgres, schema) == [*range(8)]


def viewed(postgres: PostgresServer, schema: str) -> list[dict[str, Any]]:
    """The rows of the view; those of PostgreSQL are asked for as JSON, to know their names."""
    sql = f"SELECT row_to_json(v) FROM {schema}.goods_fields v ORDER BY page_url"
    return [json.loads(row) for (row,) in postgres.execute(sql)]


def test_a_view_has_a_column_for_each_field(
    postgres: PostgresServer, schema: str, url: str
) -> None:
    hostile = ['x"; DROP TABLE goods; --', "it's", "a\\'b", "Title", "title", "", "茶" * 40, "$1"]

    async def scenario() -> None:
        sink = from_spec(SinkSpec(url=f"{url}&table=goods", columns=("page_url", "title")))
        await sink.open(None)
        fields = {name: f"value {n}" for n, name in enumerate(hostile)}
        item = Item(kind="goods", fields={"page_url": "x", **fields, "list": [1, "b"]})
        await sink.stage([PageRecord(id=1, url="https://a.example/1", at=1.5, items=[item])])
        receipt = await sink.stage([page(2, 19.99)])
        await sink.close()
        again = sink_of(url)
        await again.open(receipt)
        await again.stage([page(3, None)])
        await again.finish()

    run(scenario)
    first, second, third = viewed(postgres, schema)
    assert [*first][:6] == [
        "page_url", "item_kind", "crawl_id", "visited_at", "title", hostile[0]
    ]  # fmt: skip
    assert first["visited_at"].startswith("1970-01-01T")
    assert first["page_url"] == "https://a.example/1"
    assert [value for value in first.values() if str(value).startswith("value ")] == [
        "value 4", "value 0", "value 1", "value 2", "value 3", "value 5", "value 6", "value 7",
    ]  # fmt: skip
    assert (first["title"], first["Title_2"], first["field"]) == ("value 4", "value 3", "value 5")
    assert (first["list"], first["n"]) == ('[1, "b"]', None)
    assert (second["n"], third["n"]) == ("19.99", None)
    assert [*first] == [*second] == [*third]


def test_a_view_of_somebody_else_is_not_touched(
    postgres: PostgresServer, schema: str, url: str
) -> None:
    postgres.execute(f"CREATE VIEW {schema}.goods_fields AS SELECT 1 AS mine")

    async def scenario() -> None:
        sink = sink_of(url)
        with pytest.raises(SinkUnusable, match=r"rename it, or name another table by \?table="):
            await sink.open(None)
        await sink.close()

    run(scenario)
    assert viewed_columns(postgres, schema) == [("mine",)]


def viewed_columns(postgres: PostgresServer, schema: str) -> list[tuple[str, ...]]:
    return postgres.execute(
        "SELECT column_name FROM information_schema.columns "
        f"WHERE table_schema = '{schema}' AND table_name = 'goods_fields'"
    )


def test_what_postgresql_cannot_hold_is_replaced(
    postgres: PostgresServer, schema: str, url: str
) -> None:
    texts = ["nul \0 nul\0", "\\u0000", "\\\0", "\\\\\0", "fine"]

    async def scenario() -> None:
        sink = sink_of(url)
        await sink.open(None)
        await sink.stage([page(1, *texts, 2**70, float("inf"))])
        await sink.finish()

    run(scenario)
    expected = [text.replace("\0", "�") for text in texts]
    assert values(postgres, schema) == [*expected, 2**70, None]


def test_connection_that_breaks_between_stages_is_made_anew(
    postgres: PostgresServer, schema: str, url: str
) -> None:
    async def scenario() -> None:
        sink = sink_of(url)
        await sink.open(None)
        for number in range(5):
            await sink.stage([page(number, number)])
            await asyncio.to_thread(
                postgres.execute,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'crawlfleet'",
            )
        await sink.finish()

    run(scenario)
    assert values(postgres, schema) == [*range(5)]


@pytest.mark.parametrize("committed", [False, True])
def test_stage_whose_outcome_is_unknown_is_there_once(
    postgres: PostgresServer,
    schema: str,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    committed: bool,
) -> None:
    """The connection is lost just before or just after the commit."""
    in_transaction = postgres_table.PostgresTable._in_transaction
    lost = []

    async def losing(self: Any, work: Any) -> Any:
        async def then_lost(connection: Any) -> Any:
            done = await work(connection)
            if not lost:
                lost.append(True)
                if committed:
                    await connection.execute("COMMIT")
                raise asyncpg.ConnectionDoesNotExistError("lost")
            return done

        return await in_transaction(self, then_lost)

    async def scenario() -> None:
        sink = sink_of(url)
        await sink.open(None)
        await sink.stage([page(1, 1)])
        monkeypatch.setattr(postgres_table.PostgresTable, "_in_transaction", losing)
        receipt = await sink.stage([page(2, 2)])
        assert receipt["sequence"] == 2
        await sink.stage([page(3, 3)])
        await sink.finish()

    run(scenario)
    assert lost
    assert values(postgres, schema) == [1, 2, 3]


def test_server_that_stays_away_is_explained_without_the_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_table, "WAIT_OUT_S", 0.3)

    async def scenario() -> None:
        sink = from_spec(SinkSpec(url="postgresql://me:secret@127.0.0.1:1/db"))
        with pytest.raises(SinkUnusable, match=r"127.0.0.1:1/db cannot be written") as raised:
            await sink.open(None)
        assert "secret" not in str(raised.value)
        await sink.close()

    run(scenario)


def test_the_sink_of_a_task_gets_there_by_what_its_url_says(
    postgres: PostgresServer, schema: str
) -> None:
    postgres.execute("CREATE ROLE tasks LOGIN SUPERUSER PASSWORD 'p@ss word'")
    postgres.execute(f"ALTER ROLE tasks SET search_path = {schema}")
    url = f"postgresql://tasks:${{secret:PG}}@localhost:{postgres.port}/postgres?table=goods"

    async def scenario() -> None:
        node = {"folder": "/srv/sinks", "secrets": {"PG": "p@ss word"}}
        sink = from_spec(on_node(SinkSpec(url=url), allow_private=True, **node))
        await sink.open(None)
        await sink.stage([page(1, 1)])
        await sink.finish()
        refused = from_spec(on_node(SinkSpec(url=url), allow_private=False, **node))
        with pytest.raises(AddressRefused):
            await refused.open(None)

    try:
        run(scenario)
        assert values(postgres, schema) == [1]
    finally:
        postgres.execute("DROP OWNED BY tasks CASCADE")
        postgres.execute("DROP ROLE tasks")


def test_table_of_somebody_else_is_not_touched(
    postgres: PostgresServer, schemas: Schemas, schema: str, url: str
) -> None:
    postgres.execute(f"CREATE TABLE {schema}.goods (name text)")

    async def scenario() -> None:
        sink = sink_of(url)
        with pytest.raises(SinkUnusable, match=r"other columns .*another one by \?table="):
            await sink.open(None)
        await sink.close()

    run(scenario)
    tables = postgres.execute(
        f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}'"
    )
    assert tables == [("goods",)]
