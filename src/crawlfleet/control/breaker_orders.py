"""Breakers as people see them: listed, and closed by hand."""

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.retry_gate import reason_for
from crawlfleet.core.retries.breakers import closed_event
from crawlfleet.core.retries.targets import TARGET
from crawlfleet.errors import NotFound
from crawlfleet.model.breaker import Breaker, BreakerState
from crawlfleet.model.change import Change
from crawlfleet.ports.system import System


class BreakerOrders:
    """Looks at breakers, and closes them."""

    def __init__(self, *, state: FleetState, system: System) -> None:
        self._state = state
        self._system = system

    def page(self, *, all: bool, project_id: str | None = None) -> list[tuple[Breaker, int]]:
        """The targets that are taken for down, in order, each with how many tasks wait for it;
        with `all` those, too, whose failures are only counted. Of one project, or of each."""
        gate = self._state.gate
        return [
            (each, gate.lines.count(reason_for(each.site)))
            for each in gate.breakers.all(self._system.now())
            if (all or each.state is not BreakerState.CLOSED)
            and project_id in (None, each.project_id)
        ]

    async def close(self, target: str, *, by: str, project_id: str | None = None) -> None:
        """Let everything of a project, or of each, for a target go on, and forget its failures.
        Every master hears of it."""
        if not TARGET.match(target):
            raise NotFound("target", target)
        now = self._system.now()
        breakers = self._state.gate.breakers
        projects: list[str | None] = [project_id]
        if project_id is None:
            # Whoever is told of one project hears of it, too; without any, masters that know more.
            projects = [*dict.fromkeys(site[0] for site in breakers.of_target(target))] or [None]
        events = tuple(closed_event(each, target, now, f"closed by {by}") for each in projects)
        await self._state.commit([Change(events=events)])
        for event in events:
            breakers.hear(event)
