"""The one place where implementations are chosen and put together.

The API server and the HTTP client are imported by those who need them; a crawl of one process
begins without this module (`crawl.local`).
"""

import asyncio
import contextlib
import shutil
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from crawlfleet import config, plugins
from crawlfleet.backends.bundle_folder import BundleFolder
from crawlfleet.backends.frontier.shelf import FolderShelf
from crawlfleet.backends.frontier.sqlite import stored_receipts
from crawlfleet.backends.ledger.memory import MemoryBook
from crawlfleet.backends.machine import Machine
from crawlfleet.backends.output_folder import OutputFolder
from crawlfleet.backends.sealing import KeySeal
from crawlfleet.backends.uv import UvInstall, find_uv
from crawlfleet.control.eventlog import EventLog
from crawlfleet.control.supervisor import ControlPlane
from crawlfleet.core import dividing
from crawlfleet.core.admission import AdmissionRules
from crawlfleet.core.egress import refused_by_lists
from crawlfleet.core.isolation import LABEL, RAW_TCP, allows_raw_tcp, choose
from crawlfleet.core.isolation import offered as isolation_offer
from crawlfleet.core.packing import ENCODINGS
from crawlfleet.core.rules import default_rules
from crawlfleet.crawl.garbage import look_seldom
from crawlfleet.crawl.sinks import name_of
from crawlfleet.crawl.suffixes import registrable
from crawlfleet.errors import ConfigError
from crawlfleet.listening import (
    address_of,
    certificate_of,
    check_exposure,
    listen,
    on_stop_signal,
    renewing,
)
from crawlfleet.model.bundle import CAPABILITY as BUNDLES_OFFERED
from crawlfleet.model.crawl import SinkSpec
from crawlfleet.model.key import Role
from crawlfleet.model.messages import PROTOCOL, Registration
from crawlfleet.model.secret import CAPABILITY as SECRETS_TAKEN
from crawlfleet.model.settings import ServerSettings, Settings, WorkerSettings
from crawlfleet.model.user_code import CommandParameters, ScrapyParameters
from crawlfleet.ports.archive import Archive
from crawlfleet.ports.courier import Courier
from crawlfleet.ports.frontier_server import FrontierServer
from crawlfleet.ports.ledger import LedgerBook
from crawlfleet.ports.lock import Locks
from crawlfleet.ports.store import Store
from crawlfleet.sandbox.opening import open_sandbox
from crawlfleet.sandbox.removal import remove
from crawlfleet.sinks.table import discard
from crawlfleet.telemetry import Component, logger
from crawlfleet.trust import Trust, check_trust, without_pin
from crawlfleet.worker.agent import Agent, AgentEnd
from crawlfleet.worker.confining import Masters
from crawlfleet.worker.health_endpoint import Nameplate, Place, answering
from crawlfleet.worker.identity import IdentityFile
from crawlfleet.worker.journal import ReportJournal
from crawlfleet.worker.open_files import allow_many
from crawlfleet.worker.pool import ProcessPool
from crawlfleet.worker.process import command_line
from crawlfleet.worker.usage import UsageMeter, measure_capacity
from crawlfleet.worker.workshop import workshop_of

if TYPE_CHECKING:
    from crawlfleet.client.transport import Transport

log = logger(Component.MASTER)
BUILT_IN_TASK_TYPES: Final = ("extract", "http_fetch", "python", "sleep", "web_crawl")
STOP_DEADLINE_S: Final = 3
FRONTIERS: Final = "frontiers"
"""The folder of crawls' frontiers, beside their output."""
BUNDLES: Final = "bundles"
"""The folder of the code that people hand over, beside them."""


