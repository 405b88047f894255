"""Random histories: a store must answer every step as the memory store does."""

import asyncio
import random
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from crawlfleet.adapters.store.acceptance import rows_by_kind
from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.features.secrets.table import SECRETS
from crawlfleet.model.change import NEVER
from crawlfleet.model.node import NodeStatus
from crawlfleet.model.task import Execution, ExecutionStatus, Task, TaskStatus
from crawlfleet.ports.kernel_tables import BUNDLES, CLUSTERS, KEYS, PROJECTS, configurations_of
from crawlfleet.ports.store import Change, Committed, Store, TaskFilter
from crawlfleet.testing.store_suite.harness import Harness
from crawlfleet.testing.store_suite.samples import (
    NOW,
    make_bundle,
    make_claim,
    make_cluster,
    make_configuration,
    make_event,
    make_execution,
    make_key,
    make_node,
    make_project,
    make_secret,
    make_session,
    make_task,
)

HISTORIES = 20
STEPS = 60
IDS = 6
"""Few ids, so that the steps meet each other."""


def _task(number: int) -> Task:
    """Whatever never changes follows from the number."""
    return make_task(
        number,
        project_id="p" if number % 2 else "default",
        workflow_id="w" if number % 3 else None,
    )


def _execution(number: int) -> Execution:
    """One of three attempts of a task, two of them with the same token."""
    return make_execution(number, task_id=f"task-{number // 3:04}", token=1 + number % 2)


