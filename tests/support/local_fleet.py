"""A real fleet in real processes, in a folder of its own, that can be killed piece by piece."""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil  # type: ignore[import-untyped]

from crawlfleet.client import Client
from crawlfleet.errors import CrawlfleetError

STOCK_SESSION: Final = {
    "CRAWLFLEET_SESSION_HEARTBEAT_INTERVAL_S": "3",
    "CRAWLFLEET_SESSION_TIMEOUT_S": "12",
}
"""crawlfleet's defaults; `LocalFleet` has shorter ones, for tests."""
ENDING_S: Final = 5.0
"""At the end of a test a fleet has so long to stop in order."""


class LocalFleet:
    """`crawlfleet up` as a user starts it."""

    def __init__(self, folder: Path, *, workers: int = 2, **settings: str) -> None:
        self.folder = folder
        self._workers = workers
        self._settings = settings
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.key = secrets.token_hex(32)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; returns at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("CRAWLFLEET_")
        }
        environment |= {
            "CRAWLFLEET_ADMIN_KEY": self.key,
            "CRAWLFLEET_SESSION_HEARTBEAT_INTERVAL_S": "0.5",
            "CRAWLFLEET_SESSION_TIMEOUT_S": "3",
            **self._settings,
        }
        command = [sys.executable, "-m", "crawlfleet", "up", "--port", str(self.port)]
        command += ["--data", str(self.folder), "--workers", str(self._workers)]
        with (self.folder / "up.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def processes(self, kind: str) -> list[psutil.Process]:
        """The fleet's processes of a kind: `all`, `master`, `worker` or `executor`."""
        assert self._process is not None
        try:
            top = psutil.Process(self._process.pid)
            family = [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []
        return family if kind == "all" else [each for each in family if _kind(each) == kind]

    def kill(self, kind: str) -> int:
        """`kill -9` of all processes of a kind at once; how many there were."""
        victims = self.processes(kind)
        for victim in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        if kind == "all":
            assert self._process is not None
            self._process.wait(10)
            psutil.wait_procs(victims, timeout=10)
        return len(victims)

    def stop(self) -> int:
        """Stop it as Ctrl-C does; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill("all")
            raise

    def end(self) -> None:
        """Stop what still runs: processes that end in order log the errors that they have kept.
        What has not ended soon is killed."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDING_S)
        self.kill("all")

    @property
    def join_token(self) -> str:
        """What a further worker joins with, once it has started."""
        return (self.folder / "join.key").read_text().strip()

    def client(self) -> Client:
        return Client(self.url, self.key, patience_s=0)

    async def until_ready(self, *, nodes: int = 0, within_s: float = 60.0) -> None:
        """Wait for the API, and for so many nodes to be online."""
        async with self.client() as client, asyncio.timeout(within_s):
            while True:
                with contextlib.suppress(CrawlfleetError):
                    totals = (await client.status()).totals
                    if totals.nodes.get("online", 0) >= nodes:
                        return
                await asyncio.sleep(0.05)

    async def until_done(self, tasks: int, *, within_s: float) -> dict[str, int]:
        """Wait until so many tasks have ended; the counts by state."""
        counts: dict[str, int] = {}
        async with self.client() as client, asyncio.timeout(within_s):
            while sum(counts.get(each, 0) for each in ("completed", "failed", "timeout")) < tasks:
                await asyncio.sleep(0.1)
                with contextlib.suppress(CrawlfleetError):
                    counts = (await client.status()).totals.tasks
        return counts

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask the store's file itself, behind everybody's back."""
        with contextlib.closing(
            sqlite3.connect(f"file:{self.folder / 'crawlfleet.db'}?mode=ro", uri=True)
        ) as connection:
            return connection.execute(sql).fetchall()


@contextlib.contextmanager
def running(fleet: LocalFleet) -> Iterator[LocalFleet]:
    """The fleet started, and in any case gone at the end."""
    fleet.start()
    try:
        yield fleet
    finally:
        fleet.end()
        time.sleep(0.05)


def _kind(process: psutil.Process) -> str:
    try:
        command, name = process.cmdline(), process.name()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return "gone"
    if "crawlfleet.sandbox.cell.forkserver_main" in command:
        return "executor" if name == "cell" else "sandbox"
    if "crawlfleet.worker.executor.main" in command:
        return "executor"
    # The word after `-m crawlfleet`; the leash that starts a process has it too.
    return command[command.index("crawlfleet") + 1] if "crawlfleet" in command else "other"


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
