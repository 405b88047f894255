"""The locks of the fleet, as executions take them. All masters reach the same ones."""

from contextlib import suppress

from crawlfleet.control.leases.services import ServiceCall
from crawlfleet.errors import LocksUnavailable
from crawlfleet.model.wire.locks import LockHold, LockReply, LockRequest, LockVerb
from crawlfleet.model.wire.services import ServiceResponse, answered, refused
from crawlfleet.ports.locks import Locks
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)


class LockService:
    """Takes, renews and releases locks for executions."""

    def __init__(self, locks: Locks | None) -> None:
        self._locks = locks

    async def open(self) -> None:
        """Open the lock store. An unreachable one is opened at the next request."""
        if self._locks is not None:
            try:
                await self._locks.open()
            except LocksUnavailable as error:
                log.warning("the locks are not there yet", error=str(error))

    async def close(self) -> None:
        """Close the lock store; held locks stay."""
        if self._locks is not None:
            with suppress(LocksUnavailable):
                await self._locks.close()

    async def answer(self, call: ServiceCall) -> ServiceResponse:
        """Carry out a lock request of an execution, for a lock of its project."""
        if self._locks is None:
            return refused("this master keeps no locks")
        try:
            return answered(await self._do(self._locks, call))
        except LocksUnavailable as error:
            return refused(str(error), may_retry=True)

    async def _do(self, locks: Locks, call: ServiceCall) -> LockReply:
        request: LockRequest = call.payload
        await locks.open()
        name = f"{call.lease.task.project_id}/{request.name}"
        hold = LockHold(
            name=name,
            holder=f"{call.execution_id}#{request.number}",
            token=request.token,
            lease_s=request.lease_s,
        )
        if request.verb is LockVerb.RENEW:
            return LockReply(done=await locks.renew(hold), token=request.token)
        if request.verb is LockVerb.RELEASE:
            return LockReply(done=await locks.release(hold), token=request.token)
        taken = await locks.take(name, hold.holder, request.lease_s)
        if isinstance(taken, LockHold):
            return LockReply(done=True, token=taken.token)
        return LockReply(
            done=False, token=taken.token, holder=taken.holder, free_in_s=taken.free_in_s
        )