class _Chance:
    """Draws steps, most of which fit the accepted changes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._accepted: dict[str, int] = {}
        self._versions: dict[str, int] = {}
        self._epoch = 0

    def learn(self, changes: list[Change], committed: Committed) -> None:
        """Take note of which changes of the batch drawn last were made."""
        for change, refusal in zip(changes, committed.refusals, strict=True):
            if refusal is None:
                for row in chain.from_iterable(rows for _, rows in rows_by_kind(change)):
                    self._accepted[row.id] = row.version
        self._versions = dict(self._accepted)

    def _row(self, make: Any, **choices: list[Any]) -> Any:
        row = make(self._random.randrange(IDS))
        usual = self._versions.get(row.id, 0) + 1
        version = self._random.choices([usual, 1, usual - 1, usual + 1], [0.9, 0.06, 0.02, 0.02])[0]
        self._versions[row.id] = version
        fields = {name: self._random.choice(values) for name, values in choices.items()}
        return msgspec.structs.replace(row, version=version, **fields)

    def _some(self, make: Any, share: float, **choices: list[Any]) -> tuple[Any, ...]:
        count = self._random.choice([1, 1, 2]) if self._random.random() < share else 0
        return tuple(self._row(make, **choices) for _ in range(count))

    def _change(self) -> Change:
        ids = [None, *(f"node-{n:04}" for n in range(3))]
        times = [None, NOW, NOW + 5, NOW + 10]
        return Change(
            rows=(
                *self._some(make_project, 0.1),
                *self._some(make_cluster, 0.1),
                *self._some(make_key, 0.1),
                *self._some(make_configuration, 0.1),
                *self._some(make_bundle, 0.1),
                *self._some(make_secret, 0.1, sealed=["", "1.0.AAAA"]),
            ),
            nodes=self._some(make_node, 0.2, status=list(NodeStatus)),
            sessions=self._some(make_session, 0.2, ended_at=times),
            tasks=self._some(
                _task,
                0.7,
                status=list(TaskStatus),
                completed_at=times,
                assigned_node=ids,
                dead_reason=[None, None, "poison"],
            ),
            executions=self._some(_execution, 0.4, status=list(ExecutionStatus)),
            claims=tuple(self._claim() for _ in range(self._random.choice([0, 0, 1, 2]))),
            events=tuple(self._event() for _ in range(self._random.choice([0, 1, 2]))),
            under=self._random.choice([None] * 8 + ["sess-0000", "sess-0001"]),
            epoch=self._random.choice([None] * 6 + [self._epoch] * 3 + [self._epoch - 1]),
        )

    def _claim(self) -> Any:
        at = NOW + self._random.randrange(10)
        return make_claim(
            f"task-{self._random.randrange(IDS):04}",
            key=self._random.choice(["k1", "k2", "k3"]),
            at=at,
            expires_at=self._random.choice([NEVER, *(at + wait for wait in range(8))]),
        )

    def _event(self) -> Any:
        return make_event(self._random.choice(["a", "b"]), at=NOW + self._random.randrange(10))

    def step(self) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """The name of a method of the store, and its arguments."""
        draw = self._random.randrange(13)
        if draw == 0:
            self._epoch += 1
            return "lead", ("me",), {}
        if draw == 1:
            return "move_cursor", ("c", self._random.randrange(20)), {}
        if draw in (2, 3, 4):
            method = ("remove_finished", "remove_events", "remove_sessions")[draw - 2]
            before = NOW + self._random.randrange(8)
            return method, (), {"before": before, "limit": self._random.randrange(4)}
        return "commit", ([self._change() for _ in range(self._random.randrange(1, 6))],), {}


async def _everything(store: Store) -> list[Any]:
    """All that can be read of a store, in an order that does not depend on it."""
    ids = [f"task-{n:04}" for n in range(IDS)]
    filters = [
        TaskFilter(),
        TaskFilter(dead=True),
        TaskFilter(status=(TaskStatus.PENDING, TaskStatus.FAILED)),
        TaskFilter(project_id="p"),
        TaskFilter(workflow_id="w", dead=False),
        TaskFilter(assigned_node="node-0001"),
    ]
    return [
        [await store.get(PROJECTS, f"proj-{n:04}") for n in range(IDS)],
        await store.find(PROJECTS.where()),
        await store.find(CLUSTERS.where()),
        await store.find(configurations_of("clus-0001", before=None, limit=100)),
        await store.find(BUNDLES.where()),
        await store.find(SECRETS.where()),
        await store.nodes(),
        await store.nodes([NodeStatus.ONLINE]),
        [await store.session(f"sess-{n:04}") for n in range(IDS)],
        await store.live_sessions(),
        await store.tasks(ids),
        [await store.find_tasks(wanted, after=None, limit=4) for wanted in filters],
        await store.count_tasks(),
        await store.count_tasks("p"),
        await store.count_tasks_by_project(),
        await store.count_unfinished("default"),
        [portion async for portion in store.unfinished_tasks()],
        [await store.executions(task_id) for task_id in ids],
        await store.live_executions(),
        await store.find(KEYS.where()),
        await store.events(after=0, limit=1000),
        await store.events(after=3, limit=5, subject="a"),
        await store.cursor("c"),
    ]


class HistoryTests(Harness):
    def test_random_histories_end_as_in_the_memory_store(self, tmp_path: Path) -> None:
        for seed in range(HISTORIES):
            folder = tmp_path / str(seed)
            folder.mkdir()
            asyncio.run(self._compare(seed, self.make_store(folder)))

    async def _compare(self, seed: int, store: Store) -> None:
        chance, model = _Chance(seed), MemoryStore()
        await model.open()
        await store.open()
        try:
            for number in range(STEPS):
                method, args, named = chance.step()
                expected = _seen(await getattr(model, method)(*args, **named))
                actual = _seen(await getattr(store, method)(*args, **named))
                assert actual == expected, f"history {seed}, step {number}: {method}"
                if method == "commit":
                    chance.learn(args[0], expected)
                if number % 10 == 9:
                    wanted = await _everything(model)
                    for mine, theirs in zip(await _everything(store), wanted, strict=True):
                        assert _timeless(mine) == _timeless(theirs), f"history {seed}, {number}"
        finally:
            await store.close()


def _timeless(rows: Any) -> Any:
    """Drop the default rows, whose time of creation is the store's own."""
    if isinstance(rows, list):
        return [row for row in rows if getattr(row, "id", None) != "default"]
    return rows


def _seen(answer: Any) -> Any:
    """Return the comparable part of an answer."""
    return getattr(answer, "epoch", answer)
