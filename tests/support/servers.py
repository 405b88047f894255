"""Real servers for tests, each private: own folder, own ports, gone at the end.

    with postgres_server() as server:
        store = from_url(server.url())
    with redis_server() as server:
        client = redis.asyncio.from_url(server.url())

A server dies with the process that started it, even by `kill -9`. Missing programs are an error
that names the Debian package; a test that needs a server must not be skipped without it.
"""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

START_S: Final = 20.0
STOP_S: Final = 20.0
WATCH: Final = 'read -r _; kill -QUIT "$0"'
"""Ends the server when the pipe from our process does: however that went."""
WATCH_REDIS: Final = 'read -r _; kill -KILL "$0"'
POSTGRES_FOLDERS: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/bin")
"""Where distributions hide the programs of the server, which are not on the path."""
DISK: Final = "/tmp"
MEMORY: Final = "/dev/shm"
MEMORY_BYTES: Final = 2 << 30
POSTGRES_SETTINGS: Final = {
    "max_connections": "50",
    "shared_buffers": "32MB",
    "autovacuum_naptime": "10s",
    "log_min_messages": "fatal",
}
REDIS_SETTINGS: Final = {
    "appendonly": "yes",
    "save": "",
    "daemonize": "no",
    "protected-mode": "yes",
    "bind": "127.0.0.1",
}
"""What is acknowledged is in the file of appended commands; there are no snapshots beside it."""


class ServerMissing(Exception):
    """A program that a test needs is not installed."""


def find_postgres() -> Path:
    """The folder with the programs of the newest PostgreSQL on this machine."""
    found = [
        path
        for pattern in POSTGRES_FOLDERS
        for path in Path("/").glob(pattern.removeprefix("/"))
        if (path / "initdb").exists()
    ]
    if on_path := shutil.which("initdb"):
        found.append(Path(on_path).resolve().parent)
    if not found:
        raise ServerMissing(
            "PostgreSQL's server is not installed (no initdb on the path nor in "
            f"{', '.join(POSTGRES_FOLDERS)}); on Debian: apt-get install postgresql"
        )
    return max(found, key=_version)


def _version(folder: Path) -> float:
    digits = "".join(each for each in folder.parent.name if each.isdigit() or each == ".")
    return float(digits) if digits.replace(".", "", 1).isdigit() else 0.0


