"""Prewarming: the environments that this master asks nodes to make before work needs them.

A lost request costs nothing: the environment is made when the work comes. So requests are in the
memory of one master, for the nodes that poll it: a request goes with the reply to the node's long
poll, and no other master could send it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.placement import warming
from crawlfleet.core.placement.rules import PlacementRules
from crawlfleet.model.bundle import Bundle, BundleRef
from crawlfleet.model.node import Node
from crawlfleet.model.task import Requirement
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.SCHED)
LOOK_EVERY_S: Final = 1.0
MAKING_S: Final = 300.0
"""After so long a request to a node has expired: the node failed to make it, or is gone."""


class _Asked(msgspec.Struct):
    ref: BundleRef
    at: float
    is_told: bool = False


class Prewarming:
    """Asks nodes to make environments, and records which ones they have."""

    def __init__(
        self, *, state: FleetState, system: System, is_connected_here: Callable[[str], bool]
    ) -> None:
        """`is_connected_here` returns whether a session polls this master for work."""
        self._state = state
        self._polls_here = is_connected_here
        self._system = system
        self._asked: dict[str, dict[str, _Asked]] = {}
        """Open requests by node and digest."""
        self._looked: dict[str, float] = {}
        """Time of the last search for nodes that could make an environment, by bundle."""
        self.held: Mapping[Requirement, float] = {}
        """Kinds of tasks that the last plan left waiting for an environment, and until when."""

    def waits(self, requirement: Requirement, project_id: str, rules: PlacementRules) -> list[Node]:
        """The nodes that have or make the environment for which such tasks wait now."""
        if self.held.get(requirement, 0.0) <= self._system.now():
            return []
        ids = warming.hopeful(
            requirement, self._state.fleet, rules, self.making, project_id=project_id
        )
        return [self._state.nodes[id] for id in ids if id in self._state.nodes]

    def told(self, node_id: str, digests: Collection[str]) -> None:
        """Record the environments that a node reports: it has these, and no others."""
        for digest in digests:
            self._asked.get(node_id, {}).pop(digest, None)
        if self._state.fleet.replace_ready(node_id, digests):
            self._state.signals.dispatch.set()

    def due(self, node_id: str) -> tuple[BundleRef, ...]:
        """Return the environments to ask of a node now; each is returned once."""
        found = [each for each in self._asked.get(node_id, {}).values() if not each.is_told]
        for each in found:
            each.is_told = True
        return tuple(each.ref for each in found)

    def is_asked(self, node_id: str, digest: str) -> bool:
        """Return whether a node was asked for an environment, and so may fetch its code."""
        asked = self._asked.get(node_id, {}).get(digest)
        return asked is not None and self._is_young(asked)

    @property
    def making(self) -> warming.Making:
        """The nodes that may be making an environment, by digest; expired requests are dropped."""
        found: dict[str, list[str]] = {}
        for node_id, asked in tuple(self._asked.items()):
            for digest, each in tuple(asked.items()):
                if self._is_young(each):
                    found.setdefault(digest, []).append(node_id)
                else:
                    del asked[digest]
            if not asked:
                del self._asked[node_id]
        return found

    def for_bundle(self, bundle: Bundle) -> None:
        """Ask nodes that are likely to run a bundle to prepare the version that became current."""
        present = bundle.numbered(bundle.current)
        if present is not None:
            ref = BundleRef(name=bundle.name, number=present.number, digest=present.digest)
            self._ask(warming.to_ask_for_bundle(bundle, self._near(), self._state.fleet), ref)

    async def for_work(self, held: Iterable[Requirement], rules: PlacementRules) -> None:
        """Ask more nodes to make the environments that tasks wait for."""
        for requirement in held:
            if self._system.now() - self._looked.get(requirement.bundle, 0.0) < LOOK_EVERY_S:
                continue
            self._looked = {requirement.bundle: self._system.now(), **self._recent()}
            queue = self._state.queue
            first = queue.first(requirement)
            tasks = [] if first is None else await self._state.ready_tasks([first])
            if first is None or first not in queue or not tasks or tasks[0].bundle is None:
                continue
            chosen = warming.to_ask_for_work(
                requirement,
                self._state.fleet,
                rules,
                self.making,
                tasks=queue.waiting_for(requirement),
                among=[node.id for node in self._near()],
                project_id=tasks[0].project_id,
            )
            self._ask(chosen, tasks[0].bundle)

    def _near(self) -> list[Node]:
        """The nodes that poll this master and report which environments they have."""
        return [
            node
            for node in self._state.nodes.values()
            if node.session_id is not None
            and self._polls_here(node.session_id)
            and self._state.fleet.tells_ready(node.id)
        ]

    def _recent(self) -> dict[str, float]:
        now = self._system.now()
        return {each: at for each, at in self._looked.items() if now - at < LOOK_EVERY_S}

    def _ask(self, node_ids: Iterable[str], ref: BundleRef) -> None:
        for node_id in node_ids:
            node = self._state.nodes.get(node_id)
            if node is None or node.session_id is None or self.is_asked(node_id, ref.digest):
                continue
            if self._state.fleet.has_ready(node_id, ref.digest):
                continue
            asked = self._asked.setdefault(node_id, {})
            asked[ref.digest] = _Asked(ref, self._system.now())
            log.info("environment asked for ahead", node_id=node_id, bundle=str(ref))
            self._state.signals.session(node.session_id).set()

    def _is_young(self, asked: _Asked) -> bool:
        return self._system.now() - asked.at < MAKING_S
