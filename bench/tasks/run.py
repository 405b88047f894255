"""`python -m bench.tasks`: tasks through crawlfleet, and through its peers in the same run."""

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console
from tests.support.servers import PostgresServer

from bench import sheets
from bench.machine import add_wait, await_quiet, first_line, machine
from bench.peers import Missing
from bench.tasks import floor, measures, setup, tables
from bench.tasks.figures import Measured, Report, Round, summed_up
from bench.tasks.systems import POSTGRES_STORE, SYSTEMS, Site, System, opened, stop_workers

SINGLE_SHARE: Final = 0.1
"""Of the tasks is submitted one by one, the rest in bulk."""


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    share: float = 1.0
    """Of each system's own number of tasks."""
    rounds: int = 3
    latency_tasks: int = 200
    gap_s: float = 0.05
    queued: int = 200_000
    queue_within_s: float = 20.0
    kill_tasks: int = 200
    kill_wait_s: float = 150.0
    floor_tasks: int = 20_000


QUICK: Final = Sizes(
    share=0.1,
    rounds=1,
    latency_tasks=60,
    queued=0,
    kill_wait_s=20.0,
    floor_tasks=2_000,
)


class Bench:
    """One run; keeps what it found of each system as it goes on."""

    def __init__(
        self,
        systems: Sequence[System],
        sizes: Sizes,
        *,
        folder: Path,
        postgres: PostgresServer | None,
        store_url: str,
        console: Console,
    ) -> None:
        self._systems = systems
        self._sizes = sizes
        self._folder = folder
        self._postgres = postgres
        self._store_url = store_url
        self._console = console
        self._count = 0
        self.missing: dict[str, str] = {}
        self.found = {
            each.name: Measured(
                title=each.title,
                tasks=self._tasks(each),
                settings=each.settings,
                done=each.done,
                bulk=each.bulk,
            )
            for each in systems
        }

    def run(self) -> None:
        """All parts, system after system within each, so that they share the machine's moods."""
        rounds: dict[str, list[Round]] = {each.name: [] for each in self._systems}
        for number in range(self._sizes.rounds):
            for system in self._systems:
                self._say(f"round {number + 1}: {system.title}")
                made = self._try(system, "rates", lambda site, each=system: self._round(site, each))
                if made is not None:
                    rounds[system.name].append(made)
        for name, made in rounds.items():
            if made:
                self.found[name] = summed_up(self.found[name], made)
        whole = [each for each in self._systems if not each.rates_only]
        for system in whole:
            self._say(f"latency: {system.title}")
            self._keep(system, "latency", self._latency)
        for system in whole if self._sizes.queued else ():
            self._say(f"memory: {system.title}")
            self._keep(system, "queued", self._queue)
        self._say(f"kill -9, all systems at once, up to {self._sizes.kill_wait_s:g} s")
        with ThreadPoolExecutor(max(len(whole), 1)) as pool:
            # Little but waiting happens here, so the systems do not disturb each other.
            list(pool.map(lambda each: self._keep(each, "killed", self._kill), whole))

    def _round(self, site: Site, system: System) -> Round:
        tasks = self._tasks(system)
        singly = max(int(tasks * SINGLE_SHARE), 1)
        single = measures.enqueue(site, "single", singly)
        batch = measures.enqueue(site, "batch", tasks - singly)
        drains = {1: measures.drain(site, 1)}
        stop_workers(site)
        measures.enqueue(site, "batch", tasks)
        drains[2] = measures.drain(site, 2)
        return Round(single=single, batch=batch, drains=drains)

    def _latency(self, site: Site, folder: Path) -> measures.Latency:
        return measures.latency(site, folder, self._sizes.latency_tasks, self._sizes.gap_s)

    def _queue(self, site: Site, folder: Path) -> measures.Queued:
        return measures.queued(site, self._sizes.queued, self._sizes.queue_within_s)

    def _kill(self, site: Site, folder: Path) -> measures.Killed:
        return measures.kill(site, folder, self._sizes.kill_tasks, self._sizes.kill_wait_s)

    def _keep(self, system: System, field: str, measure: Callable[[Site, Path], Any]) -> None:
        folder = self._place()
        folder.mkdir()
        figure = self._try(system, field, lambda site: measure(site, folder))
        self.found[system.name] = msgspec.structs.replace(
            self.found[system.name], **{field: figure}
        )

    def _try(self, system: System, part: str, measure: Callable[[Site], Any]) -> Any:
        """A system that fails is reported, and the others are measured all the same."""
        try:
            with opened(
                system, self._place(), postgres=self._postgres, store_url=self._store_url
            ) as site:
                return measure(site)
        except Exception as error:
            self.missing[f"{system.title}, {part}"] = f"{type(error).__name__}: {error}"
            self._say(f"[red]{system.title}, {part}: {error}[/]")
            return None

    def _tasks(self, system: System) -> int:
        return int(system.tasks * self._sizes.share)

    def _place(self) -> Path:
        self._count += 1
        return self._folder / str(self._count)

    def _say(self, text: str) -> None:
        self._console.print(f"[dim]{datetime.now(UTC):%H:%M:%S}[/] {text}", highlight=False)


