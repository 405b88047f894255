"""The politeness ledger of the fleet, as crawls ask it for windows.

The ledger may be kept where all masters reach it (Redis). Otherwise the master that leads has it
in memory, and a new leader begins a new one, which grants nothing until all that was granted before
must be over.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from crawlfleet.control.leases.services import ServiceCall
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.politeness import ledger
from crawlfleet.errors import Busy, LedgerUnavailable
from crawlfleet.model.wire.politeness import KeyUse, LedgerReply, LedgerRequest
from crawlfleet.model.wire.services import ServiceResponse, answered, refused
from crawlfleet.ports.ledger import LedgerBook, LedgerPage
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
MAX_KEYS: Final = 5_000
"""Keys that one request may name."""
MAX_TRIES: Final = 50
"""Tries to write a change before the ledger counts as too busy; a try fails when another writer was
quicker."""
MAX_SHOWN: Final = 10_000
OPEN_EVERY_S: Final = 5.0
NO_LEDGER: Final = "this fleet has no ledger"


class LedgerService:
    """Grants windows to crawls in the name of the fleet."""

    def __init__(self, *, state: FleetState, book: LedgerBook | None) -> None:
        self._state = state
        self._book = book
        self._leads = False

    async def open(self) -> None:
        """Open a ledger that all masters share. An unreachable one is opened at the next
        request."""
        if self._book is not None and self._book.is_shared:
            try:
                await self._book.open()
            except LedgerUnavailable as error:
                log.warning("the ledger is not there yet", error=str(error))

    async def close(self) -> None:
        """Close the ledger."""
        if self._book is not None:
            with suppress(LedgerUnavailable):
                await self._book.close()

    async def run(self) -> None:
        """Keep the ledger open while this master leads. A shared ledger needs no leader."""
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

    async def answer(self, call: ServiceCall) -> ServiceResponse:
        """Take back what a crawl returns, and grant it the windows it asks for. A refusal that may
        be retried comes back while the ledger is unavailable. Raises `Busy` while another master
        has the ledger."""
        request: LedgerRequest = call.payload
        if self._book is None:
            return refused(NO_LEDGER)
        keys = ledger.keys_of(request)
        if len(keys) > MAX_KEYS:
            return refused(f"{len(keys)} keys at once; {MAX_KEYS} are allowed")
        id = call.execution_id
        name = f"{id}/{request.engine}" if request.engine else id
        try:
            book = self._opened()
            await book.open()
            return answered(await self._exchange(book, sorted(keys), name, request))
        except LedgerUnavailable as error:
            return refused(str(error), may_retry=True)

    async def hosts(self, containing: str = "") -> Sequence[KeyUse]:
        """Return the uses of all hosts, domains and addresses whose key contains a text, with their
        waiting executions."""
        page = await self.browse()
        found = [
            ledger.use(key, entry, page.now)
            for key, entry in page.entries.items()
            if containing in key
        ]
        return sorted(found, key=lambda each: each.key)

    async def browse(self) -> LedgerPage:
        """Return up to `MAX_SHOWN` entries of the ledger. Raises `Busy` while another master has
        it, and `LedgerUnavailable` when there is none."""
        return await self._opened().browse(MAX_SHOWN)

    def _opened(self) -> LedgerBook:
        if self._book is None:
            raise LedgerUnavailable(f"{NO_LEDGER}; see the setting `ledger`")
        if not self._book.is_shared and not self._leads:
            raise Busy("another master leads, and has the ledger; ask that one")
        return self._book

    async def _exchange(
        self, book: LedgerBook, keys: Sequence[str], name: str, ask: LedgerRequest
    ) -> LedgerReply:
        for _ in range(MAX_TRIES):
            page = await book.read(keys)
            changes, told = ledger.exchange(
                page.entries, ask, name=name, now=page.now, born=page.born, living=self._is_living
            )
            if await book.write(page, changes):
                return told
        raise LedgerUnavailable("the ledger is too busy; ask again")

    def _is_living(self, name: str) -> bool:
        return name.partition("/")[0] in self._state.leases
