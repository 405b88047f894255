"""`up`: starts the master and the workers as processes of their own, and starts them again.

The launcher itself does no work, so there is little in it that could fail. It restarts what died,
with a growing pause; a worker that was drained is not restarted. When the launcher dies, even by
`kill -9`, the kernel ends all that it started.
"""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Final

import typer
from rich.console import Console
from rich.text import Text

from crawlfleet import config
from crawlfleet.cli.fleet.credentials import admin_key, join_token
from crawlfleet.cli.fleet.demo import Demo
from crawlfleet.cli.fleet.ports import taken
from crawlfleet.cli.fleet.status_table import LiveTable
from crawlfleet.cli.shell.browser import show
from crawlfleet.cli.shell.connection import (
    SavedConnection,
    remove_connection,
    way_to_own,
    write_connection,
)
from crawlfleet.cli.shell.errors import FAILED, report
from crawlfleet.client import Client
from crawlfleet.errors import CrawlfleetError, MasterUnreachable, Unauthenticated
from crawlfleet.event_loop import alongside
from crawlfleet.model.settings import Settings
from crawlfleet.private_file import hold
from crawlfleet.stop_signals import on_stop_signal
from crawlfleet.testing.demo_shop import ServedShop
from crawlfleet.tls import with_pin
from crawlfleet.worker import parent_watch

FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 5.0
HEALTHY_AFTER_S: Final = 10.0
STOP_DEADLINE_S: Final = 10.0
READY_DEADLINE_S: Final = 30.0
MAX_FAILED_STARTS: Final = 3
"""A master that ends so often before it was ever ready will not come up by itself."""


