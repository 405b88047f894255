"""Peers and servers of this benchmark: `python -m bench.tasks.setup` gets them ready.

Nothing here is a dependency of crawlfleet. The peers go into a venv of their own below `.bench/`;
servers are those of the machine, installed from Debian when we may, and started on private ports
in temporary folders. What cannot be had is a `Missing` with the reason, and is not measured.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from tests.support.servers import PostgresServer, ServerMissing, find_postgres, postgres_server

from bench.peers import FOLDER, Missing, prepare
from bench.tasks.processes import Program, free_port

VENV: Final = FOLDER / "peers"
PACKAGES: Final = (
    "celery==5.7.0",
    "dramatiq==2.2.1",
    "hiredis==3.5.0",
    "huey==3.5.4",
    "procrastinate==3.10.0",
    "psycopg[binary]==3.3.8",
    "redis==8.1.0",
)
REDIS_SETTINGS: Final = {"appendonly": "yes", "save": ""}
"""The append-only file, and no snapshots beside it."""
POSTGRES_SETTINGS: Final = {"shared_buffers": "128MB", "autovacuum_naptime": "1min"}
"""The stock values, in place of the small ones that are used for tests."""
START_S: Final = 10.0


def prepare_peers() -> dict[str, str]:
    """Install the peers if need be; their versions. Raises `Missing`."""
    return prepare(VENV, PACKAGES)


def find_redis() -> str:
    """The path of `redis-server`. Raises `Missing`."""
    if not shutil.which("redis-server"):
        _apt("redis-server")
    found = shutil.which("redis-server")
    if not found:
        raise Missing("redis-server is not installed; on Debian: apt-get install redis-server")
    return found


@contextlib.contextmanager
def redis_server(folder: Path, *, appendfsync: str) -> Iterator[tuple[Program, str]]:
    """A new Redis and its URL, gone at the end."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    command = [find_redis(), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    for name, value in {**REDIS_SETTINGS, "appendfsync": appendfsync}.items():
        command += [f"--{name}", value]
    program = Program(command, folder=folder)
    try:
        deadline = time.monotonic() + START_S
        while "Ready to accept" not in program.complaint():
            if program.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Redis does not start:\n{program.complaint()}")
            time.sleep(0.02)
        yield program, f"redis://127.0.0.1:{port}/0"
    finally:
        program.kill()


@contextlib.contextmanager
def postgres() -> Iterator[PostgresServer]:
    """A new PostgreSQL with fsync, gone at the end. Raises `Missing`."""
    try:
        find_postgres()
    except ServerMissing:
        _apt("postgresql")
    try:
        find_postgres()
    except ServerMissing as error:
        raise Missing(str(error)) from error
    with postgres_server(settings=POSTGRES_SETTINGS) as server:
        yield server


def _apt(package: str) -> None:
    """Try to install a Debian package, without starting the service that comes with it."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", package]):
        subprocess.run(
            ["apt-get", "--quiet=2", *arguments], env=environment, capture_output=True, check=False
        )


def main() -> None:
    console = Console()
    for package, version in prepare_peers().items():
        console.print(f"{package} {version} in {VENV}")
    console.print(f"Redis: {find_redis()}")
    with postgres() as server:
        console.print(f"PostgreSQL: {server.execute('SHOW server_version')[0][0]}")


if __name__ == "__main__":
    main()
