"""Plan of placement: assigns ready tasks to nodes, computed from queue and fleet without changing
them.

Projects take turns within their quotas, the one that holds least of its share first. The tasks of a
project are placed group by group (one band of rank, one requirement): the nodes that can take the
group are found once, its strategy ranks them once, and the whole group is filled in. Each group
sees the resources that earlier groups took, so no node gets more than it has of any resource. A
group that does not fit does not hold up later groups, and nothing is reserved for it. So a task
that needs a whole node waits until a node is that empty when its turn comes.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from crawlfleet.core.placement.columns import Floats, NodeColumns, Rows
from crawlfleet.core.placement.explanation import explain
from crawlfleet.core.placement.fair_share import FairShare
from crawlfleet.core.placement.filters import OPEN, Pairs, filter_names, sorted_pairs
from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.core.placement.project_queues import ProjectQueues
from crawlfleet.core.placement.rules import PlacementRules, default_rules
from crawlfleet.core.placement.strategies import Ranking, least_loaded
from crawlfleet.core.placement.tenancy import Tenancy
from crawlfleet.core.placement.warming import Making, hopeful
from crawlfleet.core.resources import demand_of
from crawlfleet.model.bundle import CAPABILITY as BUNDLES
from crawlfleet.model.explanation import Explanation
from crawlfleet.model.secret import CAPABILITY as SECRETS
from crawlfleet.model.task import Requirement, Task, TaskStatus

SAMPLE: Final = 256
WARM: Final = 0.5
"""Bonus of a node that has the code's environment ready, in units of load: half a node's load."""

__all__ = [
    "Explanation",
    "PlacementPlan",
    "PlacementRules",
    "Rejections",
    "default_rules",
    "experience_of",
    "explain",
    "plan",
    "ready_for",
    "requirement_of",
]


def experience_of(task: Task) -> Pairs:
    """Return the content features that the node of a completed task has shown to handle; empty for
    other tasks."""
    return sorted_pairs(task.content_features) if task.status is TaskStatus.COMPLETED else ()


def ready_for(task: Task) -> str:
    """Return the digest of the environment that the task's node has, since the task runs or ran
    there; empty when that is not known."""
    has_begun = task.status in {TaskStatus.PROCESSING, TaskStatus.COMPLETED}
    return task.bundle.digest if task.bundle is not None and has_begun else ""


class Rejections(msgspec.Struct, frozen=True, kw_only=True):
    """Rejections of tasks with one requirement that were not placed."""

    counts: dict[str, int]
    """Number of nodes that each filter rejected; each node counts under the first that did."""
    tasks: int
    """Number of such tasks that still wait."""
    waited_s: float
    """Seconds that the first of the tasks has waited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPlan:
    """Proposal of assignments: it takes effect only if the store accepts it at the commit."""

    assignments: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of task and node, in the order in which they were placed."""
    unplaced: dict[Requirement, Rejections] = field(default_factory=dict)
    """Requirements that no node had room for, with the reasons, if the caller asked for these;
    tasks beyond the limit or a quota are not included."""
    faults: dict[str, str] = field(default_factory=dict)
    """Strategies that failed, with the error; another one was used in their place."""
    held: dict[Requirement, float] = field(default_factory=dict)
    """Requirements that wait for a node with their environment, and until when; they are not in
    `unplaced`."""


def requirement_of(task: Task) -> Requirement:
    """Return everything that placement needs to know of a task; equal for all tasks with equal
    needs."""
    return Requirement(
        task_type=task.task_type,
        cluster_id=task.cluster_id,
        node_type=task.node_type,
        capabilities=sorted_pairs(_capabilities(task)),
        demand=demand_of(task),
        strategy=task.schedule_strategy,
        target_region=task.target_region,
        content_features=sorted_pairs(task.content_features),
        bundle="" if task.bundle is None else task.bundle.digest,
    )


def _capabilities(task: Task) -> dict[str, Any]:
    """Return the capabilities that a node needs for the task, those implied by bundle and secrets
    included."""
    if task.bundle is None and not task.secrets:
        return task.capabilities
    of_code = {} if task.bundle is None else {BUNDLES: True}
    return {**task.capabilities, **of_code, **({SECRETS: True} if task.secrets else {})}


def plan(
    queue: ProjectQueues,
    fleet: Fleet,
    rules: PlacementRules,
    *,
    now: float,
    seed: int,
    limit: int,
    tenancy: Tenancy | None = None,
    making: Making | None = None,
    patience_s: float = 0.0,
    reasons: bool = True,
) -> PlacementPlan:
    """Place at most `limit` tasks; the arguments are not changed.

    Equal seeds and histories give equal plans. A strategy that is not known counts as the default.
    Without a tenancy all projects are alike. A task waits up to `patience_s` for nodes that have
    its environment or are `making` it. Without `reasons` the plan does not count rejections, which
    on a full fleet cost as much as the rest.
    """
    drawing = _Drawing(fleet, rules, seed)
    drawing.hold(queue, making or {}, now=now, patience_s=patience_s)
    made = drawing.plan
    left_over: dict[Requirement, str] = {}
    turns = FairShare(queue, tenancy or Tenancy(), ageing_s=rules.ageing_s, totals=fleet.totals)
    while len(made.assignments) < limit and (turn := turns.next()):
        requirement = turn.requirement()
        if requirement is None:
            continue
        portion = turns.portion(turn, requirement.demand)
        wanted = turn.offer(min(portion, limit - len(made.assignments)))
        nodes = drawing.fill(requirement, wanted, turn.project_id)
        made.assignments.extend(zip(turn.take(len(nodes)), nodes, strict=True))
        if len(nodes) < wanted:
            turn.close()
            left_over[requirement] = turn.project_id
        turns.put_back(turn)
    for requirement, project_id in left_over.items():
        if until := drawing.held_until(requirement, project_id):
            made.held[requirement] = until
            continue
        if not reasons:
            continue
        made.unplaced[requirement] = Rejections(
            counts=drawing.rejections(requirement, project_id),
            tasks=queue.waiting_for(requirement) - drawing.placed[requirement],
            waited_s=max(0.0, now - (queue.oldest(requirement) or now)),
        )
    return made


class _Drawing:
    """State of a plan while it is being made."""

    def __init__(self, fleet: Fleet, rules: PlacementRules, seed: int) -> None:
        self.plan = PlacementPlan()
        self.placed: dict[Requirement, int] = {}
        self._fleet = fleet
        self._rules = rules
        self._seed = seed
        self._draft = fleet.draft()
        self._candidates: dict[tuple[Requirement, bool, str], Rows] = {}
        self._census: tuple[Rows, Rows] | None = None
        self._held_until: Callable[[Requirement, str], float] = lambda *_: 0.0
        self._known_holds: dict[tuple[Requirement, str], float] = {}
        self._ready: dict[str, NDArray[np.bool_]] = {}

    def hold(self, queue: ProjectQueues, making: Making, *, now: float, patience_s: float) -> None:
        """Hold back tasks that need an environment, for the nodes that have it, up to the
        patience."""

        def until(requirement: Requirement, project_id: str) -> float:
            end = (queue.oldest(requirement) or 0.0) + patience_s
            if end <= now:
                return 0.0
            ids = hopeful(requirement, self._fleet, self._rules, making, project_id=project_id)
            return end if ids else 0.0

        self._held_until = until

    def held_until(self, requirement: Requirement, project_id: str) -> float:
        """Return until when such tasks wait for nodes that have their environment; 0 when they do
        not."""
        if not requirement.bundle:
            return 0.0
        key = requirement, project_id if self._fleet.has_reservations else ""
        known = self._known_holds.get(key)
        if known is None:
            known = self._known_holds[key] = self._held_until(*key)
        return known

    def fill(self, requirement: Requirement, wanted: int, project_id: str) -> list[str]:
        """Return the nodes for the next tasks of a project with this requirement; fewer than wanted
        when all are full. Executions are queued on a node only when none could start one."""
        # Where no node is kept for anybody, what is found for one project holds for all.
        owner = project_id if self._fleet.has_reservations else ""
        nodes = self._fill(requirement, wanted, owner, ahead=False)
        if len(nodes) < wanted and self._draft.takes_ahead:
            nodes += self._fill(requirement, wanted - len(nodes), owner, ahead=True)
        self.placed[requirement] = self.placed.get(requirement, 0) + len(nodes)
        return nodes

    def _fill(
        self, requirement: Requirement, wanted: int, project_id: str, *, ahead: bool
    ) -> list[str]:
        demand = requirement.demand
        rows = self._candidates.get((requirement, ahead, project_id))
        if rows is None:
            rows = self._draft.candidates(demand, ahead=ahead)
            if len(rows):
                verdicts = self._fleet.class_verdicts(requirement, self._rules.filters, project_id)
                rows = rows[verdicts.take(self._draft.class_of.take(rows)) == OPEN]
        # Room only shrinks while a plan is made: what does not fit now need not be tried again.
        if len(rows):
            rows = self._draft.fitting(rows, demand, ahead=ahead)
        self._candidates[requirement, ahead, project_id] = rows
        warm = None
        if requirement.bundle:
            warm = self._ready_rows(requirement.bundle)[rows]
            if self.held_until(requirement, project_id):
                rows, warm = rows[warm], warm[warm]
        if not len(rows):
            return []
        score, step = self._ranking(rows, requirement)
        if warm is not None:
            score = score - WARM * warm
        best = _best(score, wanted)
        chosen = rows[best]
        steps = step[best].tolist() if isinstance(step, np.ndarray) else [step] * len(best)
        room = self._draft.room(chosen, demand, wanted, ahead=ahead)
        order = chosen[_spread(score[best].tolist(), steps, room, wanted)]
        self._draft.place(order, demand)
        return [self._fleet.node_at(row).id for row in order.tolist()]

    def _ready_rows(self, digest: str) -> NDArray[np.bool_]:
        known = self._ready.get(digest)
        if known is None:
            known = self._ready[digest] = self._fleet.ready_rows(digest)
        return known

    def rejections(self, requirement: Requirement, project_id: str) -> dict[str, int]:
        """Return how many nodes each filter rejects for a project, when none has room left."""
        if self._census is None:
            self._census = self._fleet.census()
        open_by_class, closed = self._census
        names = filter_names(self._rules.filters)
        verdicts = self._fleet.class_verdicts(requirement, self._rules.filters, project_id)
        by_class = np.bincount(
            verdicts.astype(np.intp), weights=open_by_class, minlength=len(names) + 1
        )
        by_class[1 : len(closed)] += closed[1:]
        by_class[len(names)] += by_class[OPEN]  # All that was right about them but the room.
        counted = zip(names, by_class[1:].tolist(), strict=True)
        return {name: int(count) for name, count in counted if count}

    def _ranking(self, rows: Rows, requirement: Requirement) -> Ranking:
        nodes = NodeColumns(self._draft, rows)
        self._seed += 1
        of_cluster = self._fleet.strategy_of(requirement.cluster_id)
        for name in (requirement.strategy, of_cluster, self._rules.default_strategy):
            ranking = self._ranked_by(name, nodes, requirement)
            if ranking is not None:
                return ranking
        return least_loaded(nodes, requirement, self._seed)

    def _ranked_by(
        self, name: str | None, nodes: NodeColumns, requirement: Requirement
    ) -> Ranking | None:
        """Return a strategy's ranking, checked for use; `None` when it failed."""
        strategy = self._rules.strategies.get(name) if name is not None else None
        if name is None or strategy is None:
            return None
        try:
            score, step = strategy(nodes, requirement, self._seed)
            return _usable(score, step, len(nodes))
        except Exception as error:
            self.plan.faults[name] = f"{type(error).__name__}: {error}"
            return None


