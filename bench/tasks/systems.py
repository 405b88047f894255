"""The systems that are measured: how each is started, what belongs to it, and where it keeps tasks.

Every system is opened anew for each measurement, in an empty folder with a server of its own
(PostgreSQL: one server for the whole run, an empty table). All talk TCP on 127.0.0.1.
"""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec
import psutil
from tests.support.local_fleet import STOCK_SESSION, LocalFleet, running
from tests.support.servers import PostgresServer

from bench.tasks.processes import Conversation, Program, free_port
from bench.tasks.setup import VENV, redis_server

PROGRAMS: Final = Path(__file__).parent / "programs"


class Site(Protocol):
    """A system that is open: its servers run, its client is connected, its workers may come."""

    client: Conversation
    workers: list[Program]

    def start_workers(self, processes: int, *, apart: bool = False) -> None:
        """So many processes that run tasks; `apart` as workers that can be killed singly."""

    def groups(self) -> dict[str, list[psutil.Process]]:
        """Its processes without the client, by what they are."""

    def memory(self) -> dict[str, float]:
        """Bytes in use, by where they are."""


class System(msgspec.Struct, frozen=True, kw_only=True):
    """What the tables know of a system."""

    name: str
    title: str
    tasks: int
    """In one drain: so many that it takes ten seconds or so."""
    settings: str
    """What was set, for the page."""
    done: str
    """How it is known that a task is done."""
    bulk: str
    slots: int = 1
    """Of each of our workers: how many processes of it run tasks."""
    appendfsync: str = "everysec"
    """Of its Redis: when what it has acknowledged is on disk."""
    prefetch: int = 0
    """How many tasks a process of the peer takes at once, in its own measure; 0: of no meaning."""
    threads: int = 8
    """Of a process of Dramatiq, which has eight when nobody says otherwise."""
    rates_only: bool = False

    @property
    def program(self) -> str:
        """Whose system it is; the same may be measured with several settings."""
        return self.name.partition("-")[0]


STOCK_SLOTS: Final = 4
DURABLE: Final = "`appendfsync always`, so that Redis, too, has on disk what it acknowledges"
SYSTEMS: Final = (
    System(
        name="crawlfleet",
        title="crawlfleet",
        tasks=20_000,
        settings="`up` with its SQLite store (WAL, `synchronous=FULL`: on disk before it is"
        " acknowledged), `worker` with one slot, so that as many processes run tasks as with the"
        " peers (with its stock four, see the next line); an async function run by the `python`"
        " executor; all calls over HTTP",
        done="the end of each task is recorded in the store; the status call counts them",
        bulk="`submit_batch`, 1,000 a call",
    ),
    System(
        name="crawlfleet-stock",
        title="crawlfleet, stock slots",
        tasks=20_000,
        settings="as above, with the four slots that a `worker` has when nobody says otherwise",
        done="as above",
        bulk="as above",
        slots=STOCK_SLOTS,
        rates_only=True,
    ),
    System(
        name="celery",
        title="Celery + Redis",
        tasks=10_000,
        settings="`task_acks_late`, results ignored, JSON, rate limits disabled,"
        " `worker_prefetch_multiplier` 64, no gossip, mingle or heartbeat; workers of the prefork"
        " pool with `--concurrency=1`, since two of them were faster than one with 2",
        done="the queue and the hash of unacknowledged messages are empty",
        bulk="none; a loop with one producer",
        prefetch=64,
    ),
    System(
        name="celery-stock",
        title="Celery + Redis, stock prefetch",
        tasks=5_000,
        settings="as above, with the stock `worker_prefetch_multiplier` 4",
        done="as above",
        bulk="as above",
        prefetch=4,
        rates_only=True,
    ),
    System(
        name="celery-durable",
        title="Celery + Redis, durable",
        tasks=5_000,
        settings=f"prefetch 64; {DURABLE}",
        done="as above",
        bulk="as above",
        prefetch=64,
        appendfsync="always",
        rates_only=True,
    ),
    System(
        name="dramatiq",
        title="Dramatiq + Redis",
        tasks=20_000,
        settings="stock middleware, that many `--processes`; `dramatiq_queue_prefetch=100`, which"
        " was more than twice as fast as the stock 16, and `--threads=2`, the fastest of 1, 2, 4"
        " and the stock 8",
        done="the hash of messages is empty, from which an acknowledgement removes them",
        bulk="none; a loop",
        prefetch=100,
        threads=2,
    ),
    System(
        name="dramatiq-stock",
        title="Dramatiq + Redis, stock",
        tasks=10_000,
        settings="as above, with the stock `dramatiq_queue_prefetch` of 16 and the stock 8 threads",
        done="as above",
        bulk="as above",
        prefetch=16,
        rates_only=True,
    ),
    System(
        name="dramatiq-durable",
        title="Dramatiq + Redis, durable",
        tasks=10_000,
        settings=f"prefetch 100, `--threads=4`, again the fastest; {DURABLE}",
        done="as above",
        bulk="as above",
        prefetch=100,
        threads=4,
        appendfsync="always",
        rates_only=True,
    ),
    System(
        name="huey",
        title="Huey + Redis",
        tasks=20_000,
        settings="`RedisHuey`, results off, `--worker-type process`, quiet log",
        done="the queue is empty; a task leaves it when it is taken",
        bulk="none; a loop",
    ),
    System(
        name="procrastinate",
        title="Procrastinate + PostgreSQL",
        tasks=3_000,
        settings="async task, one worker process each with `--concurrency 10`, a pool of 10"
        " connections, psycopg's binary build; finished jobs are kept, as is stock",
        done="no job is `todo` or `doing`",
        bulk="`batch_defer`, 1,000 a call",
    ),
)
POSTGRES_STORE: Final = msgspec.structs.replace(
    SYSTEMS[0],
    name="crawlfleet-postgres",
    title="crawlfleet on PostgreSQL",
    settings="as above, with its PostgreSQL store (`synchronous_commit=on`)",
)


