"""The PostgreSQL store does what every store must, and what several masters on one need."""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import msgspec
import pytest
from msgspec.structs import replace

from crawlfleet import plugins
from crawlfleet.adapters.store.postgres import statements
from crawlfleet.adapters.store.postgres.connections import WRITING
from crawlfleet.adapters.store.postgres.statements import STATEMENTS, Statement
from crawlfleet.adapters.store.postgres.store import PostgresStore
from crawlfleet.adapters.store.postgres.writer import Writer
from crawlfleet.adapters.store.sql.schema import tasks
from crawlfleet.adapters.store.sql.statements import FILTERS
from crawlfleet.errors import ConfigError, InvalidRequest, StoreUnavailable
from crawlfleet.model.node import Session
from crawlfleet.model.project import Project
from crawlfleet.model.task import Execution, Task, TaskStatus
from crawlfleet.ports.kernel_tables import CLUSTERS
from crawlfleet.ports.store import Change, RefusalKind, Store, TaskFilter
from crawlfleet.testing.store_suite import SharedStoreSuite
from crawlfleet.testing.store_suite.harness import commit_one, is_refused, must
from crawlfleet.testing.store_suite.samples import (
    make_claim,
    make_event,
    make_session,
    make_task,
)
from tests.adapters.schemas import Schemas
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.slow


class TestPostgresStore(SharedStoreSuite):
    @pytest.fixture(autouse=True)
    def _on_server(self, schemas: Schemas) -> None:
        self._schemas = schemas

    def make_store(self, folder: Path) -> Store:
        return PostgresStore(url=self._schemas.url(folder))


def run(url: str, scenario: Callable[..., Awaitable[None]], masters: int = 1) -> None:
    """Run a scenario on so many stores over the same rows."""

    async def main() -> None:
        stores = [PostgresStore(url=url) for _ in range(masters)]
        await asyncio.gather(*(store.open() for store in stores))
        try:
            async with asyncio.timeout(60):
                await scenario(*stores)
        finally:
            await asyncio.gather(*(store.close() for store in stores))

    asyncio.run(main())


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_store_is_found_by_the_scheme_of_its_url(url: str, scheme: str) -> None:
    async def scenario() -> None:
        store = plugins.load_one(plugins.STORES, scheme)(url.replace("postgresql:", f"{scheme}:"))
        await store.open()
        await must(store, Change(tasks=(make_task(),)))
        await store.close()

    asyncio.run(scenario())


