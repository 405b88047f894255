"""Nodes over time: sampled by heartbeats, written together, thinned by age; and their labels."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.errors import InvalidRequest, NotFound, PreconditionFailed, StoreUnavailable
from crawlfleet.model.node_sample import NodeSample, Resolution
from crawlfleet.model.requests import NodeChangeRequest
from crawlfleet.model.resources import Usage
from crawlfleet.model.settings import RetentionSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.model.wire.node_protocol import Heartbeat, Registration, ReportKind
from crawlfleet.testing.simulation.clock import EPOCH, run_simulated
from tests.control.stage import JOINER, PlayedNode, Stage, stage

HOUR = 3600.0


class Counting(MemoryStore):
    """Counts how often samples are written; fails when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[int] = []
        self.fails = False

    async def append_samples(self, samples: Sequence[NodeSample]) -> None:
        if self.fails:
            raise StoreUnavailable("not now")
        if samples:
            self.writes.append(len(samples))
        await super().append_samples(samples)


async def beat(on: Stage, node: PlayedNode, cpu: float = 0.5, active: tuple[str, ...] = ()) -> None:
    heartbeat = Heartbeat(
        resources=Usage(cpu_usage=cpu), load=cpu, active_tasks=active, session_id=node.session_id
    )
    await on.control.nodes.heartbeat(node.id, heartbeat)


async def read(
    on: Stage, node: PlayedNode, resolution: Resolution, **query: Any
) -> list[NodeSample]:
    return await on.control.history.read(
        node.id, resolution, **{"since": 0.0, "limit": 10_000, **query}
    )


def test_heartbeats_of_many_seconds_are_written_at_once() -> None:
    async def scene() -> None:
        store = Counting()
        async with stage(store) as on:
            nodes = [await on.node(f"n{number}") for number in range(3)]
            for _ in range(20):
                await asyncio.sleep(3)
                for node in nodes:
                    await beat(on, node)
            assert sum(store.writes) >= 40
            assert len(store.writes) <= 7
            assert len(await read(on, nodes[0], Resolution.RAW)) == 20
        assert sum(store.writes) == 60

    run_simulated(scene())


def test_what_waits_survives_a_store_that_fails_and_a_master_that_stops() -> None:
    async def scene() -> None:
        store = Counting()
        async with stage(store) as on:
            node = await on.node()
            store.fails = True
            for _ in range(10):
                await asyncio.sleep(3)
                await beat(on, node)
            assert store.writes == []
            store.fails = False
            await beat(on, node)
        assert sum(store.writes) == 10  # the last was too soon after the one before

    run_simulated(scene())


def test_a_sample_tells_what_the_node_did_since_the_one_before() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            for error in (None, ErrorClass.ERROR):
                task = await on.submit(max_retries=0)
                work = await node.take()
                await node.report(work, ReportKind.STARTED)
                await asyncio.sleep(2)
                kind = ReportKind.FAILED if error else ReportKind.SUCCEEDED
                await node.report(work, kind, error=error)
            await beat(on, node, active=(task.id,))
            await asyncio.sleep(2)
            await beat(on, node)
            first, second = await read(on, node, Resolution.RAW)
            assert (first.ended, first.errors, first.active_tasks) == (2, 1, 1)
            assert first.latency_s == pytest.approx(2.0, abs=0.01)
            assert (second.ended, second.errors, second.latency_s) == (0, 0, None)

    run_simulated(scene())


def test_history_is_read_as_coarse_as_asked_for_before_it_was_thinned() -> None:
    async def scene() -> None:
        async with stage() as on:
            await asyncio.sleep(60 - EPOCH % 60 + 0.5)
            node = await on.node()
            for number in range(40):
                await beat(on, node, cpu=0.0 if number < 20 else 1.0)
                await asyncio.sleep(2.9)
            minutes = await read(on, node, Resolution.MINUTE)
            assert [sample.count for sample in minutes] == [20, 20]
            assert [sample.cpu_usage for sample in minutes] == [0.0, 1.0]
            (hour,) = await read(on, node, Resolution.HOUR)
            assert (hour.count, hour.cpu_usage) == (40, 0.5)
            assert len(await read(on, node, Resolution.RAW, limit=3)) == 3
            assert len(await read(on, node, Resolution.MINUTE, since=minutes[1].at)) == 1

    run_simulated(scene())


