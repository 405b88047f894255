"""Evaluates the alert rules while this master leads.

Events come from the outbox, so those of all masters count; measurements are read from the copy of
the store. A change of state that matters is one commit with the event of the notice, which webhooks
deliver: so no notice is sent twice when a master dies.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.store_pause import StorePause
from crawlfleet.features.alerts.model import AlertRule, AlertStatus, Source
from crawlfleet.features.alerts.rules import states
from crawlfleet.features.alerts.rules.alerts import with_built_ins
from crawlfleet.features.alerts.rules.event_windows import EventWindows
from crawlfleet.features.alerts.rules.states import Observation
from crawlfleet.features.alerts.table import ALERT_RULES
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.node import NodeStatus
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
LOOK_EVERY_S: Final = 5.0
"""While something holds, or waits."""
LOOK_SELDOM_S: Final = 300.0
"""While there is nothing to see: disks fill up without an event."""
PAUSE_S: Final = 1.0
RECALLED: Final = 5_000
"""Events from before this master led that are looked at again."""
OF_RULES: Final = "rule."


class AlertWatcher:
    """Implements `crawlfleet.ports.events.EventSink`, for the master that leads."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        disk_free: Callable[[], float | None],
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._disk_free = disk_free
        self._rules: dict[str, AlertRule] = {}
        self._stale = True
        self._windows = EventWindows()
        self._heard = 0
        """The number of the last event that is in the windows."""
        self._wake = asyncio.Event()
        self._recalled = asyncio.Event()

    async def publish(self, events: Sequence[Event]) -> None:
        """Take notice. Raises `StoreUnavailable`: then they have to come again."""
        # What is recalled is not to be counted twice.
        await self._recalled.wait()
        for event in events:
            if event.seq <= self._heard:
                continue
            if event.kind.startswith(OF_RULES):
                # At once: what comes after a rule counts for it.
                await self._load()
            self._heard = event.seq
            self._windows.add(event)
        if events:
            self._wake.set()

    async def run(self) -> None:
        """Look at the rules whenever something may have changed, until the lead is lost."""
        self._stale = True
        try:
            await self._recall()
            self._recalled.set()
            await self._look_on()
        finally:
            self._recalled.clear()

    async def _look_on(self) -> None:
        while True:
            self._wake.clear()
            async with StorePause(log, "alerts wait for the store") as store:
                await self.look()
            if store.has_failed:
                continue
            await asyncio.sleep(PAUSE_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._wait_s()):
                    await self._wake.wait()

    async def look(self) -> None:
        """Evaluate each rule against the current measurements and counts."""
        if self._stale:
            await self._load()
        now = self._system.now()
        for id in [*self._rules]:
            rule = self._rules.get(id)
            if rule is None:
                continue
            try:
                change = self._step(rule, now)
            except Exception:
                # The others are still watched, and the master leads on.
                log.exception("rule not looked at", rule=rule.name)
                continue
            if change is None:
                continue
            (refusal,) = await self._state.commit_as_leader([change])
            if refusal is not None:
                # Somebody has changed the rule meanwhile.
                self._stale = True
                self._wake.set()
                continue
            self._rules[rule.id] = change.of(AlertRule)[0]

    def _step(self, rule: AlertRule, now: float) -> Change | None:
        """Evaluate one rule; return the change to store, or `None`."""
        state, notice = states.step(rule, self._observe(rule, now), now)
        if notice is None and not states.is_worth_keeping(rule.state, state):
            self._rules[rule.id] = msgspec.structs.replace(rule, state=state)
            return None
        return states.change_of(rule, state, notice, now=now)

    def _wait_s(self) -> float:
        quiet = all(rule.state.status is AlertStatus.QUIET for rule in self._rules.values())
        return LOOK_SELDOM_S if quiet and not len(self._state.queue) else LOOK_EVERY_S

    async def _load(self) -> None:
        self._stale = False
        try:
            found = with_built_ins(await self._store.find(ALERT_RULES.where()))
        except BaseException:
            self._stale = True
            raise
        self._rules = {rule.id: self._merged(rule) for rule in found}
        self._windows.watch(self._rules.values())

    def _merged(self, rule: AlertRule) -> AlertRule:
        """Return a stored rule with the waiting state (`for_s`, `clear_s`) that only this master
        has."""
        known = self._rules.get(rule.id)
        if known is None or known.state.fires or rule.state.fires:
            return rule
        return msgspec.structs.replace(rule, state=known.state)

    async def _recall(self) -> None:
        """Count the newest stored events again, so that windows do not start empty on a new
        leader."""
        self._rules = {}
        self._windows = EventWindows()
        events: Sequence[Event] | None = None
        while events is None:
            async with StorePause(log, "alerts wait for the store"):
                await self._load()
                after = max(self._state.position.newest - RECALLED, 0)
                events = await self._store.events(after=after, limit=RECALLED)
        for event in events:
            self._windows.add(event)
        self._heard = events[-1].seq if events else self._heard

    def _observe(self, rule: AlertRule, now: float) -> Observation:
        state = self._state
        match rule.source:
            case Source.NODES_LOST:
                lost = tuple(
                    node.id
                    for node in state.nodes.values()
                    if node.status is NodeStatus.UNRESPONSIVE
                )
                return Observation(value=len(lost), subjects=lost, count=len(lost))
            case Source.NODES_ONLINE:
                online = sum(each.status is NodeStatus.ONLINE for each in state.nodes.values())
                return Observation(value=online)
            case Source.QUEUE_AGE:
                oldest = state.queue.longest_ready()
                return Observation(value=0.0 if oldest is None else max(now - oldest, 0.0))
            case Source.QUEUE_LENGTH:
                return Observation(value=len(state.queue))
            case Source.DISK_FREE:
                return Observation(value=self._disk_free())
            case Source.EVENTS | Source.ERROR_SHARE:
                return self._windows.observe(rule, now)
