"""The PostgreSQL store when servers stop, connections break, processes die, and things are wrong.

Whatever happens: what was acknowledged is there, every change is there wholly or not at all, and
the store goes on by itself when the server is back.
"""

import asyncio
import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from crawlfleet.adapters.store.postgres import connections, errors, statements
from crawlfleet.adapters.store.postgres.store import PostgresStore
from crawlfleet.errors import ConfigError, StoreUnavailable
from crawlfleet.ports.kernel_tables import CLUSTERS
from crawlfleet.ports.store import Change
from crawlfleet.testing.store_suite.harness import must
from crawlfleet.testing.store_suite.samples import make_event, make_task
from tests.adapters import committer
from tests.adapters.schemas import Schemas
from tests.support.servers import PostgresServer, postgres_server

pytestmark = pytest.mark.slow

KILLS = 8
RESTARTS = 5


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that waits for the disk, and that tests may stop."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def durable(server: PostgresServer) -> Schemas:
    return Schemas(server)


@pytest.fixture
def schema(durable: Schemas, tmp_path: Path) -> str:
    return durable.name(tmp_path)


@pytest.fixture
def url(durable: Schemas, tmp_path: Path) -> str:
    return durable.url(tmp_path)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url=url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def read_back(url: str) -> set[int]:
    """The numbers of `committer.make_change` that are there, each with all its parts."""
    connection = await asyncpg.connect(url)
    try:
        # One picture of it all: the last commit of a client that is gone may still be on its way.
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            parts = [
                {row[0] for row in await connection.fetch(f"SELECT {column} FROM {table}")}
                for table, column in (
                    ("crawler_tasks", "id"),
                    ("crawler_task_executions", "task_id"),
                    ("crawler_events", "subject"),
                    ("crawler_claims", "holder"),
                )
            ]
            numbers = [row[0] for row in await connection.fetch("SELECT seq FROM crawler_events")]
    finally:
        await connection.close()
    assert all(part == parts[0] for part in parts)
    assert sorted(numbers) == [*range(1, len(parts[0]) + 1)]
    return {int(task.removeprefix("task-")) for task in parts[0]}


def test_acknowledged_changes_survive_kill_9_of_the_client_whole(url: str) -> None:
    chance = random.Random(7)
    acknowledged: set[int] = set()
    first = 0
    for _ in range(KILLS):
        acknowledged.update(committer.commit_until_killed(url, first, chance.uniform(0, 0.15)))
        present = asyncio.run(read_back(url))
        assert acknowledged <= present
        # One that was sent but not answered may still come in.
        first = max(present) + 100
    assert len(acknowledged) > KILLS


def test_server_that_crashes_under_load_loses_nothing_and_masters_go_on() -> None:
    chance = random.Random(5)
    acknowledged: set[int] = set()
    unknown: set[int] = set()

    async def commit_on(store: PostgresStore, numbers: Iterator[int]) -> None:
        for number in numbers:
            try:
                committed = await store.commit([committer.make_change(number)])
            except StoreUnavailable:
                unknown.add(number)
            else:
                assert committed.refusals == (None,)
                acknowledged.add(number)

    async def scenario(server: PostgresServer) -> None:
        url = server.url()
        portion = 150
        numbers = iter(range(portion * (RESTARTS + 1)))
        async with opened(url) as one, opened(url) as other, asyncio.TaskGroup() as group:
            for store in (one, other) * 6:
                group.create_task(commit_on(store, numbers))
            for crash in range(RESTARTS):
                # In the midst of each portion, at a moment of chance.
                while len(acknowledged) < portion * (crash + 0.5):
                    await asyncio.sleep(0.001)
                await asyncio.sleep(chance.uniform(0, 0.005))
                await asyncio.to_thread(server.restart, "immediate")

    # One of its own: after a crash it walks through all of its files.
    with postgres_server() as server:
        asyncio.run(asyncio.wait_for(scenario(server), 120))
        present = asyncio.run(read_back(server.url()))
    assert acknowledged <= present
    assert present <= acknowledged | unknown
    # At most those that were being committed at a crash.
    assert len(unknown) <= RESTARTS * 12
    assert len(acknowledged) > 600


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_restart_is_ridden_out_by_commits_and_reads(
    server: PostgresServer, url: str, mode: str
) -> None:
    async def scenario() -> None:
        async with opened(url) as store:
            await must(store, Change(tasks=(make_task(1),)))
            assert len(await store.tasks(["task-0001"])) == 1
            await asyncio.to_thread(server.stop, mode)
            answers = asyncio.gather(
                store.commit([Change(tasks=(make_task(2),))]),
                store.tasks(["task-0001"]),
                store.lead("me"),
                store.count_tasks(),
            )
            await asyncio.sleep(0.5)
            await asyncio.to_thread(server.start)
            committed, found, lead, _ = await answers
            assert committed.refusals == (None,)
            assert len(found) == 1
            assert lead is not None
            assert lead.epoch == 1

    asyncio.run(scenario())


