"""The leading master probes the health endpoints of those nodes that advertise one.

A node that sends heartbeats but does not answer may be cut off from its peers, or be another
machine by now. It gets no new work, and after a while its work is taken back (see `recalls`).
"""

import asyncio
from typing import Final

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.nodes.health import PROBE, assessed, probed
from crawlfleet.core.nodes.registration import probe_refusal
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.change import Change
from crawlfleet.model.node import CONNECTED, Node
from crawlfleet.model.settings import HealthSettings, Settings
from crawlfleet.ports.health_probe import Prober
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
MAX_CONCURRENT_PROBES: Final = 100
ANSWERS_TO_BELIEVE: Final = 2
"""Successful probes in a row after which a node counts as reachable again."""


class HealthProbes:
    """Probes the nodes at an interval, for as long as it runs."""

    def __init__(
        self,
        *,
        state: FleetState,
        system: System,
        prober: Prober,
        settings: HealthSettings,
        allow_loopback: bool,
    ) -> None:
        self._state = state
        self._system = system
        self._prober = prober
        self._settings = settings
        self._allow_loopback = allow_loopback
        self._streaks: dict[str, int] = {}
        """Number of probes in a row that contradict the condition of the node, by node."""

    async def run(self) -> None:
        """Probe all nodes at an interval; runs until cancelled."""
        while True:
            await asyncio.sleep(self._settings.probe_interval_s)
            try:
                await self.ask_all()
            except StoreUnavailable as error:
                log.warning("what probes say waits for the store", error=str(error))

    async def ask_all(self) -> None:
        """Probe every node that advertises an address once, and commit the results."""
        nodes = [each for each in self._state.nodes.values() if _is_asked(each)]
        self._streaks = {
            node.id: self._streaks[node.id] for node in nodes if node.id in self._streaks
        }
        room = asyncio.Semaphore(MAX_CONCURRENT_PROBES)
        async with asyncio.TaskGroup() as group:
            asked = [(node, group.create_task(self._ask(node, room))) for node in nodes]
        for node, answer in asked:
            await self._take(node.id, answer.result())

    async def _ask(self, node: Node, room: asyncio.Semaphore) -> str | None:
        refused = probe_refusal(node.ip_address, allow_loopback=self._allow_loopback)
        if refused is not None:
            return f"it is not asked: {refused}"
        async with room:
            return await self._prober.ask(node.ip_address, node.port, node.id)

    async def _take(self, node_id: str, trouble: str | None) -> None:
        node = self._state.nodes.get(node_id)
        if node is None or not _is_asked(node):
            return
        is_held = any(each.kind == PROBE for each in node.conditions)
        if is_held == (trouble is not None):
            self._streaks.pop(node_id, None)
            return
        streak = self._streaks[node_id] = self._streaks.get(node_id, 0) + 1
        if streak < (ANSWERS_TO_BELIEVE if is_held else self._settings.probe_failures):
            return
        words = None
        if trouble is not None:
            words = f"{streak} probes of {node.ip_address} port {node.port} failed: {trouble}"
        now = self._system.now()
        changed = assessed(node, probed(node.conditions, words, now=now), now=now)
        if changed is None:
            return
        (refusal,) = await self._state.commit([Change(nodes=(changed[0],), events=(changed[1],))])
        if refusal is None:
            self._streaks.pop(node_id, None)


def _is_asked(node: Node) -> bool:
    return node.probe and bool(node.port) and node.status in CONNECTED


def probes_loopback(settings: Settings) -> bool:
    """Return whether a node's health endpoint may be on the master's own machine."""
    if settings.health.probe_loopback is not None:
        return settings.health.probe_loopback
    return settings.server.host in {"127.0.0.1", "::1", "localhost"}
