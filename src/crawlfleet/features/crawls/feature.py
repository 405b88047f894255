"""Crawls as a feature of the master."""

from contextlib import AsyncExitStack

from crawlfleet.control.kernel import Kernel
from crawlfleet.control.openings import Adapters, Feature, Loop
from crawlfleet.features.crawls.frontiers import Frontiers
from crawlfleet.features.crawls.ledger import LedgerService
from crawlfleet.features.crawls.locks import LockService
from crawlfleet.features.crawls.remote_frontiers import remote_frontiers_on
from crawlfleet.features.crawls.service import Crawls
from crawlfleet.features.crawls.work import CrawlWorkers
from crawlfleet.model.wire import services
from crawlfleet.model.wire.locks import LockRequest
from crawlfleet.model.wire.output import SegmentUpload
from crawlfleet.model.wire.politeness import LedgerRequest


def crawls(kernel: Kernel, adapters: Adapters) -> Feature:
    """The frontiers, the politeness and the output of crawls."""
    store, state, system = kernel.store, kernel.state, kernel.system
    remote = remote_frontiers_on(
        adapters.shelf,
        store=store,
        state=state,
        system=system,
        server=adapters.server,
        output=adapters.output,
    )
    frontiers = Frontiers(state=state, shelf=adapters.shelf, remote=remote)
    service = Crawls(
        store=store,
        state=state,
        system=system,
        tasks=kernel.tasks,
        execution_orders=kernel.execution_orders,
        frontiers=frontiers,
        output=adapters.output,
    )
    locks = LockService(adapters.locks)
    ledger = LedgerService(state=state, book=adapters.ledger)
    workers = CrawlWorkers(
        store=store, state=state, crawls=service, frontiers=frontiers, ledger=ledger
    )
    register = kernel.node_services.register
    register(services.OUTPUT, service.store_segment, payload=SegmentUpload)
    register(services.FRONTIER, frontiers.answer)
    register(services.LOCKS, locks.answer, payload=LockRequest)
    register(services.LEDGER, ledger.answer, payload=LedgerRequest)
    kernel.logs.count_pages_by(frontiers.last_counts)
    kernel.attention.take_figures_from(service.live_figures)
    loops = [
        Loop("crawls", service.run),
        Loop("frontiers", frontiers.run),
        Loop("ledger", ledger.run),
    ]
    if remote is not None:
        loops.append(Loop("remote frontiers", remote.run))

    async def open() -> None:
        await locks.open()
        await ledger.open()

    async def close() -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(ledger.close)
            stack.push_async_callback(locks.close)

    return Feature(
        services=(service, frontiers, ledger, workers),
        loops=loops,
        open=open,
        close=close,
    )