def test_server_that_stays_away_is_told_of_in_time_and_found_again(
    server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WAIT_OUT_S", 0.5)

    async def scenario() -> None:
        async with opened(url) as store:
            await asyncio.to_thread(server.stop)
            for call in (store.commit([Change(tasks=(make_task(1),))]), store.tasks(["a"])):
                began = time.monotonic()
                with pytest.raises(StoreUnavailable, match="it cannot be reached; check that it"):
                    await call
                assert 0.4 < time.monotonic() - began < 20
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                await PostgresStore(url=url).open()
            await asyncio.to_thread(server.start)
            assert await store.tasks(["task-0001"]) == []
            await must(store, Change(tasks=(make_task(1),)))

    try:
        asyncio.run(scenario())
    finally:
        if server._process is None:
            server.start()


class Proxy:
    """Stands between a store and its server, and breaks connections when it sees a word."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._word: bytes | None = None
        self._pass_on = False
        self._wait_s = 0.0
        self.broken = 0

    def break_at(self, word: bytes, *, pass_on: bool, wait_s: float = 0.2) -> None:
        """Break the next connection that sends `word`, before or some time after passing it on."""
        self._word, self._pass_on, self._wait_s = word, pass_on, wait_s

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_read, to_write = await asyncio.open_unix_connection(str(self._socket))
        back = asyncio.create_task(self._answer(to_read, writer))
        try:
            while data := await reader.read(1 << 20):
                if self._word is not None and self._word in data:
                    self._word = None
                    self.broken += 1
                    back.cancel()
                    if self._pass_on:
                        to_write.write(data)
                        await to_write.drain()
                        await asyncio.sleep(self._wait_s)
                    return
                to_write.write(data)
        finally:
            back.cancel()
            writer.transport.abort()
            to_write.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 20):
            writer.write(data)
        writer.transport.abort()


def through_proxy(
    server: PostgresServer, url: str, scenario: Callable[[PostgresStore, Proxy], object]
) -> None:
    async def main() -> None:
        proxy = Proxy(server.folder / f".s.PGSQL.{server.port}")
        listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        query = "search_path=" + url.rpartition("=")[2]
        address = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable&{query}"
        async with listening, asyncio.timeout(60), opened(address) as store:
            await scenario(store, proxy)

    asyncio.run(main())


@pytest.mark.parametrize("made", [True, False], ids=["made", "not made"])
def test_lost_answer_to_commit_is_told_as_unknown(
    server: PostgresServer, url: str, made: bool
) -> None:
    async def scenario(store: PostgresStore, proxy: Proxy) -> None:
        await must(store, Change(tasks=(make_task(1),)))
        proxy.break_at(b"COMMIT\0", pass_on=made)
        change = Change(tasks=(make_task(2),), events=(make_event(), make_event()))
        with pytest.raises(StoreUnavailable, match="did not say whether it has made the changes"):
            await store.commit([change])
        assert proxy.broken == 1
        assert len(await store.tasks(["task-0002"])) == made
        assert len(await store.events(after=0, limit=9)) == 2 * made
        again = await store.commit([change])
        assert (again.refusals == (None,)) == (not made)
        assert again.last_seq == 2

    through_proxy(server, url, scenario)


def test_unknown_outcome_is_settled_before_it_is_told(
    server: PostgresServer, url: str, schema: str
) -> None:
    """A commit may go on in the server after its connection broke; who reads then must see it."""
    slowly = (
        f"CREATE FUNCTION {schema}.nap() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END';"
        f"CREATE CONSTRAINT TRIGGER nap AFTER INSERT ON {schema}.crawler_tasks "
        f"DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.nap()"
    )

    async def scenario(store: PostgresStore, proxy: Proxy) -> None:
        server.execute(slowly)
        proxy.break_at(b"COMMIT\0", pass_on=True, wait_s=0.0)
        with pytest.raises(StoreUnavailable, match="did not say whether"):
            await store.commit([Change(tasks=(make_task(),))])
        assert await store.tasks(["task-0001"]) == [make_task()]

    through_proxy(server, url, scenario)


@pytest.mark.parametrize("word", [b"BEGIN", b"UNION ALL", b"INSERT INTO"], ids=bytes.decode)
@pytest.mark.parametrize("pass_on", [True, False])
def test_connection_lost_before_commit_is_not_noticed(
    server: PostgresServer, url: str, word: bytes, pass_on: bool
) -> None:
    async def scenario(store: PostgresStore, proxy: Proxy) -> None:
        proxy.break_at(word, pass_on=pass_on)
        await must(store, Change(tasks=(make_task(1),), events=(make_event(),)))
        assert proxy.broken == 1
        assert len(await store.tasks(["task-0001"])) == 1
        assert len(await store.events(after=0, limit=9)) == 1

    through_proxy(server, url, scenario)


def test_connection_lost_during_a_read_is_not_noticed(server: PostgresServer, url: str) -> None:
    async def scenario(store: PostgresStore, proxy: Proxy) -> None:
        await must(store, Change(tasks=(make_task(1),)))
        for pass_on in (True, False):
            proxy.break_at(b"task-0001", pass_on=pass_on)
            assert len(await store.tasks(["task-0001"])) == 1
        assert proxy.broken == 2

    through_proxy(server, url, scenario)


def test_server_that_hangs_is_given_up_and_found_again(
    server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url):
            pass  # making the tables may take longer
        for name in ("COMMAND_S", "CONNECT_S", "WAIT_OUT_S"):
            monkeypatch.setattr(connections, name, 2.0)
        async with opened(url) as store:
            server.pause()
            try:
                for call in (store.commit([Change(tasks=(make_task(1),))]), store.tasks(["a"])):
                    with pytest.raises(StoreUnavailable, match="no answer in time"):
                        await asyncio.wait_for(call, 30)
            finally:
                server.resume()
            await must(store, Change(tasks=(make_task(2),)))

    asyncio.run(scenario())


def test_master_that_stopped_within_a_transaction_does_not_hold_up_the_others(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as store:
            settings = connections.WRITING | {"idle_in_transaction_session_timeout": "300ms"}
            stopped = await asyncpg.connect(url, server_settings=settings)
            await stopped.execute(statements.BEGIN)
            await asyncio.wait_for(must(store, Change(tasks=(make_task(),))), 5)
            stopped.terminate()

    assert connections.WRITING["idle_in_transaction_session_timeout"]
    asyncio.run(scenario())


def test_lock_that_is_held_for_long_is_explained(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.WRITING, "lock_timeout", "200ms")

    async def scenario() -> None:
        async with opened(url) as store:
            intruder = await asyncpg.connect(url)
            async with intruder.transaction():
                await intruder.execute(f"SELECT {statements.LOCK}")
                with pytest.raises(StoreUnavailable, match="somebody else holds a lock"):
                    await store.commit([Change(tasks=(make_task(),))])
            await intruder.close()
            await must(store, Change(tasks=(make_task(),)))

    asyncio.run(scenario())


def test_store_keeps_waiting_for_the_disk_whatever_the_database_says(
    server: PostgresServer, url: str
) -> None:
    server.execute("ALTER DATABASE postgres SET synchronous_commit = off")
    server.execute("ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'")
    server.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")

    async def scenario() -> None:
        async with opened(url) as store:
            await must(store, Change(tasks=(make_task(),)))
            connection = store._writer._connection
            assert await connection.fetchval("SHOW synchronous_commit") == "on"

    try:
        asyncio.run(scenario())
    finally:
        server.execute("BEGIN READ WRITE; ALTER DATABASE postgres RESET ALL; COMMIT")


def complaint(url: str) -> str:
    async def scenario() -> None:
        async with opened(url) as store:
            await store.find(CLUSTERS.where())

    with pytest.raises((StoreUnavailable, ConfigError)) as caught:
        asyncio.run(scenario())
    return str(caught.value)


def test_wrong_password_is_told_at_once_and_not_shown(server: PostgresServer) -> None:
    began = time.monotonic()
    told = complaint(server.tcp_url(password="hunter2-secret"))
    assert re.search(r"does not let this user in.*28P01", told)
    assert "hunter2" not in told
    assert f"127.0.0.1:{server.port}" in told
    assert time.monotonic() - began < connections.WAIT_OUT_S


def test_password_that_is_right_is_taken(server: PostgresServer, schema: str) -> None:
    async def scenario() -> None:
        address = f"{server.tcp_url()}?search_path={schema}"
        async with opened(address) as store:
            assert len(await store.find(CLUSTERS.where())) == 1

    asyncio.run(scenario())


def test_missing_database_and_schema_are_told_with_a_remedy(server: PostgresServer) -> None:
    assert re.search(r"no such database; create it.*3D000", complaint(server.url("nowhere")))
    told = complaint(server.url(search_path="nowhere"))
    assert re.search(r"no such schema; create it.*3F000", told)


def test_user_without_rights_is_told_with_a_remedy(server: PostgresServer) -> None:
    server.execute("CREATE ROLE guest LOGIN")
    told = complaint(server.url().replace("postgres@", "guest@"))
    assert re.search(r"may not do that; make the user the owner.*42501", told)


def test_too_many_connections_are_told_and_waited_out(
    server: PostgresServer, url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WAIT_OUT_S", 0.3)
    address = url.replace("postgres@", "crowded@")
    server.execute("CREATE ROLE crowded LOGIN CONNECTION LIMIT 1")
    server.execute(f"GRANT ALL ON SCHEMA {schema} TO crowded")

    async def scenario() -> None:
        taken = await asyncpg.connect(address)
        with pytest.raises(StoreUnavailable, match=r"no connection left; raise.*53300"):
            await PostgresStore(url=address).open()
        monkeypatch.setattr(connections, "WAIT_OUT_S", 5)
        server.execute("ALTER ROLE crowded CONNECTION LIMIT 2")
        opening = asyncio.create_task(PostgresStore(url=address).open())
        await asyncio.sleep(0.1)
        await taken.close()
        await opening

    asyncio.run(scenario())


def test_standby_is_told_and_its_promotion_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WAIT_OUT_S", 0.5)
    with postgres_server(fsync=False) as server:

        async def commit(number: int) -> None:
            async with opened(server.url()) as store:
                await must(store, Change(tasks=(make_task(number),)))

        asyncio.run(commit(1))
        server.stop("fast")
        (server.folder / "data" / "standby.signal").touch()
        server.start()
        told = complaint(server.url())
        assert re.search(r"read-only standby; name the primary.*25006", told)
        monkeypatch.setattr(connections, "WAIT_OUT_S", 10)

        async def promote_meanwhile() -> None:
            committing = asyncio.create_task(commit(2))
            await asyncio.sleep(0.3)
            await asyncio.to_thread(server.execute, "SELECT pg_promote()")
            await committing

        asyncio.run(promote_meanwhile())


def test_of_several_servers_the_one_that_can_be_written_is_found(
    server: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WAIT_OUT_S", 0.3)
    with postgres_server(fsync=False) as standby:
        standby.stop("fast")
        (standby.folder / "data" / "standby.signal").touch()
        standby.start()
        wanted = "target_session_attrs=primary"
        told = complaint(f"{standby.url()}&{wanted}")
        assert "read-only standby; name the primary" in told
        hosts = f"host={standby.folder},{server.folder}&port={standby.port},{server.port}"

        async def scenario() -> None:
            address = f"postgresql://postgres@/postgres?{hosts}&{wanted}&search_path={schema}"
            async with opened(address) as store:
                await must(store, Change(tasks=(make_task(),)))
                assert await store.tasks(["task-0001"]) == [make_task()]

        asyncio.run(scenario())


def make_certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1 that signs itself, and its key beside it."""
    openssl = shutil.which("openssl")
    assert openssl, "needs openssl; on Debian: apt-get install openssl"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", folder / "server.key", "-out", folder / "server.crt"),
        ],
        check=True,
        capture_output=True,
    )
    return folder / "server.crt"


