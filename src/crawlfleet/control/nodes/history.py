"""The history of nodes: samples from heartbeats, written in batches, thinned as they age.

A heartbeat only leaves a sample in memory; every few seconds all of them are written at once. A
master that dies loses a few seconds of samples, on which nothing depends.
"""

import asyncio
from itertools import islice
from typing import Final

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.nodes.thinning import bucket, thin, whole
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.node import Session
from crawlfleet.model.node_sample import WIDTH_S, NodeSample, Resolution
from crawlfleet.ports.history import History
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
WRITE_EVERY_S: Final = 10.0
MIN_INTERVAL_S: Final = 1.0
MAX_WAITING: Final = 50_000
PORTION: Final = 5_000
HOUR_S: Final = 3_600.0
DAY_S: Final = 86_400.0
NEXT: Final = {
    Resolution.RAW: (HOUR_S, Resolution.MINUTE),
    Resolution.MINUTE: (DAY_S, Resolution.HOUR),
}
"""The age at which samples of a resolution become means, and the resolution of these."""
FINER: Final = {
    Resolution.RAW: (Resolution.RAW,),
    Resolution.MINUTE: (Resolution.MINUTE, Resolution.RAW),
    Resolution.HOUR: (Resolution.HOUR, Resolution.MINUTE, Resolution.RAW),
}


class NodeHistory:
    """Samples of all nodes, in memory for seconds and then in the store."""

    def __init__(self, *, store: History, state: FleetState, system: System) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._waiting: list[NodeSample] = []
        self._newest: dict[str, float] = {}
        self._something = asyncio.Event()
        self._thinned_up_to = ""

    def observe(self, session: Session, *, active_tasks: int) -> NodeSample | None:
        """Record a sample of a node's heartbeat; returns `None` if the last one is too recent."""
        # To the millisecond, so that what people read and send back is the same instant.
        at = round(session.last_heartbeat, 3)
        if at - self._newest.get(session.node_id, 0.0) < MIN_INTERVAL_S:
            return None
        self._newest[session.node_id] = at
        work = self._state.counters.take_work(session.node_id)
        sample = NodeSample(
            node_id=session.node_id,
            at=at,
            cpu_usage=session.usage.cpu_usage,
            memory_usage=session.usage.memory_usage,
            gpu_usage=session.usage.gpu_usage,
            network_io=session.usage.network_io,
            disk_io=session.usage.disk_io,
            disk_usage=session.usage.disk_usage,
            load=session.load,
            active_tasks=active_tasks,
            ended=work.ended,
            errors=work.errors,
            latency_s=work.seconds / work.ended if work.ended else None,
            wait_s=work.waited_s / work.begun if work.begun else None,
        )
        self._waiting.append(sample)
        del self._waiting[:-MAX_WAITING]
        self._something.set()
        return sample

    async def run(self) -> None:
        """Write the gathered samples some seconds after the first one; runs until cancelled."""
        while True:
            await self._something.wait()
            await asyncio.sleep(WRITE_EVERY_S)
            try:
                await self.write()
            except StoreUnavailable as error:
                log.warning("samples of nodes wait for the store", error=str(error))

    async def write(self) -> None:
        """Write the gathered samples now; when that fails they stay for the next write."""
        self._something.clear()
        samples, self._waiting = self._waiting, []
        try:
            await self._store.append_samples(samples)
        except BaseException:
            self._waiting[:0] = samples
            self._something.set()
            raise

    async def read(
        self, node_id: str, resolution: Resolution, *, since: float, limit: int
    ) -> list[NodeSample]:
        """Return the last `limit` samples of a node since then, in order, thinned to means.

        Samples that are still kept finer than this resolution are averaged.
        """
        await self.write()
        until = self._system.now() + 1.0
        found: list[NodeSample] = []
        for kept in FINER[resolution]:
            start = bucket(since, resolution)
            while True:
                portion = await self._store.samples(
                    node_id, kept, since=start, until=until, limit=PORTION
                )
                found += portion
                if len(portion) < PORTION:
                    break
                start = portion[-1].at + WIDTH_S[kept] / 2 + 1e-6
        return thin(found, resolution)[-limit:]

    async def thin(self, *, nodes: int, keep_s: float | None) -> bool:
        """Thin the history of the next so many nodes; return whether there are more nodes."""
        now = self._system.now()
        rest = sorted(id for id in self._state.nodes if id > self._thinned_up_to)
        for node_id in islice(rest, nodes):
            for resolution, (age_s, to) in NEXT.items():
                await self._thin(node_id, resolution, to, bucket(now - age_s, to))
            if keep_s is not None:
                await self._store.replace_samples(
                    node_id, Resolution.HOUR, since=0.0, until=now - keep_s, by=()
                )
            self._thinned_up_to = node_id
        if len(rest) <= nodes:
            self._thinned_up_to = ""
            return False
        return True

    async def _thin(
        self, node_id: str, resolution: Resolution, to: Resolution, until: float
    ) -> None:
        portion = await self._store.samples(
            node_id, resolution, since=0.0, until=until, limit=PORTION
        )
        old = whole(portion, to, complete=len(portion) < PORTION)
        if old:
            end = bucket(old[-1].at, to) + WIDTH_S[to]
            await self._store.replace_samples(
                node_id, resolution, since=0.0, until=end, by=thin(old, to)
            )