class OurSite:
    """A master as `crawlfleet up` starts it, and workers that join it."""

    def __init__(self, fleet: LocalFleet, slots: int, store: PostgresServer | None) -> None:
        self._fleet = fleet
        self._slots = slots
        self._store = store
        self.workers: list[Program] = []
        self.client = Conversation(
            Path(sys.executable),
            "crawlfleet",
            folder=fleet.folder,
            environment={
                "PYTHONPATH": _path(),
                "BENCH_URL": fleet.url,
                "BENCH_KEY": fleet.key,
            },
        )

    def start_workers(self, processes: int, *, apart: bool = False) -> None:
        for number in range(processes):
            # A name of its own: a node of an earlier measurement must not be resumed.
            name = f"bench-{free_port()}-{number}"
            command = [sys.executable, "-m", "crawlfleet", "worker", "--master", self._fleet.url]
            command += ["--name", name, "--data", self._fleet.folder / name]
            environment = {
                "PYTHONPATH": _path(),
                "CRAWLFLEET_JOIN_TOKEN": self._fleet.join_token,
                "CRAWLFLEET_WORKER_PYTHON_ALLOW": '["work:*"]',
                # When one dies, the others' stock concurrency counts: Dramatiq has 8 threads.
                "CRAWLFLEET_WORKER_SLOTS": str(STOCK_SLOTS if apart else self._slots),
                # Trusted functions, as in all the others: none of them keeps tasks apart.
                "CRAWLFLEET_WORKER_SANDBOX_TASK_TYPES": "[]",
            }
            self.workers.append(
                Program(command, folder=self._fleet.folder, environment=environment)
            )

    def groups(self) -> dict[str, list[psutil.Process]]:
        trees = [worker.tree() for worker in self.workers]
        groups = {
            "master": self._fleet.processes("all"),
            "agents": [process for tree in trees for process in tree[:1]],
            "executors": [process for tree in trees for process in tree[1:]],
        }
        if self._store:
            groups["database"] = _family(self._store.pid)
        return groups

    def memory(self) -> dict[str, float]:
        resident = sum(each.memory_info().rss for each in self._fleet.processes("all"))
        if self._store:
            sizes = self._store.execute("SELECT sum(pg_database_size(oid)) FROM pg_database")
            return {"master": resident, "file": float(sizes[0][0])}
        files = self._fleet.folder.glob("crawlfleet.db*")
        return {"master": resident, "file": sum(each.stat().st_size for each in files)}


class PeerSite:
    """A peer, its client and its workers in the peers' venv."""

    def __init__(
        self, system: str, folder: Path, environment: dict[str, str], *, options: Sequence[str] = ()
    ) -> None:
        """The `options` of its workers are for speed: those that can be killed have the stock
        ones."""
        self._system = system
        self._options = options
        self._folder = folder
        self._environment = {"PYTHONPATH": str(PROGRAMS), **environment}
        self.workers: list[Program] = []
        self.client = Conversation(
            VENV / "bin" / "python", system, folder=folder, environment=self._environment
        )

    def start_workers(self, processes: int, *, apart: bool = False) -> None:
        singly = apart or self._system in {"celery", "procrastinate"}
        for number, count in enumerate([1] * processes if singly else [processes]):
            program, *arguments = worker_command(self._system, count, number)
            self.workers.append(
                Program(
                    [VENV / "bin" / program, *arguments, *([] if apart else self._options)],
                    folder=self._folder,
                    environment=self._environment,
                )
            )

    def _worker_processes(self) -> list[psutil.Process]:
        return [process for worker in self.workers for process in worker.tree()]