def test_encrypted_connection_is_sure_of_the_other_side(tmp_path: Path) -> None:
    with postgres_server(fsync=False) as server:
        data = server.folder / "data"
        trusted = shutil.copy(make_certificate(data), tmp_path / "trusted.crt")
        for path in (data / "server.key", data / "server.crt"):
            os.chown(path, data.stat().st_uid, data.stat().st_gid)
            path.chmod(0o600)
        server.execute("ALTER SYSTEM SET ssl = on")
        server.restart("fast")
        sure = f"{server.tcp_url()}?sslmode=verify-full&sslrootcert="

        async def scenario() -> None:
            async with opened(f"{sure}{trusted}") as store:
                await must(store, Change(tasks=(make_task(),)))
                mine = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
                assert await store._writer._connection.fetchval(mine)

        asyncio.run(scenario())
        began = time.monotonic()
        told = complaint(f"{sure}{make_certificate(tmp_path)}")
        assert "no trusted connection; check `sslmode` and `sslrootcert`" in told
        assert time.monotonic() - began < connections.WAIT_OUT_S


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter/2secret@host:5432/db",
        "postgresql://me:hunter?2secret@host/db",
        "postgresql://me:hunter2secret@host:port/db",
        "postgresql://me:hunter2secret@host/db?sslmode=sometimes",
    ],
)
def test_url_that_cannot_be_read_is_told_without_its_password(url: str) -> None:
    told = complaint(url)
    assert "hunter" not in told
    assert "secret" not in told
    assert "cannot be understood" in told


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://me:secret@host:5432/db", "postgresql://host:5432/db"),
        ("postgres://host/db?password=secret", "postgres://host/db"),
        ("postgres://host/db?password=se@cret", "postgres://…"),
        ("postgresql://me:se@cret@one:1,two:2/db", "postgresql://one:1,two:2/db"),
        ("postgresql://me@/db?host=/run/pg&password=secret", "postgresql:///run/pg/db"),
    ],
)
def test_address_is_shown_without_secrets(url: str, address: str) -> None:
    assert errors.shown(url) == address


