"""Checks that the state of the masters in memory equals the committed state."""

import asyncio
import hashlib
import random
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from crawlfleet.core.placement.plan import plan
from crawlfleet.core.placement.rules import default_rules
from crawlfleet.master import ControlPlane
from crawlfleet.model.quota import Allowance
from crawlfleet.testing.simulation.faults import WatchedStore
from crawlfleet.testing.simulation.invariants import Invariants, Violation

IDLE_S: Final = 2.5
"""Longer than a dispatch that met a failing store twice pauses."""


class Recorder(Invariants):
    """The checker of all changes, which also counts and fingerprints them."""

    def __init__(
        self, *, max_losses: int, allowances: Mapping[str, Allowance] | None = None
    ) -> None:
        super().__init__(max_losses=max_losses, allowances=allowances)
        self.commits = 0
        self.events = 0
        self._hash = hashlib.sha256()
        self.violation: Violation | None = None

    def observe(self, change: Any) -> None:
        self.commits += 1
        self.events += len(change.events)
        self._hash.update(msgspec.msgpack.encode(change, enc_hook=str))
        try:
            super().observe(change)
        except Violation as violation:
            # The promise is broken in the master's task: remember it for the world's own.
            self.violation = self.violation or violation
            raise

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()


class Life(NamedTuple):
    """A master's, from its start to its death."""

    store: WatchedStore
    died: asyncio.Event


class Audit:
    """Compares the masters' own bookkeeping with the truth, again and again."""

    def __init__(self, watch: Recorder, masters: Mapping[ControlPlane, Life]) -> None:
        self._watch = watch
        self._masters = masters

    async def run(self, chance: random.Random, every_s: float) -> None:
        while True:
            await asyncio.sleep(chance.uniform(every_s / 10, every_s))
            self._check_bookkeeping()
            await self._check_nothing_idles()

    def _check_bookkeeping(self) -> None:
        if any(life.store.is_busy for life in self._masters.values()):
            return
        for master, life in self._masters.items():
            state = master.state
            told_all = state.position.through >= self._watch.events
            if life.store.dead or state.signals.doubt.is_set() or not told_all:
                continue
            for node_id in self._watch.nodes:
                if node_id in state.fleet:
                    self._watch.check_reservations(node_id, state.fleet.reserved(node_id))
            self._watch.check_tenants(state.tenancy)

    async def _check_nothing_idles(self) -> None:
        """Work that fits a node now must be on its way: nothing waits without a reason."""
        commits = self._watch.commits
        before = {each: _placeable(each) for each in self._masters if each.leads}
        if not any(before.values()):
            return
        await asyncio.sleep(IDLE_S)
        for master, placeable in before.items():
            life = self._masters.get(master)
            if life is None or life.store.dead or self._watch.commits != commits:
                continue
            if master.leads and not master.state.signals.doubt.is_set():
                idle = placeable & _placeable(master)
                if idle:
                    raise Violation(f"{sorted(idle)} fit a node, and nobody places them")


def _placeable(master: ControlPlane) -> set[str]:
    state = master.state
    proposal = plan(
        state.queue,
        state.fleet,
        default_rules(),
        now=0.0,
        seed=0,
        limit=10,
        tenancy=state.tenancy,
    )
    return {task_id for task_id, _ in proposal.assignments}