def floors(
    folder: Path, postgres: PostgresServer | None, tasks: int
) -> dict[str, list[floor.Floor]]:
    made = {
        "SQLite (WAL, synchronous=FULL)": [
            floor.sqlite_floor(folder, batch, floor.tasks_for(batch, tasks))
            for batch in floor.BATCHES
        ]
    }
    if postgres is not None and floor.has_asyncpg():
        made["PostgreSQL (asyncpg, synchronous commit)"] = [
            floor.postgres_floor(postgres.tcp_url(), batch, floor.tasks_for(batch, tasks))
            for batch in floor.BATCHES
        ]
    return made


@contextlib.contextmanager
def prepared(
    wanted: Sequence[System], console: Console
) -> Iterator[tuple[list[System], PostgresServer | None, dict[str, str], dict[str, str]]]:
    """The systems that can be measured here, PostgreSQL, versions, and what is missing and why."""
    missing: dict[str, str] = {}
    versions: dict[str, str] = {}
    able = list(wanted)

    def leave_out(names: set[str], why: Missing) -> None:
        for each in [each for each in able if {each.name, each.program} & names]:
            missing[each.title] = str(why)
            able.remove(each)

    redis_peers = {"celery", "dramatiq", "huey"}
    peers = redis_peers | {"procrastinate"}
    if peers & {each.program for each in able}:
        try:
            versions |= setup.prepare_peers()
        except Missing as why:
            leave_out(peers, why)
    if redis_peers & {each.program for each in able}:
        try:
            versions["Redis server"] = _redis_version(setup.find_redis())
        except Missing as why:
            leave_out(redis_peers, why)
    with contextlib.ExitStack() as stack:
        server = None
        try:
            server = stack.enter_context(setup.postgres())
            versions["PostgreSQL server"] = server.execute("SHOW server_version")[0][0]
        except Missing as why:
            leave_out({"procrastinate", "crawlfleet-postgres"}, why)
            missing["floor of PostgreSQL"] = str(why)
        console.print(", ".join(f"{name} {version}" for name, version in versions.items()))
        yield able, server, versions, missing


def chosen(only: Sequence[str], postgres: str | None) -> list[System]:
    systems = [*SYSTEMS[:1], *([POSTGRES_STORE] if postgres is not None else []), *SYSTEMS[1:]]
    return [each for each in systems if not only or each.name in only]


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.tasks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tasks, no memory part")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    names = [each.name for each in (*SYSTEMS, POSTGRES_STORE)]
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=[])
    parser.add_argument(
        "--postgres",
        nargs="?",
        const="",
        metavar="URL",
        help="also crawlfleet on PostgreSQL: on the server of that URL, whose CPU is not measured,"
        " or without URL on the one that this benchmark starts",
    )
    add_wait(parser)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> Report:
    options = options_of(arguments)
    console = Console(width=150)
    sizes = QUICK if options.quick else Sizes()
    # So that everything is stopped, in order, when somebody stops this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with (
        tempfile.TemporaryDirectory(prefix="bench-tasks-", ignore_cleanup_errors=True) as name,
        prepared(chosen(options.only, options.postgres), console) as ready,
    ):
        systems, server, versions, missing = ready
        facts = machine(await_quiet(options.wait, console))
        begun = time.monotonic()
        bench = Bench(
            systems,
            sizes,
            folder=Path(name),
            postgres=server,
            store_url=options.postgres or "",
            console=console,
        )
        bench.run()
        lowest = floors(Path(name), server, sizes.floor_tasks)
        report = Report(
            machine=facts,
            versions=versions,
            quick=options.quick,
            rounds=sizes.rounds,
            seconds=time.monotonic() - begun,
            systems=bench.found,
            floors=lowest,
            missing=missing | bench.missing,
        )
    sheets.show(tables.sheets(report), console)
    for name, why in report.missing.items():
        console.print(f"{name}: not measured: {why}")
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    return report


def _redis_version(program: str) -> str:
    words = first_line([program, "--version"]).split()
    return next((word[2:] for word in words if word.startswith("v=")), "of unknown version")