def test_commits_that_wait_together_share_one_transaction(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    transact = Writer._transact

    async def counting(self: Writer, connection: object, jobs: list) -> list:
        groups.append(len(jobs))
        return await transact(self, connection, jobs)

    monkeypatch.setattr(Writer, "_transact", counting)

    async def scenario(store: PostgresStore) -> None:
        groups.clear()
        changes = [Change(tasks=(make_task(n),)) for n in range(300)]
        await asyncio.gather(*(store.commit([change]) for change in changes))
        assert await store.count_tasks() == {TaskStatus.PENDING: 300}

    run(url, scenario)
    assert sum(groups) == 300
    assert len(groups) < 10


def test_operations_and_commits_in_one_group_are_all_answered(url: str) -> None:
    async def scenario(store: PostgresStore) -> None:
        answers = await asyncio.gather(
            store.commit([Change(tasks=(make_task(1),))]),
            store.move_cursor("c", 3),
            store.lead("me"),
            store.commit([Change(tasks=(make_task(2),), events=(make_event(),))]),
            store.remove_finished(before=0.0, limit=5),
        )
        assert answers[0].refusals == answers[3].refusals == (None,)
        assert answers[2] is not None
        assert answers[2].epoch == 1
        assert await store.cursor("c") == 3

    run(url, scenario)


@pytest.mark.parametrize(
    "unfit",
    [
        Change(tasks=(make_task(2, dead_reason="a\0b"),)),
        Change(tasks=(make_task(id="a\0b"),)),
        Change(tasks=(make_task(2, dead_reason="\ud800"),)),
        Change(tasks=(make_task(2, token=2**70),)),
        Change(tasks=(make_task(2, parameters=msgspec.Raw(b'"\xff"')),)),
        Change(tasks=(make_task(2, task_type=object()),)),
        Change(tasks=(make_task(2, project_id=None),)),
        Change(claims=(make_claim(key=secrets.token_hex(5000)),)),
        Change(events=(make_event("a\0b"),)),
    ],
    ids=[
        *("NUL", "NUL in an id", "surrogate", "large integer", "not UTF-8", "object", "none"),
        *("long key", "NUL in an event"),
    ],
)
def test_value_that_cannot_be_stored_fails_alone(url: str, unfit: Change) -> None:
    async def scenario(store: PostgresStore) -> None:
        fine = [Change(tasks=(make_task(n),), events=(make_event(),)) for n in (1, 3, 4, 5)]
        before, bad, *after = await asyncio.gather(
            store.commit([fine[0]]),
            store.commit([replace(unfit, events=(*unfit.events, make_event()))]),
            *(store.commit([change]) for change in fine[1:]),
            return_exceptions=True,
        )
        assert isinstance(bad, InvalidRequest)
        assert "cannot be stored" in str(bad)
        assert all(answer.refusals == (None,) for answer in (before, *after))
        found = await store.tasks([f"task-{n:04}" for n in range(1, 6)])
        assert [task.id for task in found] == [change.tasks[0].id for change in fine]
        assert [event.seq for event in await store.events(after=0, limit=9)] == [1, 2, 3, 4]

    run(url, scenario)


def test_escaped_nul_in_raw_json_and_in_maps_is_fine(url: str) -> None:
    task = make_task(
        parameters=msgspec.Raw(b'{"a": "\\u0000"}'), capabilities={"x\0": "y\0"}, categories=("\0",)
    )

    async def scenario(store: PostgresStore) -> None:
        await must(store, Change(tasks=(task,), events=(make_event(details={"k": "\0"}),)))
        assert await store.tasks([task.id]) == [task]

    run(url, scenario)


@pytest.mark.parametrize("text", ["a\0b", "\ud800"], ids=["NUL", "surrogate"])
def test_asking_for_what_cannot_be_stored_finds_nothing(url: str, text: str) -> None:
    async def scenario(store: PostgresStore) -> None:
        await must(store, Change(tasks=(make_task(),)))
        assert [task.id for task in await store.tasks([text, "task-0001", text])] == ["task-0001"]
        assert await store.node(text) is None
        assert await store.executions(text) == []
        assert await store.events(after=0, limit=9, subject=text) == []
        assert await store.find_tasks(TaskFilter(project_id=text), after=None, limit=9) == []
        assert await store.count_tasks(text) == {}
        assert await store.cursor(text) == 0

    run(url, scenario)


def test_of_two_masters_that_change_the_same_row_exactly_one_succeeds(url: str) -> None:
    rounds = 40

    async def scenario(*masters: PostgresStore) -> None:
        wins = [0, 0]
        await must(masters[0], Change(tasks=(make_task(version=1),)))
        for version in range(2, rounds + 2):
            refusals = await asyncio.gather(
                *(
                    commit_one(
                        master,
                        Change(
                            tasks=(make_task(version=version, assigned_node=f"by-{number}"),),
                            events=(make_event(cause=f"by-{number}"),),
                        ),
                    )
                    for number, master in enumerate(masters)
                )
            )
            (winner,) = [number for number, refusal in enumerate(refusals) if refusal is None]
            assert is_refused(refusals[1 - winner], RefusalKind.VERSION, "task-0001")
            (task,) = await masters[1 - winner].tasks(["task-0001"])
            assert (task.version, task.assigned_node) == (version, f"by-{winner}")
            wins[winner] += 1
        assert len(await masters[0].events(after=0, limit=1000)) == rounds
        assert sum(wins) == rounds

    run(url, scenario, masters=2)


def test_claim_is_given_to_one_of_several_masters(url: str) -> None:
    async def scenario(*masters: PostgresStore) -> None:
        for number in range(20):
            refusals = await asyncio.gather(
                *(
                    commit_one(master, Change(claims=(make_claim(f"by-{n}", key=str(number)),)))
                    for n, master in enumerate(masters)
                )
            )
            assert refusals.count(None) == 1
            held = {refusal.claim.holder for refusal in refusals if refusal is not None}
            assert held == {f"by-{refusals.index(None)}"}

    run(url, scenario, masters=3)


def test_masters_that_count_in_one_row_lose_no_update(url: str) -> None:
    async def scenario(*masters: PostgresStore) -> None:
        await must(masters[0], Change(tasks=(make_task(priority=0),)))

        async def increment(master: PostgresStore) -> None:
            while True:
                (task,) = await master.tasks(["task-0001"])
                more = replace(task, version=task.version + 1, priority=task.priority + 1)
                if await commit_one(master, Change(tasks=(more,))) is None:
                    return

        async with asyncio.TaskGroup() as group:
            for number in range(40):
                group.create_task(increment(masters[number % 2]))
        assert await masters[1].tasks(["task-0001"]) == [make_task(priority=40, version=41)]

    run(url, scenario, masters=2)


def test_reader_behind_a_cursor_misses_no_event_of_two_writers(url: str) -> None:
    each = 300

    async def scenario(*stores: PostgresStore) -> None:
        *writers, follower = stores
        answers: list[int] = []

        async def write(number: int, writer: PostgresStore) -> None:
            for count in range(0, each, 4):
                committed = await asyncio.gather(
                    *(
                        writer.commit([Change(events=(make_event(f"{number}-{count + n}"),))])
                        for n in range(4)
                    )
                )
                answers.extend(answer.last_seq for answer in committed)

        async def follow() -> list[str]:
            seen, position = [], 0
            while len(seen) < each * len(writers):
                events = await follower.events(after=position, limit=7)
                assert [event.seq for event in events] == list(
                    range(position + 1, position + 1 + len(events))
                ), "a number became visible before one below it"
                seen += [event.subject for event in events]
                position = events[-1].seq if events else position
            return seen

        following = asyncio.create_task(follow())
        await asyncio.gather(*(write(number, writer) for number, writer in enumerate(writers)))
        seen = await following
        wanted = {f"{number}-{count}" for number in range(len(writers)) for count in range(each)}
        assert len(seen) == len(wanted)
        assert set(seen) == wanted
        assert sorted(answers) == [*range(1, each * len(writers) + 1)]

    run(url, scenario, masters=3)


def test_session_that_another_master_ended_refuses_work(url: str) -> None:
    async def scenario(one: PostgresStore, other: PostgresStore) -> None:
        await must(one, Change(sessions=(make_session(),)))
        await must(one, Change(tasks=(make_task(1),), under="sess-0001"))
        await must(other, Change(sessions=(make_session(version=2, ended_at=1.0),)))
        refusal = await commit_one(one, Change(tasks=(make_task(2),), under="sess-0001"))
        assert is_refused(refusal, RefusalKind.SESSION, "sess-0001")

    run(url, scenario, masters=2)


def test_event_numbers_go_on_when_another_master_empties_the_log(url: str) -> None:
    async def scenario(one: PostgresStore, other: PostgresStore) -> None:
        await must(one, Change(events=(make_event(), make_event())))
        assert await other.remove_events(before=1e12, limit=10) == 2
        assert (await one.commit([Change(events=(make_event(),))])).last_seq == 3

    run(url, scenario, masters=2)


def test_masters_that_start_at_once_on_an_empty_database_make_one_store(url: str) -> None:
    async def scenario(*masters: PostgresStore) -> None:
        for master in masters:
            assert len(await master.find(CLUSTERS.where())) == 1
        leads = await asyncio.gather(*(master.lead("x") for master in masters))
        assert [lead.epoch for lead in leads if lead is not None] == [1]

    run(url, scenario, masters=6)


def test_stores_in_two_schemas_do_not_meet(schemas: Schemas, tmp_path: Path) -> None:
    async def scenario() -> None:
        stores = [PostgresStore(url=schemas.url(tmp_path / name)) for name in ("a", "b")]
        for store in stores:
            await store.open()
            await must(store, Change(tasks=(make_task(),), events=(make_event(),)))
        for store in stores:
            assert [event.seq for event in await store.events(after=0, limit=9)] == [1]
            await store.close()

    asyncio.run(scenario())


def test_order_is_that_of_bytes_in_a_database_of_any_language(postgres: PostgresServer) -> None:
    postgres.execute(
        "CREATE DATABASE spoken TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
    )
    ids = ["Zebra", "a-b", "ab", "a_b", "aB", "é", "爬", "A"]

    async def scenario(store: PostgresStore) -> None:
        await must(store, Change(tasks=tuple(make_task(id=id) for id in ids)))
        found = await store.find_tasks(TaskFilter(), after=None, limit=9, newest_first=False)
        assert [task.id for task in found] == sorted(ids)
        found = await store.find_tasks(TaskFilter(), after="a_b", limit=9, newest_first=False)
        assert [task.id for task in found] == [id for id in sorted(ids) if id > "a_b"]

    run(postgres.url("spoken"), scenario)


def test_database_that_cannot_hold_every_text_is_refused(postgres: PostgresServer) -> None:
    postgres.execute("CREATE DATABASE narrow TEMPLATE template0 ENCODING LATIN1 LOCALE 'C'")
    with pytest.raises(ConfigError, match=r"encoding LATIN1.*createdb --encoding=UTF8"):
        run(postgres.url("narrow"), lambda store: store.find(CLUSTERS.where()))


def test_tables_of_another_program_are_left_alone(
    postgres: PostgresServer, url: str, schema: str
) -> None:
    postgres.execute(f"CREATE TABLE {schema}.alembic_version (version_num text)")
    postgres.execute(f"INSERT INTO {schema}.alembic_version VALUES ('somebody elses')")
    run(url, lambda store: store.find(CLUSTERS.where()))
    assert postgres.execute(f"SELECT * FROM {schema}.alembic_version") == [("somebody elses",)]


def test_table_of_another_program_with_our_name_is_explained(
    postgres: PostgresServer, url: str, schema: str
) -> None:
    postgres.execute(f"CREATE TABLE {schema}.projects (title text)")
    with pytest.raises(StoreUnavailable, match=r"another program with the same names.*search_path"):
        run(url, lambda store: store.find(CLUSTERS.where()))
    assert postgres.execute(
        f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}'"
    ) == [("projects",)]


