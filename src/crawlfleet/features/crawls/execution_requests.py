"""What executions ask of the fleet while they work: locks, and when a host may be visited.

Who asks must hold a living lease, as who hands over output must. Locks are kept where all masters
reach them. So may the ledger be (Redis); else the master that leads has it in memory, and a new
leader begins a new one, which grants nothing until all that was granted before must be over.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from crawlfleet.control.leases.fence import Fence
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.politeness import ledger
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.errors import Busy, LedgerUnavailable, LocksUnavailable
from crawlfleet.model.wire.execution_requests import Finding, InquiryCall
from crawlfleet.model.wire.locks import Hold, LockAsk, LockTold, LockVerb
from crawlfleet.model.wire.politeness import KeyUse, LedgerAsk, LedgerTold
from crawlfleet.ports.ledger import LedgerBook, LedgerPage
from crawlfleet.ports.locks import Locks
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
MOST_KEYS: Final = 5_000
"""In one message."""
MOST_TRIES: Final = 50
"""At a step that others are quicker with; each of them got something done."""
MOST_SHOWN: Final = 10_000
OPEN_EVERY_S: Final = 5.0
NO_LEDGER: Final = "this fleet has no ledger"


class Inquiries:
    """Answers them in the name of the fleet."""

    def __init__(
        self,
        *,
        state: FleetState,
        fence: Fence,
        locks: Locks | None,
        book: LedgerBook | None,
    ) -> None:
        self._state = state
        self._fence = fence
        self._locks = locks
        self._book = book
        self._leads = False

    async def open(self) -> None:
        """Open what all masters share. Where it is away, it is opened when it is asked for."""
        shared = self._book if self._book is not None and self._book.is_shared else None
        for each in (self._locks, shared):
            if each is not None:
                try:
                    await each.open()
                except (LocksUnavailable, LedgerUnavailable) as error:
                    log.warning("not there yet", error=str(error))

    async def close(self) -> None:
        for each in (self._locks, self._book):
            if each is not None:
                with suppress(LocksUnavailable, LedgerUnavailable):
                    await each.close()

    async def run(self) -> None:
        """Have the ledger, for as long as this master leads."""
        if self._book is None or self._book.is_shared:
            return
        try:
            while not self._leads:
                try:
                    await self._book.open()
                    self._leads = True
                except LedgerUnavailable as error:
                    log.error("no ledger, so that crawls wait", error=str(error))
                    await asyncio.sleep(OPEN_EVERY_S)
            await asyncio.Event().wait()
        finally:
            self._leads = False
            await self._book.close()

    async def answer(self, node_id: str, call: InquiryCall) -> Finding:
        """What an execution of that node wants to know. Raises `Busy` while another master has
        the ledger."""
        lease = await self._fence.lease(node_id, call)
        if lease is None:
            return Finding(refusal=f"{call.execution_id} is not held by {node_id}")
        try:
            if call.lock is not None:
                return await self._answer_lock(lease, call.execution_id, call.lock)
            if call.ledger is not None:
                return await self._answer_ledger(call.execution_id, call.ledger)
        except (LocksUnavailable, LedgerUnavailable) as error:
            return Finding(refusal=str(error), is_passing=True)
        return Finding(refusal="nothing was asked that this master knows of")

    async def hosts(self, containing: str = "") -> Sequence[KeyUse]:
        """Who uses which hosts, domains and addresses, and what they wait for."""
        page = await self.browse()
        found = [
            ledger.use(key, entry, page.now)
            for key, entry in page.entries.items()
            if containing in key
        ]
        return sorted(found, key=lambda each: each.key)

    async def browse(self) -> LedgerPage:
        """What the ledger knows, up to a bound. Raises `Busy` while another master has it, and
        `LedgerUnavailable` where there is none."""
        return await self._opened().browse(MOST_SHOWN)

    def _opened(self) -> LedgerBook:
        if self._book is None:
            raise LedgerUnavailable(f"{NO_LEDGER}; see the setting `ledger`")
        if not self._book.is_shared and not self._leads:
            raise Busy("another master leads, and has the ledger; ask that one")
        return self._book

    async def _answer_lock(self, lease: Lease, execution_id: str, ask: LockAsk) -> Finding:
        if self._locks is None:
            return Finding(refusal="this master keeps no locks")
        await self._locks.open()
        name = f"{lease.task.project_id}/{ask.name}"
        hold = Hold(
            name=name,
            holder=f"{execution_id}#{ask.number}",
            token=ask.token,
            lease_s=ask.lease_s,
        )
        if ask.verb is LockVerb.RENEW:
            return Finding(lock=LockTold(done=await self._locks.renew(hold), token=ask.token))
        if ask.verb is LockVerb.RELEASE:
            return Finding(lock=LockTold(done=await self._locks.release(hold), token=ask.token))
        taken = await self._locks.take(name, hold.holder, ask.lease_s)
        if isinstance(taken, Hold):
            return Finding(lock=LockTold(done=True, token=taken.token))
        return Finding(
            lock=LockTold(
                done=False, token=taken.token, holder=taken.holder, free_in_s=taken.free_in_s
            )
        )

    async def _answer_ledger(self, execution_id: str, ask: LedgerAsk) -> Finding:
        if self._book is None:
            return Finding(refusal=NO_LEDGER)
        book = self._opened()
        await book.open()
        keys = ledger.keys_of(ask)
        if len(keys) > MOST_KEYS:
            return Finding(refusal=f"{len(keys)} keys at once; {MOST_KEYS} are allowed")
        name = f"{execution_id}/{ask.engine}" if ask.engine else execution_id
        return Finding(ledger=await self._exchange(book, sorted(keys), name, ask))

    async def _exchange(
        self, book: LedgerBook, keys: Sequence[str], name: str, ask: LedgerAsk
    ) -> LedgerTold:
        for _ in range(MOST_TRIES):
            page = await book.read(keys)
            changes, told = ledger.exchange(
                page.entries, ask, name=name, now=page.now, born=page.born, living=self._is_living
            )
            if await book.write(page, changes):
                return told
        raise LedgerUnavailable("the ledger is too busy; ask again")

    def _is_living(self, name: str) -> bool:
        return name.partition("/")[0] in self._state.leases
