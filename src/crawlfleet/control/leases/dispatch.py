"""Dispatch: assigns ready tasks to nodes with free capacity, by a plan on a snapshot.

Dispatch is woken by changes, never by the clock: a new task, a freed slot, a new node. An idle
fleet plans nothing. A plan is only a proposal: the store checks versions at the commit, and refused
tasks are planned again on the state of the store.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from crawlfleet.control.leases.service import Leases
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.store_pause import StorePause
from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.core.placement.plan import plan
from crawlfleet.core.placement.rules import PlacementRules
from crawlfleet.core.resources import allocate, demand_of, subtract
from crawlfleet.core.tasks import attempts
from crawlfleet.model.change import Change
from crawlfleet.model.ids import EXECUTION, make_id
from crawlfleet.model.resources import Resources
from crawlfleet.model.settings import DispatchSettings
from crawlfleet.model.task import Task
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.SCHED)
PAUSE_AFTER_NOTHING_S: Final = 0.02
WAKE_DELAY_S: Final = 0.005
"""Delay of a timed wake-up, so that the awaited time is over then, and not just about to be."""


class Dispatch:
    """Assigns ready tasks, for as long as it runs."""

    def __init__(
        self,
        *,
        state: FleetState,
        system: System,
        rules: PlacementRules,
        settings: DispatchSettings,
        leases: Leases,
    ) -> None:
        self._state = state
        self._warming = leases.warming
        self._again: asyncio.TimerHandle | None = None
        self._system = system
        self._rules = rules
        self._settings = settings

    async def run(self) -> None:
        """Plan whenever something changed, until nothing more can be placed."""
        wake = self._state.signals.dispatch
        loop = asyncio.get_running_loop()
        while True:
            await wake.wait()
            wake.clear()
            begun = loop.time()
            async with StorePause(log, "dispatch waits for the store") as store:
                planned, made = await self.assign_once()
                self._state.counters.dispatch_s.observe(loop.time() - begun)
                if planned:
                    wake.set()
                if planned and not made:
                    # Memory and store disagree on all of it: give them time to agree.
                    await asyncio.sleep(PAUSE_AFTER_NOTHING_S)
            if store.has_failed:
                wake.set()

    async def assign_once(self) -> tuple[int, int]:
        """Plan and commit one batch; return how many tasks it was about, and how many it placed."""
        async with self._state.assigning:
            return await self._assign_once()

    async def _assign_once(self) -> tuple[int, int]:
        if not self._state.queue:
            return 0, 0
        if self._state.fleet.is_shut:
            # Whoever hands in tasks before there are nodes does not wait for a plan of nothing.
            self._warming.held = {}
            return 0, 0
        proposal = plan(
            self._state.queue,
            self._state.fleet,
            self._rules,
            now=self._system.now(),
            seed=int.from_bytes(self._system.entropy(4), "big"),
            limit=self._settings.batch,
            tenancy=self._state.tenancy,
            making=self._warming.making,
            patience_s=self._settings.warm_patience_s,
            reasons=False,
        )
        self._warming.held = proposal.held
        if proposal.held:
            self._look_again(min(proposal.held.values()))
            await self._warming.for_work(proposal.held, self._rules)
        for strategy, fault in proposal.faults.items():
            log.error(
                "a strategy failed, the default was used", strategy=strategy, error=str(fault)
            )
        if not proposal.assignments:
            return 0, 0
        nodes = dict(proposal.assignments)
        planned_on = self._state.fleet
        tasks = await self._state.ready_tasks([*nodes])
        if self._state.fleet is not planned_on:
            # Loaded anew meanwhile, after a failure: the plan knew too little of what is taken.
            return len(nodes), 0
        rooms, now = FreeCapacity(self._state.fleet), self._system.now()
        held: set[str] = set()
        if self._state.gate.breakers.open:
            # They leave the queue: each is planned for nothing once, however long it has to wait.
            held = {task.id for task in tasks if self._state.pending.hold_back(task, now)}
            tasks = [task for task in tasks if task.id not in held]
        changes = [
            change
            for task in tasks
            if (change := self._assignment(task, nodes[task.id], rooms, now))
        ]
        refusals = await self._state.commit_as_leader(changes)
        made = {
            change.tasks[0].id
            for change, refusal in zip(changes, refusals, strict=True)
            if refusal is None
        }
        behind = [id for id in nodes if id not in made and id not in held]
        if behind:
            await self._state.catch_up()
            await self._state.refresh_tasks(behind)
        log.debug("assigned", tasks=len(made), refused=len(behind))
        return len(nodes), len(made) + len(held)

    def _look_again(self, at: float) -> None:
        """Wake dispatch again at this time, when tasks stop to wait for a warm node."""
        if self._again is not None:
            self._again.cancel()
        wait_s = max(at - self._system.now(), 0.0) + WAKE_DELAY_S
        wake = self._state.signals.dispatch.set
        self._again = asyncio.get_running_loop().call_later(wait_s, wake)

    def _assignment(
        self, task: Task, node_id: str, rooms: "FreeCapacity", now: float
    ) -> Change | None:
        node = self._state.nodes.get(node_id)
        if node is None or node.session_id is None:
            return None
        demand = demand_of(task)
        return attempts.assign(
            task,
            node_id=node_id,
            session_id=node.session_id,
            execution_id=make_id(EXECUTION, now, self._system.entropy),
            reserved=demand,
            allocation=rooms.allocate(node_id, demand, task.capabilities),
            now=now,
            cause=f"placed by {self._strategy(task)}",
        )

    def _strategy(self, task: Task) -> str:
        return (
            task.schedule_strategy
            or self._state.fleet.strategy_of(task.cluster_id)
            or self._settings.default_strategy
        )


class FreeCapacity:
    """The capacity that is left on each node while the tasks of one plan are assigned."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._free: dict[str, Resources] = {}
        self._whole: dict[str, tuple[Resources, float]] = {}
        self._modest: dict[tuple[str, Resources, float, float], Resources] = {}
        """Cache of allocations for tasks that ask for no CPU or memory, by free capacity."""

    def allocate(
        self, node_id: str, demand: Resources, capabilities: Mapping[str, Any]
    ) -> Resources:
        """Return the resources of an execution, and take its demand from the capacity."""
        if node_id not in self._whole:
            self._whole[node_id] = (self._fleet.capacity(node_id), self._fleet.load(node_id))
            self._free[node_id] = self._fleet.free(node_id)
        if not (capabilities or demand.cpu_cores or demand.memory_mb):
            free = self._free[node_id]
            key = node_id, demand, free.cpu_cores, free.memory_mb
            known = self._modest.get(key)
            if known is None:
                known = self._modest[key] = self._allocate(node_id, demand, capabilities)
            return known
        return self._allocate(node_id, demand, capabilities)

    def _allocate(
        self, node_id: str, demand: Resources, capabilities: Mapping[str, Any]
    ) -> Resources:
        capacity, load = self._whole[node_id]
        free = self._free[node_id] = subtract(self._free[node_id], demand)
        return allocate(demand, capabilities, capacity, free, load)
