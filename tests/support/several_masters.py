"""Several masters and workers on one store, each a process that can be killed by itself."""

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]

from crawlfleet.client import Client
from crawlfleet.errors import CrawlfleetError
from tests.support.local_fleet import ENDING_S, free_port

LAST_WORDS: Final = 5_000
"""So many characters of a log are printed after a failure."""


class SeveralMasters:
    """Masters `master-1` … and workers `worker-1` …, which know all masters."""

    def __init__(
        self,
        folder: Path,
        *,
        store: str,
        masters: int = 2,
        workers: int = 2,
        host: str = "127.0.0.1",
        **settings: str,
    ) -> None:
        self._folder = folder
        self.urls = {
            f"master-{number}": f"http://{host}:{free_port()}" for number in range(1, masters + 1)
        }
        self.workers = [f"worker-{number}" for number in range(1, workers + 1)]
        self._key = secrets.token_hex(32)
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("CRAWLFLEET_")
        }
        self._environment |= {
            "CRAWLFLEET_ADMIN_KEY": self._key,
            "CRAWLFLEET_JOIN_TOKEN": secrets.token_hex(32),
            "CRAWLFLEET_STORE": store,
            "CRAWLFLEET_SESSION_HEARTBEAT_INTERVAL_S": "0.5",
            "CRAWLFLEET_SESSION_TIMEOUT_S": "4",
            **settings,
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self,
        name: str,
        *,
        within: Sequence[str] = (),
        masters: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start a master or a worker; returns at once.

        `within` is a program that starts it somewhere else, such as `ip netns exec x`; `masters`
        are the addresses that a worker knows, if not those of all masters.
        """
        folder = self.folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        if name in self.urls:
            host, _, port = self.urls[name].partition("//")[2].rpartition(":")
            command = ["master", "--host", host, "--port", port, "--data", str(folder)]
            command += ["--plain-http"]
        else:
            urls = masters or self._masters_of(name)
            flags = [flag for url in urls for flag in ("--master", url)]
            command = ["worker", *flags, "--name", name, "--data", str(folder)]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*within, sys.executable, "-m", "crawlfleet", *command],
                env={**self._environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def folder(self, name: str) -> Path:
        """Where a master or a worker keeps its things."""
        return self._folder / name

    def log(self, name: str) -> str:
        """What it has said so far."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def _masters_of(self, worker: str) -> list[str]:
        """All masters; each worker begins with another."""
        first = self.workers.index(worker) % len(self.urls)
        urls = [*self.urls.values()]
        return urls[first:] + urls[:first]

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to a process, by default `kill -9`; waits for the end of one killed."""
        process = self._processes[name]
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            process.wait(30)
            for child in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()

    def process(self, name: str) -> psutil.Process:
        """The process of that name, to look at or to be sent signals."""
        return psutil.Process(self._processes[name].pid)

    def is_running(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is None

    def client(self, *names: str) -> Client:
        """A client of these masters, or of all."""
        return Client(",".join(self.urls[name] for name in names or self.urls), self._key)

    def client_at(self, url: str) -> Client:
        """A client that speaks to a master by another address."""
        return Client(url, self._key)

    async def leader(self, *, other_than: str = "", within_s: float = 180.0) -> str:
        """Wait until a master says that it leads; its name."""
        async with asyncio.timeout(within_s):
            while True:
                for name in self.urls:
                    if name == other_than or not self.is_running(name):
                        continue
                    with contextlib.suppress(CrawlfleetError, TimeoutError):
                        async with self.client(name) as client, asyncio.timeout(5.0):
                            if (await client.status()).leader:
                                return name
                await asyncio.sleep(0.1)

    async def until_ready(self, name: str, *, nodes: int = 0, within_s: float = 180.0) -> None:
        """Wait until a master answers, and knows so many nodes that are online."""
        async with self.client(name) as client, asyncio.timeout(within_s):
            while True:
                with contextlib.suppress(CrawlfleetError):
                    if (await client.status()).totals.nodes.get("online", 0) >= nodes:
                        return
                await asyncio.sleep(0.05)

    def end(self) -> None:
        """End whatever still runs, in order if that is soon done: then it logs the errors that it
        has kept. May be called twice."""
        alive = [process for process in self._processes.values() if process.poll() is None]
        for process in alive:
            process.send_signal(signal.SIGTERM)
        until = time.monotonic() + ENDING_S
        for process in alive:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(until - time.monotonic(), 0.0))
        for name in [*self._processes]:
            if self.is_running(name):
                self.kill(name)


@contextlib.contextmanager
def running_all(fleet: SeveralMasters, *, but: str = "") -> Iterator[SeveralMasters]:
    """All masters and workers started, but perhaps for one; in any case gone at the end.

    When something goes wrong meanwhile, the last of what each has said is printed.
    """
    try:
        for name in (*fleet.urls, *fleet.workers):
            if name != but:
                fleet.start(name)
        yield fleet
    except BaseException:
        for name in (*fleet.urls, *fleet.workers):
            if name != but:
                state = "runs" if fleet.is_running(name) else "has ended"
                last = fleet.log(name)[-LAST_WORDS:]
                sys.stdout.write(f"--- {name} {state}; it said last:\n{last}\n")
        raise
    finally:
        fleet.end()
