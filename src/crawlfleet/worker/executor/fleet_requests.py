"""Part of the executor process: requests to services of the master, which the node relays."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from crawlfleet.errors import LedgerUnavailable, LocksUnavailable, Refused
from crawlfleet.model.wire.locks import LockHold, LockOccupied, LockReply, LockRequest, LockVerb
from crawlfleet.model.wire.politeness import LedgerReply, LedgerRequest
from crawlfleet.model.wire.services import LEDGER, LOCKS
from crawlfleet.worker.executor.replies import Replies
from crawlfleet.worker.pool import protocol

_replies_of_locks = msgspec.json.Decoder(LockReply)
_replies_of_ledger = msgspec.json.Decoder(LedgerReply)


class ServiceClient:
    """Sends the requests of one execution and returns the responses."""

    def __init__(self, execution_id: str, replies: Replies, services: Sequence[str]) -> None:
        """`services` are those to which the node passes requests on."""
        self._execution_id = execution_id
        self._replies = replies
        self._services = services
        self._waiting: dict[int, asyncio.Future[protocol.Response]] = {}
        self._last = 0

    def reaches(self, service: str) -> bool:
        """Return whether the node relays requests to this service."""
        return service in self._services

    async def request(
        self, service: str, payload: Any = None, data: bytes = b""
    ) -> protocol.Response:
        """Return the response of the service, or a refusal where the node passes nothing on."""
        number = self.number()
        if not self.reaches(service):
            why = f"the node passes no requests on to the service {service!r}"
            return protocol.Response(execution_id=self._execution_id, number=number, refusal=why)
        response: asyncio.Future[protocol.Response] = asyncio.get_running_loop().create_future()
        self._waiting[number] = response
        try:
            encoded = msgspec.Raw(msgspec.json.encode(payload))
            for start in range(0, len(data) or 1, protocol.MAX_DATA_BYTES):
                end = start + protocol.MAX_DATA_BYTES
                self._replies.send(
                    protocol.Request(
                        execution_id=self._execution_id,
                        number=number,
                        service=service,
                        payload=encoded,
                        data=data[start:end],
                        more=end < len(data),
                    )
                )
            return await response
        finally:
            del self._waiting[number]

    def receive(self, response: protocol.Response) -> None:
        """Deliver a response to its request."""
        waiting = self._waiting.get(response.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(response)

    def number(self) -> int:
        """Return a number that was not used before."""
        self._last += 1
        return self._last


class FleetLocks:
    """Implements `crawlfleet.ports.locks.LockSource` by requests to the master. A holder is a
    number here; the master knows which execution it belongs to."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    async def take(self, name: str, holder: str, lease_s: float) -> LockHold | LockOccupied:
        reply = await self._ask(LockVerb.TAKE, name, holder, lease_s=lease_s)
        if reply.done:
            return LockHold(name=name, holder=holder, token=reply.token, lease_s=lease_s)
        return LockOccupied(holder=reply.holder, token=reply.token, free_in_s=reply.free_in_s)

    async def renew(self, hold: LockHold) -> bool:
        reply = await self._ask(LockVerb.RENEW, hold.name, hold.holder, token=hold.token)
        return reply.done

    async def release(self, hold: LockHold) -> bool:
        reply = await self._ask(LockVerb.RELEASE, hold.name, hold.holder, token=hold.token)
        return reply.done

    async def _ask(
        self, verb: LockVerb, name: str, holder: str, *, lease_s: float = 30.0, token: int = 0
    ) -> LockReply:
        request = LockRequest(
            verb=verb, name=name, number=int(holder), lease_s=lease_s, token=token
        )
        response = await self._client.request(LOCKS, request)
        if not response.refusal:
            return _replies_of_locks.decode(response.payload)
        if response.may_retry:
            raise LocksUnavailable(response.refusal)
        raise Refused(f"the lock {name!r} cannot be had: {response.refusal}")


class FleetLedger:
    """Implements `crawlfleet.ports.ledger.Ledger` by requests to the master."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    async def ask(self, ask: LedgerRequest) -> LedgerReply:
        response = await self._client.request(LEDGER, ask)
        if not response.refusal:
            return _replies_of_ledger.decode(response.payload)
        if response.may_retry:
            raise LedgerUnavailable(response.refusal)
        raise Refused(response.refusal)
