"""Follows other masters: reads their events, and then the rows that those name, into the copy.

The store wakes it when another master has committed; a single master is never woken. Each event
names the rows that changed, and these are read anew. Heartbeats alone make no event: sessions whose
nodes do not speak to this master are read now and then.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.node_terms import ClusterTerms
from crawlfleet.control.store_pause import StorePause
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.event import Event
from crawlfleet.model.node import Session
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
PORTION: Final = 1000
MAX_BEHIND: Final = 20_000
"""Beyond so many events, loading the copy anew is quicker than reading the changed rows."""
PAUSE_S: Final = 0.01
"""Pause before the next read, so that commits within it are read together."""
LOOK_EVERY_S: Final = 1.0
"""Least pause between two reads for unknown keys, however often callers show such keys."""


class MasterFollower:
    """Follows the commits of other masters, for as long as it runs."""

    def __init__(
        self, *, store: Store, state: FleetState, system: System, terms: ClusterTerms
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._terms = terms
        self._told = 0
        self._alone = True
        self._looked_at = -LOOK_EVERY_S
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        """Follow the store until cancelled; with a store for one master, do nothing."""
        async with asyncio.TaskGroup() as group:
            keeping_up = group.create_task(self._keep_up(), name="keep up")
            looking = group.create_task(self._look_around(), name="look around")
            async for newest in self._store.changes():
                self._alone = False
                self._told = max(self._told, newest)
                self._state.position.hear(newest)
                if newest > self._state.position.through:
                    self._state.signals.behind.set()
                    self._state.signals.grown()
            keeping_up.cancel()
            looking.cancel()
        await asyncio.Event().wait()

    async def catch_up(self) -> None:
        """Read all events that were committed before this call."""
        newest = (await self._store.commit([])).last_seq
        self._told = max(self._told, newest)
        await self._read_up_to(newest)

    async def look(self) -> None:
        """Catch up because a caller shows an unknown key; once a second at most."""
        now = asyncio.get_running_loop().time()
        if not self._alone and now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            await self.catch_up()

    async def _keep_up(self) -> None:
        behind = self._state.signals.behind
        while True:
            await behind.wait()
            behind.clear()
            async with StorePause(log, "following waits for the store") as store:
                await self._read_up_to(self._told)
                await asyncio.sleep(PAUSE_S)
            if store.has_failed:
                behind.set()

    async def _read_up_to(self, newest: int) -> None:
        position = self._state.position
        async with self._turn:
            while position.through < newest:
                after = position.through
                limit = min(newest - after, PORTION)
                events = await self._store.events(after=after, limit=limit)
                gone = not events or events[0].seq != after + 1
                if gone or newest - after > MAX_BEHIND:
                    raise self._state.reload(f"too far behind the event {newest}, at {after}")
                copy = self._state.fleet
                await self._renew([each for each in events if not position.is_own(each.seq)])
                if self._state.fleet is copy:
                    position.reach(events[-1].seq)
                # Else it was loaded anew meanwhile: what was put in before that is not in it.

    async def _renew(self, events: Sequence[Event]) -> None:
        tasks: dict[str, None] = {}
        executions: dict[str, None] = {}
        nodes: dict[str, None] = {}
        of_features: dict[str, dict[str, None]] = {}
        kinds: set[str] = set()
        for event in events:
            kind = event.kind.partition(".")[0]
            kinds.add(kind)
            if kind == "task":
                tasks[event.subject] = None
                if named := event.details.get("execution_id"):
                    executions[named] = None
            elif kind == "crawl":
                tasks.update(dict.fromkeys(event.details.get("tasks", ())))
            elif kind == "execution":
                tasks[event.details["task_id"]] = None
                executions[event.subject] = None
            elif kind == "node":
                nodes[event.subject] = None
            elif kind == "breaker":
                self._state.gate.breakers.hear(event)
            else:
                of_features.setdefault(kind, {})[event.subject] = None
        refresh = self._state.refresh
        if "key" in kinds:
            await refresh.keys()
        if "project" in kinds:
            await refresh.projects()
        if "cluster" in kinds:
            await refresh.clusters()
        for index in self._state.indexes:
            await refresh.index(index, [*of_features.get(index.subject, ())])
        # Nodes first: an execution belongs to a session that is known by then.
        await refresh.nodes(nodes)
        await refresh.tasks(tasks, executions)

    async def _look_around(self) -> None:
        """Read changes that make no event, at an interval: heartbeats elsewhere, and time.

        Without that, the deadlines of sessions whose heartbeats go to other masters would pass
        here.
        """
        while True:
            await asyncio.sleep(self._terms.shortest_interval_s())
            now = self._system.now()
            unheard = [each.id for each in self._state.sessions.values() if self._is_due(each, now)]
            try:
                await self._state.refresh.sessions(unheard)
                await self._state.release_delayed(self._system.now())
            except StoreUnavailable as error:
                log.warning("following waits for the store", error=str(error))

    def _is_due(self, session: Session, now: float) -> bool:
        """Return whether a heartbeat of the session is overdue at this master."""
        node = self._state.nodes.get(session.node_id)
        terms = self._terms.of(node.cluster_id if node else "")
        heard_at = session.deadline - (session.timeout_s or terms.session_timeout_s)
        return now - heard_at > 1.5 * terms.heartbeat_interval_s