class RedisSite(PeerSite):
    def __init__(self, system: System, folder: Path, server: Program, url: str) -> None:
        prefetch = str(system.prefetch)
        environment = {
            "BENCH_REDIS": url,
            "BENCH_PREFETCH": prefetch,
            "dramatiq_queue_prefetch": prefetch,
        }
        options = [f"--threads={system.threads}"] if system.program == "dramatiq" else []
        super().__init__(system.program, folder, environment, options=options)
        self._server = server
        self._url = url

    def groups(self) -> dict[str, list[psutil.Process]]:
        return {"broker": self._server.tree(), "workers": self._worker_processes()}

    def memory(self) -> dict[str, float]:
        return {"redis": redis_memory(self._url)}


class PostgresSite(PeerSite):
    def __init__(self, system: str, folder: Path, server: PostgresServer) -> None:
        super().__init__(system, folder, {"BENCH_POSTGRES": server.tcp_url()})
        self._server = server

    def groups(self) -> dict[str, list[psutil.Process]]:
        return {"database": _family(self._server.pid), "workers": self._worker_processes()}

    def memory(self) -> dict[str, float]:
        size = self._server.execute("SELECT pg_database_size('postgres')")
        return {"file": float(size[0][0])}


def worker_command(system: str, processes: int, number: int) -> Sequence[str]:
    """The peer's own program, found in the venv, for so many processes that run tasks."""
    match system:
        case "celery":
            return (
                *("celery", "--app=with_celery", "--quiet", "worker", "--pool=prefork"),
                *(f"--concurrency={processes}", f"--hostname=bench{number}@%h"),
                *("--without-gossip", "--without-mingle", "--without-heartbeat"),
                "--loglevel=ERROR",
            )
        case "dramatiq":
            return "dramatiq", "with_dramatiq", "--processes", str(processes)
        case "huey":
            return (
                *("huey_consumer", "with_huey.huey", "--worker-type=process"),
                *(f"--workers={processes}", "--quiet"),
            )
        case "procrastinate":
            return (
                *("procrastinate", "--app=with_procrastinate.app", "worker"),
                "--concurrency=10",
            )
    raise ValueError(system)


@contextlib.contextmanager
def opened(
    system: System, folder: Path, *, postgres: PostgresServer | None, store_url: str = ""
) -> Iterator[Site]:
    """The system with no tasks and no workers; all of it is gone at the end.

    `store_url` is the PostgreSQL that `crawlfleet-postgres` is to use in place of our own.
    """
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        site: OurSite | RedisSite | PostgresSite
        if system.name.startswith("crawlfleet"):
            store, server = {}, None
            if system.name == "crawlfleet-postgres":
                server = None if store_url else postgres
                url = store_url or stack.enter_context(_database(postgres))
                store = {"CRAWLFLEET_STORE": url}
            fleet = LocalFleet(folder / "fleet", workers=0, **STOCK_SESSION, **store)
            stack.enter_context(running(fleet))
            asyncio.run(fleet.until_ready())
            site = OurSite(fleet, system.slots, server)
        elif system.name == "procrastinate":
            assert postgres is not None
            site = PostgresSite(system.name, folder, postgres)
        else:
            broker, url = stack.enter_context(
                redis_server(folder / "redis", appendfsync=system.appendfsync)
            )
            site = RedisSite(system, folder, broker, url)
        try:
            yield site
        finally:
            stop_workers(site)
            site.client.close()


@contextlib.contextmanager
def _database(server: PostgresServer | None) -> Iterator[str]:
    """A new database on our server, dropped at the end."""
    assert server is not None
    name = f"fleet_{free_port()}"
    server.execute(f"CREATE DATABASE {name}")
    try:
        yield server.tcp_url(name)
    finally:
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def stop_workers(site: Site) -> None:
    for worker in site.workers:
        worker.stop()
    site.workers.clear()


def redis_memory(url: str) -> float:
    """Redis's own `used_memory`."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port or 6379), 5) as connection:
        connection.sendall(b"INFO memory\r\n")
        answer = connection.recv(65536).decode()
    found = next(line for line in answer.splitlines() if line.startswith("used_memory:"))
    return float(found.partition(":")[2])


def _family(pid: int) -> list[psutil.Process]:
    top = psutil.Process(pid)
    return [top, *top.children(recursive=True)]


def _path() -> str:
    """Where our workers find the functions; crawlfleet itself is that of the running Python."""
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, (str(PROGRAMS), given)))