@pytest.mark.slow
def test_history_gets_coarser_with_age_and_goes_in_the_end() -> None:
    async def scene() -> None:
        store = MemoryStore()
        retention = RetentionSettings(tasks_days=0, events_days=0, logs_days=0, history_days=1.5)
        async with stage(store, retention=retention) as on:
            node = await on.node()

            async def live(hours: int) -> None:
                for _ in range(hours * 360):
                    await beat(on, node)
                    await asyncio.sleep(10)

            async def kept(resolution: Resolution) -> list[NodeSample]:
                return await store.samples(
                    node.id, resolution, since=0.0, until=1e12, limit=100_000
                )

            await live(5)
            raw, minutes = await kept(Resolution.RAW), await kept(Resolution.MINUTE)
            assert 350 <= len(raw) <= 2 * 370
            assert 2.9 * 60 <= len(minutes) <= 4.1 * 60
            assert sum(s.count for s in raw + minutes) == pytest.approx(5 * 360, abs=2)
            await live(24)
            hours = await kept(Resolution.HOUR)
            assert 3 <= len(hours) <= 6
            assert len(await kept(Resolution.MINUTE)) <= 26 * 60
            total = await read(on, node, Resolution.HOUR)
            assert sum(sample.count for sample in total) == pytest.approx(29 * 360, abs=2)
            await live(24)
            hours = await kept(Resolution.HOUR)
            assert 12 - 3 <= len(hours) <= 12 + 3
            assert hours[0].at > EPOCH + (29 + 24 - 36 - 2) * HOUR - 4 * HOUR

    run_simulated(scene())


def test_many_nodes_are_thinned_in_portions() -> None:
    async def scene() -> None:
        async with stage() as on:
            nodes = [await on.node(f"n{number}") for number in range(7)]
            for _ in range(3):
                for node in nodes:
                    await beat(on, node)
                await asyncio.sleep(5)
            await on.control.history.write()
            await asyncio.sleep(2 * HOUR + 120)
            rounds = 1
            while await on.control.history.thin(nodes=3, keep_s=None):
                rounds += 1
            assert rounds == 3
            for node in nodes:
                assert (
                    await on.store.samples(node.id, Resolution.RAW, since=0.0, until=1e12, limit=10)
                    == []
                )

    run_simulated(scene())


def test_labels_of_operators_reach_placement_and_outlast_a_new_registration() -> None:
    async def scene() -> None:
        async with stage() as on:
            own = {"weight": "1", "spare": "yes"}
            node = await on.node(labels=own, description="its own words")
            before = on.control.nodes.get(node.id)
            wanted = NodeChangeRequest(
                labels={"weight": "5", "spare": None, "rack": "7"}, description="ours"
            )
            changed = await on.control.nodes.change(
                node.id, wanted, by="ada", version=before.version
            )
            expected = {"weight": "5", "rack": "7"}
            assert changed.labels == expected
            assert on.control.state.nodes[node.id].labels == expected
            assert on.control.state.fleet.node_at(0).labels == expected
            token = Registration(
                name="n", node_id=node.id, labels={**own, "new": "1"}, resources={"slots": 2}
            )
            by = type(JOINER)(role=JOINER.role, name=node.id, node_id=node.id)
            await on.control.nodes.register(token, by=by)
            again = on.control.nodes.get(node.id)
            assert again.labels == {**expected, "new": "1"}
            assert again.description == "ours"
            assert [e.kind for e in on.heard.events if e.kind == "node.changed"] == ["node.changed"]

    run_simulated(scene())


def test_a_change_of_what_has_changed_since_is_refused() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            await beat(on, node)
            version = on.control.nodes.get(node.id).version
            label = NodeChangeRequest(labels={"a": "1"})
            await on.control.nodes.change(node.id, label, by="ada", version=version)
            other = NodeChangeRequest(labels={"a": "2"})
            with pytest.raises(PreconditionFailed, match=node.id):
                await on.control.nodes.change(node.id, other, by="bob", version=version)
            await beat(on, node)  # heartbeats are no changes
            await on.control.nodes.change(node.id, other, by="bob", version=version + 1)
            assert on.control.nodes.get(node.id).labels == {"a": "2"}

    run_simulated(scene())


def test_a_change_that_cannot_be_is_refused_by_name() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            bad = NodeChangeRequest(labels={"no spaces": "x"}, description="\0")
            with pytest.raises(InvalidRequest) as refused:
                await on.control.nodes.change(node.id, bad, by="ada")
            fields = {problem.field for problem in refused.value.problems}
            assert fields == {"description", "labels.no spaces"}
            with pytest.raises(NotFound):
                await on.control.nodes.change("node-of-nobody", NodeChangeRequest(), by="ada")

    run_simulated(scene())