class Launcher:
    """A fleet on one machine, for as long as `run` runs."""

    def __init__(
        self, settings: Settings, flags: list[str], *, demo: bool, opens: bool = False
    ) -> None:
        """`opens` shows the dashboard in a browser, where there is one."""
        self._settings = settings
        self._folder = config.data_dir(settings)
        self._port = settings.server.port or _free_port(settings.server.host)
        way = way_to_own(settings, port=self._port, key="")
        self._url, self._trust, self._pin = way.url, way.trust, way.trust.pin
        self._flags = [*flags, "--data", str(self._folder)]
        self._demo = demo
        self._opens = opens
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._failed_starts = 0
        self._stop = asyncio.Event()
        self._console = Console(stderr=True)

    async def run(self) -> int:
        """Run the fleet until a signal, or until the demo is done; the exit code."""
        busy = f"a fleet is already running on {self._folder}; stop it, or choose another --data"
        with hold(self._folder / "up.lock", busy=busy), on_stop_signal(self._stop.set):
            return await self._run_alone()

    async def _run_alone(self) -> int:
        # Told at once: a master that cannot listen would be started again and again.
        if trouble := taken(self._settings.server.host, self._port):
            raise CrawlfleetError(f"{trouble.why}; {trouble.remedy}")
        key = admin_key(self._folder)
        keepers = [asyncio.create_task(self._keep("master", self._master_command(), key))]
        try:
            async with Client(self._url, key, patience_s=0, trust=self._trust) as client:
                if sys.stdout.isatty():
                    self._console.print("starting a fleet", style="dim")
                await self._until_ready(client)
                way = SavedConnection(url=self._url, key=key, pid=os.getpid(), trust=self._trust)
                write_connection(self._folder, way)
                await self._welcome(client)
                keepers += [
                    asyncio.create_task(
                        self._keep(f"worker-{number}", self._worker_command(number), key)
                    )
                    for number in range(1, self._settings.workers + 1)
                ]
                return await self._attend(client)
        finally:
            remove_connection(self._folder)
            await self._end(keepers)

    async def _welcome(self, client: Client) -> None:
        """Say where the dashboard is, with a link that signs in."""
        try:
            # Behind the #, so that the link is sent to no server and stands in no server's log.
            link = self._url + (await client.create_session_link()).path
            note = f"the link is good once, for 10 minutes; `{self._opening}` makes another"
        except MasterUnreachable:
            link, note = self._url, f"`{self._opening}` makes a link that signs in"
        typer.echo(f"crawlfleet is up: {link}")
        typer.echo(note)
        if self._demo and not sys.stdout.isatty():
            typer.echo(f"data in {self._folder}; without a terminal it ends when the demo is done")
        else:
            typer.echo(f"data in {self._folder}; stop with Ctrl-C")
        if self._opens:
            await show(link)

    @property
    def _opening(self) -> str:
        """The command that opens this fleet's dashboard."""
        usual = config.data_dir(Settings())
        return "crawlfleet open" + ("" if self._folder == usual else f" --data {self._folder}")

    async def _attend(self, client: Client) -> int:
        """Show the fleet until a stop is requested; without a terminal a demo ends by itself."""
        terminal = sys.stdout.isatty()
        watched = alongside(LiveTable(client).run(), name="table") if terminal else nullcontext()
        async with watched:
            code = await self._show(client, terminal=terminal) if self._demo else 0
            await self._stop.wait()
        return code

    async def _show(self, client: Client, *, terminal: bool) -> int:
        """Run the demo with its shop, which stays open for as long as people look."""
        with ServedShop() as shop:
            typer.echo(f"demo shop: {shop.url}")
            demo = asyncio.create_task(Demo(client, shop.url).run(quiet=terminal))
            stop = asyncio.create_task(self._stop.wait())
            try:
                await asyncio.wait({demo, stop}, return_when=asyncio.FIRST_COMPLETED)
                if not terminal:
                    typer.echo("the demo is done; stopping")
                    self._stop.set()
                code = self._code_of(demo) if demo.done() else 0
                await stop
                return 0 if terminal else code
            finally:
                demo.cancel()
                stop.cancel()

    def _code_of(self, demo: asyncio.Task[int]) -> int:
        """Return the exit code of the demo, and report its error if it failed."""
        try:
            return demo.result()
        except CrawlfleetError as error:
            report(error, "demo")
            return FAILED

    async def _keep(self, name: str, command: list[str], key: str) -> None:
        """Restart a process until the fleet stops, or a worker exits with 0."""
        pause = FIRST_PAUSE_S
        loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            begun = loop.time()
            try:
                process = await self._start(name, command, key)
            except OSError as error:
                told = f"{name} cannot be started ({error}); trying again"
            else:
                code = await process.wait()
                if self._stop.is_set() or (code == 0 and name != "master"):
                    return
                told = f"{name} ended with {code}; starting it again"
            self._failed_starts += 1
            pause = FIRST_PAUSE_S if loop.time() - begun > HEALTHY_AFTER_S else pause
            self._console.print(Text(told, style="yellow"))
            await asyncio.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_S)

    async def _start(self, name: str, command: list[str], key: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", parent_watch.__file__, str(os.getpid())),
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL if sys.stdout.isatty() else None,
            env=self._environment(name, key),
            # Ctrl-C reaches the launcher alone, which stops the others in order.
            start_new_session=True,
        )
        self._processes[name] = process
        return process

    def _environment(self, name: str, key: str) -> Mapping[str, str]:
        joining = join_token(self._folder)
        environment = {**os.environ, "CRAWLFLEET_JOIN_TOKEN": with_pin(joining, self._pin)}
        environment.pop("CRAWLFLEET_ADMIN_KEY", None)
        if name != "master":
            environment.pop("CRAWLFLEET_SECRETS_KEY", None)
        if name == "master":
            environment["CRAWLFLEET_ADMIN_KEY"] = key
            environment["CRAWLFLEET_JOIN_TOKEN"] = joining
        elif self._demo:
            # The shop of the demo is on the loopback, which workers do not visit otherwise.
            environment["CRAWLFLEET_WORKER_ALLOW_PRIVATE"] = "true"
        return environment

    def _master_command(self) -> list[str]:
        server = self._settings.server
        listen = ["--host", server.host, "--port", str(self._port)]
        listen += ["--tls-cert", server.tls_cert] if server.tls_cert else []
        listen += ["--tls-key", server.tls_key] if server.tls_key else []
        listen += ["--plain-http"] if server.plain_http else []
        return [sys.executable, "-m", "crawlfleet", "master", *listen, *self._flags]

    def _worker_command(self, number: int) -> list[str]:
        name = self._settings.worker.name or socket.gethostname()
        me = ["--master", self._url, "--name", f"{name}-{number}"]
        return [sys.executable, "-m", "crawlfleet", "worker", *me, *self._flags]

    async def _until_ready(self, client: Client) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_DEADLINE_S
        while not self._stop.is_set():
            try:
                await client.status()
            except Unauthenticated as error:
                raise CrawlfleetError(
                    f"another master already answers at {self._url}; stop it, "
                    "or choose another port with --port"
                ) from error
            except MasterUnreachable:
                pass
            else:
                return
            if self._failed_starts >= MAX_FAILED_STARTS or loop.time() > deadline:
                raise CrawlfleetError(
                    f"the master does not start; see above and {self._folder / 'logs'}"
                )
            await asyncio.sleep(0.05)

    async def _end(self, keepers: list[asyncio.Task[None]]) -> None:
        """End the workers first, so that they can return their tasks; then the master."""
        self._stop.set()
        workers = [name for name in self._processes if name != "master"]
        await self._terminate(workers)
        await self._terminate(["master"])
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)

    async def _terminate(self, names: list[str]) -> None:
        processes = [self._processes[name] for name in names if name in self._processes]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        try:
            async with asyncio.timeout(STOP_DEADLINE_S):
                await asyncio.gather(*(process.wait() for process in processes))
        except TimeoutError:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