ARGUMENTS = {
    "ids": ["a"],
    "states": ["a"],
    "before": 1.0,
    "never": 1.0,
    "limit": 10,
    "after": 0,
    "seq": 1,
    "last_seq": 1,
    "first": 1,
    "last": 2,
    "levels": ["a"],
    "since": 0.0,
    "until": 1.0,
    "below": 1,
}


def every_statement() -> dict[str, tuple[str, list]]:
    shared = {
        name: value for name, value in vars(STATEMENTS).items() if isinstance(value, Statement)
    }
    shared["by_ids"] = STATEMENTS.by_ids(tasks)
    shared["events"] = STATEMENTS.find_events(False)
    shared["events_of"] = STATEMENTS.find_events(True)
    shared["logs"] = STATEMENTS.find_logs(False)
    shared["logs_of_levels"] = STATEMENTS.find_logs(True)
    for given in ((), *((name,) for name in FILTERS[:5])):
        shared["tasks_" + "".join(given)] = STATEMENTS.find_tasks(given, None, False, True, True)
    shared["tasks_dead"] = STATEMENTS.find_tasks((), True, False, True, True)
    found = {
        name: (each.text, [ARGUMENTS.get(wanted, "x") for wanted in each.names])
        for name, each in shared.items()
    }
    found["load"] = statements.load((Project, Session, Task, Execution), True), [["a"]] * 5
    found["claims"] = statements.CLAIMS_NAMED, [["a"], ["b"]]
    return found


