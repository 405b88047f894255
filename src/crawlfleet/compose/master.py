"""A master: a control plane, and the API through which it is reached."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from crawlfleet import config, plugins
from crawlfleet.adapters.files.bundles import BundleFolder
from crawlfleet.adapters.files.output import OutputFolder
from crawlfleet.adapters.frontier.folder import FolderShelf
from crawlfleet.adapters.machine import Machine
from crawlfleet.adapters.seal import KeySeal
from crawlfleet.compose.by_url import (
    open_frontier_server,
    open_ledger,
    open_locks,
    open_sender,
    open_store,
)
from crawlfleet.control.events.log_sink import EventLog
from crawlfleet.control.openings import Adapters
from crawlfleet.core.network.compression import ENCODINGS
from crawlfleet.core.placement.rules import default_rules
from crawlfleet.core.tasks import split
from crawlfleet.core.tasks.admission import AdmissionRules
from crawlfleet.crawl.engine.gc import look_seldom
from crawlfleet.crawl.public_suffixes import registrable
from crawlfleet.errors import ConfigError, FieldProblem
from crawlfleet.listening import (
    address_of,
    certificate_of,
    check_exposure,
    listen,
    renewing,
)
from crawlfleet.master import ControlPlane
from crawlfleet.model.crawl.user_code import CommandParameters, ScrapyParameters
from crawlfleet.model.key import Role
from crawlfleet.model.settings import ServerSettings, Settings
from crawlfleet.ports.store import Store
from crawlfleet.stop_signals import on_stop_signal

BUILT_IN_TASK_TYPES: Final = ("extract", "http_fetch", "python", "sleep", "web_crawl")
STOP_DEADLINE_S: Final = 3


def control_plane(
    settings: Settings,
    store: Store,
    *,
    origins: Mapping[str, str] | None = None,
    name: str = "master",
    secrets_key: str = "",
) -> ControlPlane:
    """A control plane over a store, with all strategies and filters that are installed. Secrets
    are sealed with `secrets_key`, or with a key of its own in the data folder."""
    from crawlfleet.client.health_probe import HttpProber

    rules = default_rules(
        default_strategy=settings.dispatch.default_strategy,
        strategies=plugins.load(plugins.STRATEGIES),
        filters=plugins.load(plugins.FILTERS),
        ageing_s=settings.dispatch.ageing_s,
    )
    if rules.default_strategy not in rules.strategies:
        raise ConfigError(
            f"dispatch.default_strategy: {rules.default_strategy!r} is not a strategy; "
            f"use one of {', '.join(sorted(rules.strategies))}"
        )
    return ControlPlane(
        store=store,
        # Several masters compare what they write down, and have only their clocks for that.
        system=Machine(steady=config.store_url(settings).startswith("sqlite:")),
        settings=settings,
        rules=rules,
        admission=AdmissionRules(
            strategies=rules.strategies,
            parameter_types=_parameter_types(),
            parameter_checks=_parameter_checks(),
            divisions=split.WITHOUT_LEDGER if settings.ledger == "off" else split.RULES,
            registrable=registrable,
        ),
        sinks=[EventLog()],
        adapters=Adapters(
            output=OutputFolder(config.output_dir(settings)),
            archives=BundleFolder(config.output_dir(settings) / config.BUNDLES_NAME),
            seal=KeySeal(
                config.data_dir(settings) / config.SECRETS_KEY_NAME,
                key=secrets_key,
            ),
            shelf=FolderShelf(config.output_dir(settings) / config.FRONTIERS_NAME),
            server=open_frontier_server(settings),
            locks=open_locks(settings),
            sender=open_sender(settings),
            ledger=open_ledger(settings),
            prober=HttpProber(timeout_s=settings.health.probe_timeout_s),
            disk_free=lambda: _disk_free(config.data_dir(settings)),
        ),
        origins=origins,
        name=name,
    )


async def serve_master(
    settings: Settings,
    *,
    admin_key: str,
    join_token: str | None,
    origins: Mapping[str, str] | None = None,
    secrets_key: str = "",
) -> None:
    """Run a master until it is asked to end; its API answers once it is ready.

    With a certificate, SIGHUP does not end it: it has the certificate read again.
    """
    import uvicorn

    from crawlfleet.api.app import create_app
    from crawlfleet.api.http.serving import ApiServer, TrackedConnection
    from crawlfleet.dashboard import Dashboard

    check_exposure(settings.server)
    certificate = certificate_of(settings.server)
    listening = listen(settings.server.host, settings.server.port)
    store = open_store(config.store_url(settings))
    name = address_of(settings.server, listening.getsockname()[1])
    async with control_plane(
        settings, store, origins=origins, name=name, secrets_key=secrets_key
    ) as control:
        await control.keys.ensure(admin_key, name="admin", role=Role.ADMIN)
        if join_token is not None:
            await control.keys.ensure(join_token, name="join", role=Role.NODE)
        server = ApiServer(
            uvicorn.Config(
                create_app(control.services, settings.server, pages=Dashboard()),
                log_config=None,
                access_log=False,
                # `api.http.authentication` decides which proxies may name a client's address.
                proxy_headers=False,
                server_header=False,
                # In an answer it says what requests may be packed with (RFC 7694).
                headers=[("Accept-Encoding", ", ".join(ENCODINGS))],
                http=TrackedConnection,
                ws="none",
                lifespan="off",
                timeout_graceful_shutdown=STOP_DEADLINE_S,
                ssl_context_factory=(lambda *_: certificate.context) if certificate else None,
            )
        )

        def stop() -> None:
            control.dismiss()
            server.should_exit = True

        look_seldom()
        with on_stop_signal(stop), renewing(certificate):
            watching = asyncio.create_task(control.watch(), name="watch")
            # A control plane that fails takes the server with it: the process starts anew.
            watching.add_done_callback(lambda _: stop())
            async with _announced(settings.server, listening.getsockname()[1]):
                await server.serve(sockets=[listening])
        if watching.done():
            watching.result()
        watching.cancel()


@contextlib.asynccontextmanager
async def _announced(server: ServerSettings, port: int) -> AsyncIterator[None]:
    if not server.announce:
        yield
        return
    from crawlfleet.client.discovery import Announcement

    async with Announcement(server.host, port):
        yield


def _own_executors() -> Mapping[str, Any]:
    """Return the built-in executors only: the control plane imports no user code."""
    return {name: plugins.load_one(plugins.EXECUTORS, name) for name in BUILT_IN_TASK_TYPES}


def _parameter_types() -> Mapping[str, type[msgspec.Struct]]:
    own = {name: each.Parameters for name, each in _own_executors().items()}
    return {**own, "command": CommandParameters, "scrapy_spider": ScrapyParameters}


def _parameter_checks() -> Mapping[str, Callable[[Any], Iterable[FieldProblem]]]:
    own = _own_executors().items()
    return {name: each.problems for name, each in own if hasattr(each, "problems")}


def _disk_free(folder: Path) -> float | None:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return usage.free / usage.total if usage.total else None