def open_store(url: str) -> Store:
    """The store that a URL names: its scheme is the name of the entry point."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise ConfigError(f"store: {url!r} is not a URL; use one such as sqlite:///path/file.db")
    store: Store = plugins.load_one(plugins.STORES, scheme)(url)
    return store


def open_archive(url: str) -> Archive:
    """All rows of the store that a URL names, in bulk."""
    store = open_store(url)
    archive = getattr(store, "archive", None)
    if archive is None:
        raise ConfigError(f"store: {url.partition('://')[0]} stores cannot be backed up")
    opened: Archive = archive()
    return opened


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
    from crawlfleet.client.probe import HttpProber

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
        system=Machine(),
        settings=settings,
        rules=rules,
        admission=AdmissionRules(
            strategies=rules.strategies,
            parameter_types=_parameter_types(),
            divisions=dividing.WITHOUT_LEDGER if settings.ledger == "off" else dividing.RULES,
            registrable=registrable,
        ),
        sinks=[EventLog()],
        output=OutputFolder(config.output_dir(settings)),
        archives=BundleFolder(config.output_dir(settings) / BUNDLES),
        seal=KeySeal(
            config.data_dir(settings) / config.SECRETS_KEY_NAME,
            key=secrets_key,
        ),
        shelf=FolderShelf(config.output_dir(settings) / FRONTIERS),
        server=open_frontier_server(settings),
        locks=open_locks(settings),
        courier=open_courier(settings),
        ledger=open_ledger(settings),
        prober=HttpProber(timeout_s=settings.health.probe_timeout_s),
        origins=origins,
        name=name,
        disk_free=lambda: _disk_free(config.data_dir(settings)),
    )


def open_locks(settings: Settings) -> Locks:
    """The locks that the settings name: where they say, or beside the store."""
    url = settings.locks or config.store_url(settings)
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise ConfigError(f"locks: {url!r} is not a URL; use one such as redis://host:6379/0")
    if not settings.locks and (scheme == "sqlite" or scheme not in plugins.names(plugins.LOCKS)):
        url, scheme = f"sqlite:///{config.data_dir(settings) / config.LOCKS_NAME}", "sqlite"
    locks: Locks = plugins.load_one(plugins.LOCKS, scheme)(url)
    return locks


def open_courier(settings: Settings) -> Courier:
    """Who carries what webhooks are told: to web addresses, and to people as letters."""
    from crawlfleet.neighbours.couriers import Couriers
    from crawlfleet.neighbours.mail import MailCourier
    from crawlfleet.neighbours.post import HttpCourier

    web = HttpCourier(
        allow_private=settings.webhooks.allow_private, timeout_s=settings.webhooks.timeout_s
    )
    return Couriers({"http": web, "https": web, "mailto": MailCourier(settings.mail)})


def open_ledger(settings: Settings) -> LedgerBook | None:
    """Where the politeness of the whole fleet is kept; `None` where each crawl sees to its own."""
    scheme, separator, _ = settings.ledger.partition("://")
    if separator:
        book: LedgerBook = plugins.load_one(plugins.LEDGERS, scheme)(settings.ledger)
        return book
    if settings.ledger not in {"on", "off"}:
        raise ConfigError(
            f"ledger: {settings.ledger!r} is neither `on`, `off` nor a URL such as "
            "redis://host:6379/0"
        )
    if settings.ledger == "off":
        return None
    return MemoryBook(
        path=config.data_dir(settings) / config.PAUSES_NAME,
        is_alone=config.store_url(settings).startswith("sqlite:"),
    )


def open_frontier_server(settings: Settings) -> FrontierServer | None:
    """The server for frontiers that several nodes work on; `None` where the master keeps them."""
    url = settings.frontier
    if not url:
        return None
    if url.partition("://")[0] not in {"redis", "rediss"}:
        raise ConfigError(
            "frontier: this is not the URL of a Redis; use one such as redis://host:6379/0, or "
            "leave it empty"
        )
    try:
        from crawlfleet.backends.frontier.redis.server import RedisFrontiers
    except ImportError as error:
        raise ConfigError(
            f"frontier: Redis cannot be used here ({error}); pip install 'crawlfleet[redis]'"
        ) from error
    return RedisFrontiers(url)


async def discard_rows(specs: Sequence[SinkSpec], *, frontier: Path) -> None:
    """Remove from their tables what a crawl with that frontier wrote there."""
    receipts = await asyncio.to_thread(stored_receipts, frontier)
    for spec in specs:
        if spec.format == "table" and (receipt := receipts.get(name_of(spec))) is not None:
            await discard(spec, receipt)


async def serve_master(
    settings: Settings,
    *,
    admin_key: str,
    join_token: str | None,
    origins: Mapping[str, str] | None = None,
    secrets_key: str = "",
) -> None:
    """Run a master until SIGTERM or SIGINT; its API answers once it is ready."""
    import uvicorn

    from crawlfleet.api.app import create_app
    from crawlfleet.api.serving import BoundedHeaders, Server
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
        server = Server(
            uvicorn.Config(
                create_app(control, settings.server, pages=Dashboard()),
                log_config=None,
                access_log=False,
                # Whose word is taken for where a client is, is decided by `api.door`.
                proxy_headers=False,
                server_header=False,
                # In an answer it says what requests may be packed with (RFC 7694).
                headers=[("Accept-Encoding", ", ".join(ENCODINGS))],
                http=BoundedHeaders,
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


async def run_worker(
    settings: Settings, *, master_url: str | None, join_token: str, identity: Path
) -> AgentEnd:
    """Be a node of a master until drained, or told to stop by SIGTERM or SIGINT.

    `master_url` may name several masters, parted by commas; without one they are looked for on the
    local network. A node that has joined before needs no `join_token`.
    """
    from crawlfleet.client.link import HttpControlLink
    from crawlfleet.client.transport import Transport

    masters = Masters((master_url or "").split(","))
    allow_many(settings.worker.slots, settings.worker.sandbox.connections)
    sandbox = await open_sandbox(
        settings.worker.sandbox.level,
        choose=choose,
        judge=refused_by_lists,
        folder=identity.with_suffix(".cells"),
        hidden=(str(config.data_dir(settings)), str(identity)),
        raw_tcp=allows_raw_tcp(settings.worker.sandbox),
        spares=settings.worker.sandbox.spare_cells,
    )
    workshop = workshop_of(
        settings.worker,
        config.code_dir(settings),
        install=UvInstall(
            uv=find_uv(), timeout_s=settings.worker.install_timeout_s, leash=command_line
        ),
        remove=remove,
        sandbox=sandbox,
    )
    pool = ProcessPool(settings.worker, sandbox=sandbox, workshop=workshop, masters=masters)
    secret, pin = without_pin(join_token)
    kept = IdentityFile(identity, master_pin=pin)
    known = kept.load()
    # Whoever names an authority now may have given the master another key since the node joined.
    trust = _trust(settings.worker, pin if settings.worker.tls_ca else kept.master_pin)
    check_trust(trust, master_url)
    nameplate = Nameplate()
    async with (
        Transport(master_url or "", trust) as transport,
        _masters(master_url, transport, masters),
        answering(settings.worker, nameplate) as place,
    ):
        agent = Agent(
            link=HttpControlLink(
                transport,
                join_token=secret,
                node_token=known.node_token if known else "",
                keep=kept.save,
            ),
            pool=pool,
            identity=kept,
            system=Machine(),
            registration=await _registration(settings.worker, pool, place),
            measure=UsageMeter(folder=config.data_dir(settings)).read,
            leave_grace_s=settings.worker.leave_grace_s,
            nameplate=nameplate,
            stop_grace_s=settings.worker.stop_grace_s,
            long_poll_s=settings.session.long_poll_s,
            keeper=ReportJournal(
                identity.with_suffix(".reports"),
                most_bytes=int(settings.worker.report_buffer_mb * 1e6),
            ),
            log_bytes=int(settings.worker.execution_log_mb * 1e6),
            environments=None if workshop is None else workshop.environments,
        )
        try:
            with on_stop_signal(agent.stop):
                await agent.hand_in()
                await pool.prestart()
                look_seldom()
                return await agent.run()
        finally:
            await pool.close()


def _trust(settings: WorkerSettings, pin: str) -> Trust:
    return Trust(
        ca=settings.tls_ca,
        cert=settings.tls_cert,
        key=settings.tls_key,
        pin=pin,
        any_name=settings.discover,
    )


@contextlib.asynccontextmanager
async def _masters(
    master_url: str | None, transport: "Transport", closed: Masters
) -> AsyncIterator[None]:
    """Know where the masters are: as told, or as long as this is entered by looking for them."""
    if master_url is not None:
        yield
        return
    from crawlfleet.client.discovery import Discovery

    def use(addresses: Sequence[str]) -> None:
        closed.use(addresses)
        transport.use(addresses)

    async with Discovery(use) as discovery:
        await discovery.anybody()
        yield


@contextlib.asynccontextmanager
async def _announced(server: ServerSettings, port: int) -> AsyncIterator[None]:
    if not server.announce:
        yield
        return
    from crawlfleet.client.discovery import Announcement

    async with Announcement(server.host, port):
        yield


async def _registration(
    settings: WorkerSettings, pool: ProcessPool, place: Place | None
) -> Registration:
    offered = msgspec.structs.asdict(await measure_capacity(settings))
    isolation = pool.isolation
    return Registration(
        name=settings.name or socket.gethostname(),
        node_type=settings.node_type,
        region=settings.region,
        cluster_id=settings.cluster,
        labels=settings.labels | ({LABEL: str(isolation.level)} if isolation else {}),
        capabilities={
            **settings.capabilities,
            **(isolation_offer(isolation) if isolation else {}),
            **({RAW_TCP: True} if isolation and allows_raw_tcp(settings.sandbox) else {}),
            **({BUNDLES_OFFERED: True} if settings.bundles else {}),
            SECRETS_TAKEN: True,
        },
        resources={name: amount for name, amount in offered.items() if amount},
        task_types=pool.task_types,
        protocol=PROTOCOL,
        ip_address=place.address if place else "",
        port=place.port if place else 0,
        probe=place is not None,
    )


def _parameter_types() -> Mapping[str, type[msgspec.Struct]]:
    # Only our own: the control plane imports no user code.
    own = {
        name: plugins.load_one(plugins.EXECUTORS, name).Parameters for name in BUILT_IN_TASK_TYPES
    }
    return {**own, "command": CommandParameters, "scrapy_spider": ScrapyParameters}


def _disk_free(folder: Path) -> float | None:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return usage.free / usage.total if usage.total else None