def test_no_statement_walks_through_a_table(url: str) -> None:
    async def scenario(store: PostgresStore) -> None:
        changes = [
            Change(tasks=(make_task(n),), claims=(make_claim(key=str(n)),)) for n in range(500)
        ]
        await store.commit(changes)
        connection = await asyncpg.connect(url, server_settings=WRITING)
        few = re.compile("crawler_leadership|crawler_cursors")
        for name, (text, arguments) in every_statement().items():
            plan = [row[0] for row in await connection.fetch(f"EXPLAIN {text}", *arguments)]
            walks = [line for line in plan if "Seq Scan" in line and not few.search(line)]
            assert not walks, (name, plan)
            if name.startswith("tasks_"):
                assert not any("Sort" in line for line in plan), (name, plan)
        await connection.close()

    run(url, scenario)


def test_plans_stay_good_while_an_empty_table_fills(url: str) -> None:
    """The server's statistics know nothing of the rows, and prepared statements keep their plan."""

    async def scenario(store: PostgresStore) -> None:
        for start in range(0, 6000, 1000):
            changes = [Change(tasks=(make_task(n),)) for n in range(start, start + 1000)]
            assert not any((await store.commit(changes)).refusals)
            assert len(await store.tasks([f"task-{start + n:04}" for n in range(50)])) == 50
        watcher = await asyncpg.connect(url)
        walked = (
            "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relid = 'crawler_tasks'::regclass"
        )
        assert await watcher.fetchval(walked) == 0
        await watcher.close()

    run(url, scenario)