def _usable(score: Floats, step: Floats | float, nodes: int) -> Ranking:
    """Return a plug-in's ranking, checked for use. Raises `ValueError` for a wrong length."""
    score = np.asarray(score, dtype=np.float64)
    if score.shape != (nodes,) or np.shape(step) not in ((), (nodes,)):
        raise ValueError(
            f"a ranking of {nodes} nodes needs as many scores, and as many steps or one"
        )
    if np.isnan(score.min()):
        score = np.where(np.isnan(score), np.inf, score)
    if isinstance(step, np.ndarray):
        return Ranking(score, np.fmax(step, 0.0))
    return Ranking(score, step if step > 0 else 0.0)


def _best(score: Floats, number: int) -> Rows:
    """Return the positions of the lowest scores, lowest first; ties in the order of positions."""
    if number == 1:
        return np.array([score.argmin()])
    if number >= len(score):
        return np.argsort(score, kind="stable")
    pool = _promising(score, number)
    best = pool[_lowest(score.take(pool), number)] if pool is not None else _lowest(score, number)
    return best[np.argsort(score.take(best), kind="stable")]


def _promising(score: Floats, number: int) -> Rows | None:
    """Return positions that include those of the lowest scores, when few of many are wanted.

    A sample gives the threshold; selecting among all is the most expensive step of a large fleet's
    plan.
    """
    stride = len(score) // SAMPLE
    rank = 2 * number * SAMPLE // len(score) + 8
    if stride < 4 or rank > SAMPLE // 2:
        return None
    pool = np.flatnonzero(score <= np.sort(score[::stride])[rank])
    return pool if len(pool) >= number else None


def _lowest(score: Floats, number: int) -> Rows:
    """Return the positions of the lowest scores, of equal ones the first, in no order."""
    if number >= len(score):
        return np.arange(len(score))
    threshold = np.partition(score, number - 1)[number - 1]
    below = np.flatnonzero(score < threshold)
    equal = np.flatnonzero(score == threshold)[: number - len(below)]
    return np.sort(np.concatenate([below, equal]))


def _spread(levels: list[float], steps: list[float], room: list[int], wanted: int) -> list[int]:
    """Distribute tasks over nodes: each goes to the lowest level, which then rises by the node's
    step.

    The nodes come sorted by level, each with room for at least one; so for `wanted` tasks no more
    than `wanted` nodes can matter. Returns the position of the node for each task.
    """
    if wanted == 1:
        return [0]
    heap = list(zip(levels, range(len(levels)), strict=True))
    order: list[int] = []
    while heap and len(order) < wanted:
        level, position = heap[0]
        order.append(position)
        room[position] -= 1
        if room[position]:
            heapq.heapreplace(heap, (level + steps[position], position))
        else:
            heapq.heappop(heap)
    return order