class PostgresServer:
    """A PostgreSQL that can be stopped, killed and started again on the same rows and port.

    `url()` goes through a socket file and needs no password; `tcp_url()` needs one.
    """

    def __init__(
        self, folder: Path, *, fsync: bool = True, settings: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.port = _free_port()
        self.password = secrets.token_hex(8)
        self._programs = find_postgres()
        self._account = _unprivileged()
        self._settings = {**POSTGRES_SETTINGS, "fsync": "on" if fsync else "off"}
        if _version(self._programs) >= 14:
            # After a crash it makes sure of each of a thousand files, which takes seconds on a
            # busy disk, or of all at once.
            self._settings["recovery_init_sync_method"] = "syncfs"
        self._settings |= settings or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._create()

    def url(self, database: str = "postgres", **parameters: str) -> str:
        extra = "".join(f"&{name}={value}" for name, value in parameters.items())
        return f"postgresql://postgres@/{database}?host={self.folder}&port={self.port}{extra}"

    def tcp_url(
        self, database: str = "postgres", *, user: str = "postgres", password: str | None = None
    ) -> str:
        secret = self.password if password is None else password
        return f"postgresql://{user}:{secret}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start it, and wait until it takes connections (after a crash: until it has recovered)."""
        assert self._process is None, "the server runs already"
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data")]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                user=self._account.pw_uid if self._account else None,
                group=self._account.pw_gid if self._account else None,
                extra_groups=[] if self._account else None,
                process_group=0,  # Ctrl-C in a terminal is for the tests
            )
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCH, str(self._process.pid)],
            stdin=subprocess.PIPE,
            process_group=0,
        )
        deadline = time.monotonic() + START_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop("immediate")
                raise RuntimeError(f"PostgreSQL did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.01)

    def stop(self, mode: str = "fast") -> None:
        """As `pg_ctl stop -m MODE`: `fast` ends orderly, `immediate` as in a loss of power.

        May be called twice.
        """
        process, self._process = self._process, None
        if process is None:
            return
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
        process.send_signal({"fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode])
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(STOP_S)

    def restart(self, mode: str = "immediate") -> None:
        self.stop(mode)
        self.start()

    def pause(self) -> None:
        """Freeze every process of the server, as a machine that hangs; `resume` ends it."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def execute(self, sql: str, database: str = "postgres") -> list[tuple[str, ...]]:
        """The rows that `psql` prints for a statement, as text, behind everybody's back."""
        done = subprocess.run(
            [
                *(self._programs / "psql", "--no-psqlrc", "--quiet", "--tuples-only"),
                *("--no-align", "--field-separator=\t", "--set=ON_ERROR_STOP=1"),
                *("--dbname", self.url(database), "--command", sql),
            ],
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
        if done.returncode:
            raise RuntimeError(f"{sql}: {done.stderr.strip()}")
        return [tuple(line.split("\t")) for line in done.stdout.splitlines() if line]

    @property
    def log(self) -> Path:
        return self.folder / "postgres.log"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server does not run"
        return self._process.pid

    def _create(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        secret = self.folder / "password"
        secret.write_text(self.password)
        if self._account:
            for path in (self.folder, secret):
                os.chown(path, self._account.pw_uid, self._account.pw_gid)
        made = subprocess.run(
            [
                *(self._programs / "initdb", "--pgdata", self.folder / "data"),
                *("--username=postgres", f"--pwfile={secret}", "--encoding=UTF8"),
                *("--locale=C.UTF-8", "--auth-local=trust", "--auth-host=scram-sha-256"),
                *("--no-sync", "--no-instructions"),
            ],
            capture_output=True,
            check=False,
            text=True,
            cwd=self.folder,
            user=self._account.pw_uid if self._account else None,
            group=self._account.pw_gid if self._account else None,
            extra_groups=[] if self._account else None,
        )
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr.strip()}")
        self._settings |= {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }

    def _is_ready(self) -> bool:
        """The last line of the postmaster's file says so, sooner than a connection could."""
        with contextlib.suppress(OSError):
            lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
            mine = self._process is not None and lines[:1] == [str(self._process.pid)]
            return mine and len(lines) >= 8 and lines[7].strip() in ("ready", "standby")
        return False

    def _signal_all(self, number: int) -> None:
        # Each child of the postmaster makes a group of its own.
        children = subprocess.run(
            [shutil.which("pgrep") or "pgrep", "-P", str(self.pid)],
            capture_output=True,
            check=False,
            text=True,
        ).stdout.split()
        for pid in (self.pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


class RedisServer:
    """A Redis that can be stopped, killed, emptied and started again on the same keys and port.

    It appends every command to a file and, with `fsync`, makes sure of each before it answers.
    """

    def __init__(
        self, folder: Path, *, fsync: bool = True, settings: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.port = _free_port()
        self._program = shutil.which("redis-server")
        if self._program is None:
            raise ServerMissing(
                "Redis's server is not installed (no redis-server on the path); "
                "on Debian: apt-get install redis-server"
            )
        self._settings = {
            **REDIS_SETTINGS,
            "appendfsync": "always" if fsync else "everysec",
            "port": str(self.port),
            "dir": str(folder),
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    def url(self, database: int = 0) -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start it, and wait until it has read its file and takes commands."""
        assert self._process is None, "the server runs already"
        command = [str(self._program)]
        for name, value in self._settings.items():
            command += [f"--{name}", value]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                process_group=0,
            )
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCH_REDIS, str(self._process.pid)],
            stdin=subprocess.PIPE,
            process_group=0,
        )
        deadline = time.monotonic() + START_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop("immediate")
                raise RuntimeError(f"Redis did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.01)

    def stop(self, mode: str = "fast") -> None:
        """`fast` ends orderly, `immediate` as by `kill -9`. May be called twice."""
        process, self._process = self._process, None
        if process is None:
            return
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
        process.send_signal({"fast": signal.SIGTERM, "immediate": signal.SIGKILL}[mode])
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)

    def restart(self, mode: str = "immediate") -> None:
        self.stop(mode)
        self.start()

    def empty(self) -> None:
        """Come back without a single key, as from a lost disk."""
        self.stop("immediate")
        for path in self.folder.glob("appendonlydir/*"):
            path.unlink()
        self.start()

    def pause(self) -> None:
        """Freeze it, as a machine that hangs; `resume` ends it."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def execute(self, *words: str) -> str:
        """What the server answers to one command, as it goes over the line, behind everybody's
        back; a long answer is cut."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as line:
            parts = [word.encode() for word in words]
            line.sendall(b"*%d\r\n" % len(parts))
            line.sendall(b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
            return line.recv(1 << 16).decode(errors="replace").strip()

    @property
    def log(self) -> Path:
        return self.folder / "redis.log"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server does not run"
        return self._process.pid

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            return self.execute("PING") == "+PONG"
        return False


@contextlib.contextmanager
def redis_server(
    *, fsync: bool = True, settings: Mapping[str, str] | None = None
) -> Iterator[RedisServer]:
    """A running Redis, and in any case none at the end.

    Without `fsync` it is quicker and may lose what it acknowledged when the machine goes down.
    """
    with _folder("private-redis-", fsync=fsync) as folder:
        server = RedisServer(folder, fsync=fsync, settings=settings)
        with _running(server):
            yield server


@contextlib.contextmanager
def postgres_server(
    *, fsync: bool = True, settings: Mapping[str, str] | None = None
) -> Iterator[PostgresServer]:
    """A running PostgreSQL, and in any case none at the end; `fsync` as for Redis."""
    with _folder("private-postgres-", fsync=fsync) as folder:
        server = PostgresServer(folder, fsync=fsync, settings=settings)
        with _running(server):
            yield server


@contextlib.contextmanager
def _folder(prefix: str, *, fsync: bool) -> Iterator[Path]:
    # Not pytest's folder, where an unprivileged user cannot get in. The name is part of the
    # server's command line, by which other tests tell the processes of a fleet: not ours.
    with tempfile.TemporaryDirectory(
        prefix=prefix, dir=DISK if fsync else _quick_folder(), ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


@contextlib.contextmanager
def _running(server: PostgresServer | RedisServer) -> Iterator[None]:
    server.start()
    try:
        yield
    finally:
        server.stop("immediate")


def _quick_folder() -> str:
    """In memory, where there is room: a disk takes long to remove thousands of small files."""
    roomy = Path(MEMORY).is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES
    return MEMORY if roomy else DISK


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom to be instead of root, whom PostgreSQL refuses; `None` when that is not needed."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerMissing("PostgreSQL refuses to run as root, and there is no user `nobody`")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