@pytest.mark.parametrize(
    ("error", "remedy", "passing"),
    [
        (asyncpg.DiskFullError("no space"), "disk is full; free some space", False),
        (asyncpg.OutOfMemoryError("no memory"), "out of memory", False),
        (asyncpg.AdminShutdownError("bye"), "goes on by itself when it is back", True),
        (asyncpg.CannotConnectNowError("starting"), "starting or stopping", True),
        (asyncpg.DataCorruptedError("bad page"), "data are damaged", False),
        (asyncpg.QueryCanceledError("timeout"), "statement_timeout", False),
        (ConnectionRefusedError(111, "refused"), "cannot be reached", True),
        (TimeoutError(), "no answer in time", True),
        (RuntimeError("?"), "look into the server's log", False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_every_kind_of_trouble_comes_with_what_to_do(
    error: Exception, remedy: str, passing: bool
) -> None:
    explained = errors.explain(error, "postgresql://host/db")
    assert isinstance(explained, StoreUnavailable)
    assert remedy in str(explained)
    assert "postgresql://host/db" in str(explained)
    assert explained.__cause__ is error
    assert errors.is_passing(error) is passing


async def hold_the_lock(url: str) -> asyncpg.Connection:
    """As a master that stopped in its transaction where the server does not count it as idle."""
    holder = await asyncpg.connect(
        url, server_settings={**connections.WRITING, "idle_in_transaction_session_timeout": "0"}
    )
    await holder.execute(statements.BEGIN)
    return holder


def test_a_writer_that_hangs_does_not_keep_the_others_out(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act() -> None:
        async with opened(url) as store:
            monkeypatch.setitem(connections.WRITING, "lock_timeout", f"{statements.SILENT_S + 1}s")
            holder = await hold_the_lock(url)
            await must(store, committer.make_change(1))
            assert holder.is_closed()

    asyncio.run(act())
    assert asyncio.run(read_back(url)) == {1}


@pytest.mark.parametrize("takes_the_lead", [True, False], ids=["restores", "works"])
def test_a_transaction_that_goes_on_is_let_be(url: str, takes_the_lead: bool) -> None:
    """A restore waits for its own reading; anybody's statement may take long."""

    async def act() -> None:
        async with opened(url):
            holder = await hold_the_lock(url)
            if takes_the_lead:
                await holder.fetchval(statements.TRY_LEAD)
                await asyncio.sleep(statements.SILENT_S + 0.5)
                busy = None
            else:
                busy = asyncio.create_task(
                    holder.execute(f"SELECT pg_sleep({statements.SILENT_S + 3})")
                )
                await asyncio.sleep(statements.SILENT_S + 0.5)
            assert not await connections.Server(url).end_silent_writer()
            if busy is not None:
                await busy
            await holder.execute("ROLLBACK")
            await holder.close()

    asyncio.run(act())
