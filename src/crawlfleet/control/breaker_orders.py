"""Breakers as people see them: listed, and closed by hand."""

from crawlfleet.control.breakers import KIND
from crawlfleet.control.state import FleetState
from crawlfleet.core.breakers import closed_event
from crawlfleet.core.targets import TARGET
from crawlfleet.errors import NotFound
from crawlfleet.model.breaker import Breaker, BreakerState
from crawlfleet.model.change import Change
from crawlfleet.ports.system import System


class BreakerOrders:
    """Looks at breakers, and closes them."""

    def __init__(self, *, state: FleetState, system: System) -> None:
        self._state = state
        self._system = system

    def page(self, *, all: bool) -> list[tuple[Breaker, int]]:
        """The targets that are taken for down, in order, each with how many tasks wait for it;
        with `all` those, too, whose failures are only counted."""
        gate = self._state.gate
        return [
            (each, gate.holds.count(KIND + each.target))
            for each in gate.breakers.all()
            if all or each.state is not BreakerState.CLOSED
        ]

    async def close(self, target: str, *, by: str) -> None:
        """Let everything for a target go on, and forget its failures. Every master hears of it."""
        if not TARGET.match(target):
            raise NotFound("target", target)
        now = self._system.now()
        cause = f"closed by {by}"
        await self._state.commit([Change(events=(closed_event(target, now, cause),))])
        self._state.gate.breakers.close(target, now, cause, tell=False)
