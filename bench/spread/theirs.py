"""scrapy-redis: as many processes on one Redis, in a venv of their own."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import psutil
from tests.support.servers import RedisServer, redis_server

from bench.crawl.crawlers import PROGRAMS as SCRAPY_PROGRAMS
from bench.peers import FOLDER
from bench.spread.ours import asked
from bench.spread.turn import Item, Turn, judged
from bench.tasks.processes import Cost, Program, cpu_s
from crawlfleet.testing.known_site import ServedSite

VENV: Final = FOLDER / "peers-spread"
PACKAGES: Final = (
    "hiredis==3.5.0",
    "lxml==6.1.3",
    "redis==8.1.0",
    "scrapy==2.19.0",
    "scrapy-redis==0.9.1",
    "twisted==26.10.0",
    "uvloop==0.23.0",
)
PROGRAM: Final = Path(__file__).parent / "programs" / "with_scrapy_redis.py"
READY_S: Final = 60.0
LONGEST_S: Final = 900.0
LOOK_EVERY_S: Final = 0.25
OVER_S: Final = 8.0
"""Nothing waits and nobody has asked for anything for so long: a process that finds nothing to do
looks again every five seconds."""


class Spiders:
    """Processes of one kind on a Redis that nobody else uses."""

    def __init__(self, kind: str, server: RedisServer, folder: Path, *, concurrency: int) -> None:
        self._kind = kind
        self._server = server
        self._folder = folder
        self._concurrency = concurrency
        self._programs: list[Program] = []
        self._outputs: list[Path] = []

    def add(self) -> None:
        """Start one more."""
        output = self._folder / f"items-{len(self._programs)}.jsonl"
        self._outputs.append(output)
        python = VENV / "bin" / "python"
        command = [python, PROGRAM, self._kind, self._server.url(), output, str(self._concurrency)]
        # Its settings are those of Scrapy by itself, which lie beside that program.
        environment = {"PYTHONPATH": str(SCRAPY_PROGRAMS)}
        self._programs.append(Program(command, folder=self._folder, environment=environment))

    def until_ready(self) -> None:
        """All of them have asked Redis for something to do; two connections each."""
        deadline = time.monotonic() + READY_S
        while self._server.execute("CLIENT", "LIST").count("name=") < 2 * len(self._programs):
            if time.monotonic() > deadline:
                words = self._programs[-1].complaint()
                raise RuntimeError(f"scrapy-redis does not start:\n{words}")
            time.sleep(0.1)
        time.sleep(1.0)

    def crawl(self, site: ServedSite, *, kill_after: int | None = None) -> Turn:
        """Crawl a site; `kill_after` so many requests, `kill -9` a process and start another."""
        known = len(site.hits())
        groups = {
            "spiders": [each for program in self._programs for each in program.tree()],
            "redis": [psutil.Process(self._server.pid)],
        }
        cost = Cost(groups)
        self._server.execute("LPUSH", "start", site.spec.url(0))
        samples: list[tuple[float, dict[str, float]]] = []
        seen, changed = known, time.time()
        while time.time() - changed < OVER_S or seen == known or self._waiting():
            time.sleep(LOOK_EVERY_S)
            now = len(site.hits())
            if now != seen:
                seen, changed = now, time.time()
            samples.append((time.time(), cost.until(groups)))
            if kill_after is not None and seen - known >= kill_after:
                kill_after = None
                self._busiest().kill()
                self.add()
            if time.time() - changed > LONGEST_S:
                raise RuntimeError(f"scrapy-redis stands still:\n{self._programs[0].complaint()}")
        hits = asked(site, since=known)
        over = next(spent for at, spent in samples if at > hits[-1].at + LOOK_EVERY_S)
        self.stop()
        return judged(site.spec, hits, self._items(), over)

    def stop(self) -> None:
        for program in self._programs:
            program.stop()

    def _busiest(self) -> Program:
        """The death of one that has nothing to do costs nothing."""
        return max(self._programs, key=lambda each: cpu_s({"all": each.tree()})["all"])

    def _waiting(self) -> bool:
        return self._server.execute("LLEN", "site:requests") != ":0"

    def _items(self) -> list[Item]:
        found = []
        for output in self._outputs:
            for line in output.read_bytes().splitlines() if output.exists() else ():
                with contextlib.suppress(msgspec.DecodeError):  # torn by `kill -9`
                    item = msgspec.json.decode(line)
                    found.append((item["title"], item["price"]))
        return found


@contextlib.contextmanager
def spiders(kind: str, folder: Path, *, processes: int, concurrency: int) -> Iterator[Spiders]:
    """Ready, and in any case gone at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with redis_server(fsync=False) as server:
        made = Spiders(kind, server, folder, concurrency=concurrency)
        try:
            for _ in range(processes):
                made.add()
            made.until_ready()
            yield made
        finally:
            made.stop()
