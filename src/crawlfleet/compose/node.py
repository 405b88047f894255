"""A node: its agent, its executors, and the way to its masters."""

import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from crawlfleet import config
from crawlfleet.adapters.machine import Machine
from crawlfleet.adapters.uv import UvInstall, find_uv
from crawlfleet.core.isolation import LABEL, choose
from crawlfleet.core.isolation import offered as isolation_offer
from crawlfleet.core.network.egress import refused_by_lists
from crawlfleet.crawl.engine.gc import look_seldom
from crawlfleet.model.bundle import CAPABILITY as BUNDLES_OFFERED
from crawlfleet.model.secret import CAPABILITY as SECRETS_TAKEN
from crawlfleet.model.settings import Settings, WorkerSettings
from crawlfleet.model.wire.node_protocol import PROTOCOL, Registration
from crawlfleet.sandbox.launcher import open_sandbox
from crawlfleet.sandbox.removal import remove
from crawlfleet.stop_signals import on_stop_signal
from crawlfleet.tls import Trust, check_trust, without_pin
from crawlfleet.worker.agent import Agent, AgentEnd
from crawlfleet.worker.health_endpoint import HealthAddress, HealthInfo, answering
from crawlfleet.worker.identity import IdentityFile
from crawlfleet.worker.machine import UsageMeter, measure_capacity
from crawlfleet.worker.open_files import allow_many
from crawlfleet.worker.pool.confinement import Masters
from crawlfleet.worker.pool.pool import ProcessPool
from crawlfleet.worker.pool.process import command_line
from crawlfleet.worker.pool.workspace import workshop_of
from crawlfleet.worker.report_journal import ReportJournal

if TYPE_CHECKING:
    from crawlfleet.client.http.transport import Transport


async def run_worker(
    settings: Settings, *, master_url: str | None, join_token: str, identity: Path
) -> AgentEnd:
    """Run a worker node of a master until it is drained or a stop signal arrives.

    `master_url` may name several masters, separated by commas; without one the node looks for
    masters on the local network. A node that has joined before needs no `join_token`.
    """
    from crawlfleet.client.http.transport import Transport
    from crawlfleet.client.node_link import HttpControlLink

    settings = _with_sinks_dir(settings)
    masters = Masters((master_url or "").split(","))
    confined = settings.worker.sandbox
    allow_many(settings.worker.slots, confined.connections, confined.spare_cells)
    sandbox = await open_sandbox(
        confined.level,
        choose=choose,
        check_egress=refused_by_lists,
        folder=identity.with_suffix(".cells"),
        hidden=(str(config.data_dir(settings)), str(identity)),
        spare_cells=confined.spare_cells,
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
    health_info = HealthInfo()
    async with (
        Transport(master_url or "", trust) as transport,
        _masters(master_url, transport, masters),
        answering(settings.worker, health_info) as place,
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
            health_info=health_info,
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


def _with_sinks_dir(settings: Settings) -> Settings:
    """The settings with the folder for sinks of tasks, which is made if need be."""
    folder = config.sinks_dir(settings)
    with contextlib.suppress(OSError):  # the first task that writes there will be told
        folder.mkdir(0o700, exist_ok=True)
    worker = msgspec.structs.replace(settings.worker, sinks_dir=str(folder))
    return msgspec.structs.replace(settings, worker=worker)


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
    """Keep the transport's masters up to date while the block is entered, by discovery; with a
    `master_url`, do nothing.
    """
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


async def _registration(
    settings: WorkerSettings, pool: ProcessPool, place: HealthAddress | None
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
