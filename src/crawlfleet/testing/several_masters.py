"""Several masters and workers on one store, each a process that can be killed by itself."""

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from crawlfleet.client import Client
from crawlfleet.errors import CrawlfleetError
from crawlfleet.testing.local_fleet import free_port


class SeveralMasters:
    """Masters `master-1` … and workers `worker-1` …, which know all masters."""

    def __init__(
        self, folder: Path, *, store: str, masters: int = 2, workers: int = 2, **settings: str
    ) -> None:
        self._folder = folder
        self.urls = {
            f"master-{number}": f"http://127.0.0.1:{free_port()}"
            for number in range(1, masters + 1)
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

    def start(self, name: str) -> None:
        """Start a master or a worker; returns at once."""
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        if name in self.urls:
            port = self.urls[name].rpartition(":")[2]
            command = ["master", "--port", port, "--data", str(folder)]
        else:
            # Each begins with another master.
            first = self.workers.index(name) % len(self.urls)
            urls = [*self.urls.values()]
            masters = [flag for url in urls[first:] + urls[:first] for flag in ("--master", url)]
            command = ["worker", *masters, "--name", name, "--data", str(folder)]
        with (folder / "output.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(  # noqa: S603 (our own program)
                [sys.executable, "-m", "crawlfleet", *command],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

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

    def is_running(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is None

    def client(self, *names: str) -> Client:
        """A client of these masters, or of all."""
        return Client(",".join(self.urls[name] for name in names or self.urls), self._key)

    async def leader(self, *, other_than: str = "", within_s: float = 180.0) -> str:
        """Wait until a master says that it leads; its name."""
        async with asyncio.timeout(within_s):
            while True:
                for name in self.urls:
                    if name == other_than or not self.is_running(name):
                        continue
                    with contextlib.suppress(CrawlfleetError, TimeoutError):
                        async with self.client(name) as client, asyncio.timeout(1.0):
                            if (await client.status()).leader:
                                return name
                await asyncio.sleep(0.02)

    async def until_ready(self, name: str, *, nodes: int = 0, within_s: float = 180.0) -> None:
        """Wait until a master answers, and knows so many nodes that are online."""
        async with self.client(name) as client, asyncio.timeout(within_s):
            while True:
                with contextlib.suppress(CrawlfleetError):
                    if (await client.status()).totals.nodes.get("online", 0) >= nodes:
                        return
                await asyncio.sleep(0.05)

    def end(self) -> None:
        """End whatever still runs. May be called twice."""
        for name in [*self._processes]:
            if self.is_running(name):
                self.kill(name)


@contextlib.contextmanager
def running_all(fleet: SeveralMasters) -> Iterator[SeveralMasters]:
    """All masters and workers started, and in any case gone at the end."""
    try:
        for name in (*fleet.urls, *fleet.workers):
            fleet.start(name)
        yield fleet
    finally:
        fleet.end()
