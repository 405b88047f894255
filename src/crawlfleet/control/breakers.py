"""Circuit breakers for the outside: the leader's events, and the orders that show and close them.

Every master counts failures; only the leader makes the events. The leader before it may have died
before or after it made one: so a new leader compares its breakers with the event log.
"""

from typing import Final

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.retry_gate import reason_for
from crawlfleet.core.retries.breakers import closed_event, opened_event
from crawlfleet.core.retries.targets import TARGET
from crawlfleet.errors import NotFound
from crawlfleet.model.breaker import Breaker, BreakerState, Site
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.RECOVER)
OPENED: Final = "breaker.opened"
KINDS: Final = (OPENED, "breaker.closed")
PORTION: Final = 1000


class BreakerEvents:
    """Makes events of what the breakers have learned."""

    def __init__(self, *, store: Store, state: FleetState, system: System) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._compares = True

    def begin(self) -> None:
        """Compare with the event log at the next call of `tell`: this master leads from now on."""
        self._compares = True

    @property
    def is_due(self) -> bool:
        return self._compares or bool(self._state.gate.breakers.news)

    async def tell(self) -> None:
        """Commit the events that are due. Raises `LeadershipLost` or `StoreUnavailable`."""
        if self._compares:
            await self._compare()
            self._compares = False
        news = self._state.gate.breakers.news
        if not news:
            return
        told = tuple(news)
        await self._state.commit_as_leader([Change(events=told)])
        for event in told:
            if event in news:
                news.remove(event)
            log.warning("breaker", target=event.subject, what=event.kind, cause=event.cause)

    async def _compare(self) -> None:
        """Drop events that are in the log already, and add those that are missing there."""
        breakers = self._state.gate.breakers
        closed = {
            site: event
            for event in breakers.news
            if event.kind != OPENED and (site := (event.project_id or "", event.subject))
        }
        last = await self._last({*breakers.open, *closed})
        now = self._system.now()
        # As it is by now: the store was asked meanwhile.
        found = [
            opened_event(each, now)
            for site, each in breakers.open.items()
            if last.get(site) != OPENED
        ]
        found += [
            event
            for site, event in closed.items()
            if site not in breakers.open and last.get(site) == OPENED
        ]
        breakers.news.clear()
        breakers.news.extend(found)

    async def _last(self, sites: set[Site]) -> dict[Site, str]:
        """Return the kind of the last breaker event in the log, for each site that has one."""
        last: dict[Site, str] = {}
        for target in sorted({target for _, target in sites}):
            after = 0
            while True:
                events = await self._store.events(after=after, limit=PORTION, subject=target)
                _note_kinds(events, last)
                if len(events) < PORTION:
                    break
                after = events[-1].seq
        return last


def _note_kinds(events: list[Event], last: dict[Site, str]) -> None:
    for event in events:
        if event.kind in KINDS:
            last[event.project_id or "", event.subject] = event.kind


class BreakerOrders:
    """Looks at breakers, and closes them."""

    def __init__(self, *, state: FleetState, system: System) -> None:
        self._state = state
        self._system = system

    def page(self, *, all: bool, project_id: str | None = None) -> list[tuple[Breaker, int]]:
        """Return the open breakers in order, each with its number of waiting tasks.

        With `all`, also those that only count failures. Without a project, those of every project.
        """
        gate = self._state.gate
        return [
            (each, gate.lines.count(reason_for(each.site)))
            for each in gate.breakers.all(self._system.now())
            if (all or each.state is not BreakerState.CLOSED)
            and project_id in (None, each.project_id)
        ]

    async def close(self, target: str, *, by: str, project_id: str | None = None) -> None:
        """Close the breakers of a target and forget its failures: its tasks go on, on every master.

        Without a project, those of every project. Raises `NotFound` for a malformed target.
        """
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
