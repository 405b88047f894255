"""In an executor process: what the fleet is asked by way of the node."""

import asyncio
from collections.abc import Sequence
from typing import Final

from crawlfleet.errors import LedgerUnavailable, LocksUnavailable, Refused
from crawlfleet.model.wire.execution_requests import Finding, Inquiry
from crawlfleet.model.wire.locks import Hold, LockAsk, LockTold, LockVerb, Occupied
from crawlfleet.model.wire.politeness import LedgerAsk, LedgerTold
from crawlfleet.worker.executor.replies import Replies
from crawlfleet.worker.pool import protocol

OLD: Final = "the node passes nothing on; install a newer crawlfleet there"


class Inquirer:
    """Asks in the name of one execution."""

    def __init__(self, execution_id: str, replies: Replies, takes: Sequence[str]) -> None:
        self._execution_id = execution_id
        self._replies = replies
        self.is_heard = protocol.INQUIRIES in takes
        """Whether the node passes anything on."""
        self._asked: dict[int, asyncio.Future[Finding]] = {}
        self._last = 0

    async def ask(self, inquiry: Inquiry) -> Finding:
        """The answer of the fleet, or why there is none."""
        if not self.is_heard:
            return Finding(refusal=OLD)
        number = self.number()
        answer: asyncio.Future[Finding] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            self._replies.send(
                protocol.Ask(execution_id=self._execution_id, number=number, inquiry=inquiry)
            )
            return await answer
        finally:
            del self._asked[number]

    def hear(self, found: protocol.Found) -> None:
        """An answer has come."""
        answer = self._asked.get(found.number)
        if answer is not None and not answer.done():
            answer.set_result(found.finding)

    def number(self) -> int:
        """One that was not used before."""
        self._last += 1
        return self._last


class ServedLocks:
    """Implements `crawlfleet.ports.locks.LockSource`; a holder is a number here, and the master
    knows whose."""

    def __init__(self, inquirer: Inquirer) -> None:
        self._inquirer = inquirer

    async def take(self, name: str, holder: str, lease_s: float) -> Hold | Occupied:
        told = await self._ask(LockVerb.TAKE, name, holder, lease_s=lease_s)
        if told.done:
            return Hold(name=name, holder=holder, token=told.token, lease_s=lease_s)
        return Occupied(holder=told.holder, token=told.token, free_in_s=told.free_in_s)

    async def renew(self, hold: Hold) -> bool:
        told = await self._ask(LockVerb.RENEW, hold.name, hold.holder, token=hold.token)
        return told.done

    async def release(self, hold: Hold) -> bool:
        told = await self._ask(LockVerb.RELEASE, hold.name, hold.holder, token=hold.token)
        return told.done

    async def _ask(
        self, verb: LockVerb, name: str, holder: str, *, lease_s: float = 30.0, token: int = 0
    ) -> LockTold:
        ask = LockAsk(verb=verb, name=name, number=int(holder), lease_s=lease_s, token=token)
        found = await self._inquirer.ask(Inquiry(lock=ask))
        if found.lock is not None:
            return found.lock
        if found.is_passing:
            raise LocksUnavailable(found.refusal)
        raise Refused(f"the lock {name!r} cannot be had: {found.refusal}")


class ServedLedger:
    """Implements `crawlfleet.ports.ledger.Ledger`."""

    def __init__(self, inquirer: Inquirer) -> None:
        self._inquirer = inquirer

    async def ask(self, ask: LedgerAsk) -> LedgerTold:
        found = await self._inquirer.ask(Inquiry(ledger=ask))
        if found.ledger is not None:
            return found.ledger
        if found.is_passing:
            raise LedgerUnavailable(found.refusal)
        raise Refused(found.refusal)
