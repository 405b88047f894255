"""Nodes in memory, as columns of numbers that are changed in place.

The control plane reports each change (a node came, measured its load, got work, returned it);
placement takes a draft of the fleet when it plans. Each change costs the same however large the
fleet is. Rows move when a node is dropped, so code outside must not keep a row. Reservations belong
to the node's id: they survive a drop, and may be made before the node is known.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from crawlfleet.core.placement.columns import Draft, Floats, NodeClasses, Rows, static_key
from crawlfleet.core.placement.filters import (
    BUSY,
    CLUSTER,
    HEALTH,
    OPEN,
    RESERVED,
    Filters,
    NodeClass,
    Pairs,
    class_of,
    class_verdict,
    closed_by,
    filter_names,
)
from crawlfleet.core.resources import UNITS, from_units, units
from crawlfleet.model.bundle import MAX_TOLD
from crawlfleet.model.node import Node
from crawlfleet.model.resources import NOTHING, RESOURCE_NAMES, Resources
from crawlfleet.model.task import Requirement


class Readiness:
    """Environments that nodes have ready: digests by node, and nodes by digest."""

    def __init__(self) -> None:
        self._digests: dict[str, dict[str, None]] = {}
        """Environments of each node; the one reported last is at the end."""
        self._nodes: dict[str, dict[str, None]] = {}
        self._tell: set[str] = set()

    def nodes(self, digest: str) -> Collection[str]:
        """Return the nodes that have the environment with this digest."""
        return self._nodes.get(digest, {}).keys()

    def has(self, node_id: str, digest: str) -> bool:
        return digest in self._digests.get(node_id, {})

    def tells(self, node_id: str) -> bool:
        """Return whether the node has ever reported its environments; nodes of earlier versions do
        not."""
        return node_id in self._tell

    def add(self, node_id: str, digest: str) -> None:
        """Add an environment of a node; beyond the limit, the one reported longest ago is
        forgotten."""
        digests = self._digests.setdefault(node_id, {})
        digests.pop(digest, None)
        digests[digest] = None
        self._nodes.setdefault(digest, {})[node_id] = None
        if len(digests) > MAX_TOLD:
            self._take(node_id, next(iter(digests)))

    def replace(self, node_id: str, digests: Iterable[str]) -> bool:
        """Replace the environments of a node; return whether they differ from the known ones."""
        self._tell.add(node_id)
        told = dict.fromkeys(digests)
        before = self._digests.get(node_id, {}).keys()
        is_news = before != told.keys()
        for digest in before - told.keys():
            self._take(node_id, digest)
        for digest in told:
            self.add(node_id, digest)
        return is_news

    def drop(self, node_id: str) -> None:
        """Forget a node."""
        self.replace(node_id, ())
        self._digests.pop(node_id, None)
        self._tell.discard(node_id)

    def _take(self, node_id: str, digest: str) -> None:
        del self._digests[node_id][digest]
        nodes = self._nodes[digest]
        del nodes[node_id]
        if not nodes:
            del self._nodes[digest]


REMEMBERED_FEATURES: Final = 256
FIRST_ROWS: Final = 16
SMALLEST_WEIGHT: Final = 1e-6
HIGHEST_LOAD: Final = 100.0
SPARE_CLASSES: Final = 256
"""Limit of classes without a node; beyond it all classes are numbered anew."""


class Fleet:
    """Fleet of nodes for placement: reservations, experience and ready environments of each."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._row: dict[str, int] = {}
        self._capacity: Floats = np.zeros((len(RESOURCE_NAMES), FIRST_ROWS))
        self._inverse: Floats = np.zeros((len(RESOURCE_NAMES), FIRST_ROWS))
        self._reserved: Floats = np.zeros((len(RESOURCE_NAMES), FIRST_ROWS))
        self._ahead: Floats = np.zeros(FIRST_ROWS)
        self._load: Floats = np.zeros(FIRST_ROWS)
        self._active: Floats = np.zeros(FIRST_ROWS)
        self._turn: Floats = np.zeros(FIRST_ROWS)
        self._weight: Floats = np.ones(FIRST_ROWS)
        self._closed: NDArray[np.int8] = np.zeros(FIRST_ROWS, dtype=np.int8)
        self._class_of: Rows = np.zeros(FIRST_ROWS, dtype=np.intp)
        self._experience: dict[Any, NDArray[np.bool_]] = {}
        self._ready = Readiness()
        self._last_turn = 0.0
        self._away: dict[str, tuple[Floats, int]] = {}
        self._unsettled: dict[tuple[str, Resources], int] = {}
        """Reservations less releases per node and amount since the columns were last read: between
        two plans thousands of executions begin and end."""
        self._taken: dict[str, float] = {}
        """Last turn of each node that got work since the columns were last read."""
        self._closed_clusters: frozenset[str] = frozenset()
        self._strategies: dict[str, str] = {}
        self._reservations: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
        self.classes = NodeClasses()

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node_id: str) -> bool:
        return node_id in self._row

    def put(self, node: Node) -> None:
        """Add a node, or update its values; its reservations stay."""
        self._settle()
        row = self._row.get(node.id)
        if row is None:
            row = self._new_row(node)
        self._nodes[row] = node
        capacity = units(node.resources)
        self._capacity[:, row] = capacity
        self._inverse[:, row] = np.where(capacity > 0, 1.0 / np.maximum(capacity, 1.0), 0.0)
        self._weight[row] = _weight(node)
        self._closed[row] = closed_by(node)
        self._class_of[row] = self.classes.number(class_of(node))
        if len(self.classes) > 2 * len(self._nodes) + SPARE_CLASSES:
            self._renumber_classes()

    def drop(self, node_id: str) -> None:
        """Forget a node; its reservations are kept in case it comes back."""
        self._settle()
        row = self._row.pop(node_id, None)
        if row is None:
            return
        self._ready.drop(node_id)
        if self._active[row]:
            self._away[node_id] = (self._reserved[:, row].copy(), int(self._active[row]))
        last = len(self._nodes) - 1
        moved = self._nodes.pop()
        if row != last:
            self._nodes[row] = moved
            self._row[moved.id] = row
        for column in self._columns():
            column[..., row] = column[..., last]
        for column in (self._reserved, self._ahead, self._load, self._active, self._turn):
            column[..., last] = 0
        for done in self._experience.values():
            done[last] = False

    def allow_ahead(self, node_id: str, executions: int) -> None:
        """Allow this number of executions to be queued on a node once no node has a slot for them;
        ignored when the node is not known."""
        row = self._row.get(node_id)
        if row is not None:
            self._ahead[row] = executions * UNITS

    def observe(self, node_id: str, load: float) -> None:
        """Record the load that a node measured; ignored when the node is not known."""
        row = self._row.get(node_id)
        if row is not None:
            self._load[row] = min(load, HIGHEST_LOAD) if load > 0 else 0.0

    def reserve(self, node_id: str, amount: Resources) -> None:
        """Reserve an amount on the node for an execution, until it is released."""
        self._note(node_id, amount, 1)
        self._last_turn += 1
        self._taken[node_id] = self._last_turn

    def release(self, node_id: str, amount: Resources) -> None:
        """Release the reservation of an execution; `amount` must be the one that was reserved."""
        self._note(node_id, amount, -1)

    def _note(self, node_id: str, amount: Resources, step: int) -> None:
        key = node_id, amount
        count = self._unsettled.pop(key, 0) + step
        if count:
            self._unsettled[key] = count

    def _settle(self) -> None:
        """Bring the columns up to date: before they are read, and before rows move."""
        for (node_id, amount), count in self._unsettled.items():
            row = self._row.get(node_id)
            if row is not None:
                reserved = self._reserved[:, row] + count * units(amount)
                self._reserved[:, row] = np.maximum(reserved, 0.0)
                self._active[row] = max(self._active[row] + count, 0)
            else:
                away, active = self._away.get(node_id, (units(NOTHING), 0))
                if active + count > 0:
                    left = np.maximum(away + count * units(amount), 0.0)
                    self._away[node_id] = (left, active + count)
                else:
                    self._away.pop(node_id, None)
        for node_id, turn in self._taken.items():
            row = self._row.get(node_id)
            if row is not None:
                self._turn[row] = turn
        self._unsettled.clear()
        self._taken.clear()

    def set_cluster(self, cluster_id: str, accepting: bool) -> None:
        """Set whether the nodes of a cluster accept new work; a cluster that was never set accepts
        it."""
        if accepting:
            self._closed_clusters -= {cluster_id}
        else:
            self._closed_clusters |= {cluster_id}

    def set_strategy(self, cluster_id: str, name: str | None) -> None:
        """Set the strategy for tasks of a cluster that name none; `None` sets the fleet's
        strategy."""
        if name is None:
            self._strategies.pop(cluster_id, None)
        else:
            self._strategies[cluster_id] = name

    def strategy_of(self, cluster_id: str) -> str | None:
        """Return the cluster's own default strategy, or `None`."""
        return self._strategies.get(cluster_id)

    def keep_nodes(self, reservations: Mapping[str, tuple[tuple[str, str], ...]]) -> None:
        """Reserve nodes for projects: a node is reserved for a project if it has all of its labels.
        Replaces all earlier reservations."""
        self._reservations = tuple(sorted(reservations.items()))

    @property
    def has_reservations(self) -> bool:
        """True if any node is reserved for a project."""
        return bool(self._reservations)

    def owners(self, kind: NodeClass) -> list[str]:
        """Return the projects for which nodes of a class are reserved; empty when they are for
        all."""
        labels = {*kind.labels}
        return [project for project, wanted in self._reservations if labels.issuperset(wanted)]

    def remember_success(self, node_id: str, content_features: Pairs) -> None:
        """Record that the node finished work with these features; `content_based` prefers it for
        equal ones.

        The features met last are remembered, `REMEMBERED_FEATURES` of them.
        """
        row = self._row.get(node_id)
        if row is None:
            return
        for feature in content_features:
            done = self._experience.pop(feature, None)
            if done is None:
                done = np.zeros(len(self._load), dtype=np.bool_)
            done[row] = True
            self._experience[feature] = done
        while len(self._experience) > REMEMBERED_FEATURES:
            del self._experience[next(iter(self._experience))]

    def add_ready(self, node_id: str, digest: str) -> None:
        """Record that the node has this environment; ignored when the node is not known."""
        if node_id in self._row:
            self._ready.add(node_id, digest)

    def replace_ready(self, node_id: str, digests: Iterable[str]) -> bool:
        """Replace the environments of a node; return whether they differ from the known ones.
        Ignored when the node is not known."""
        return node_id in self._row and self._ready.replace(node_id, digests)

    def ready(self, digest: str) -> list[str]:
        """Return the ids of the nodes that have an environment."""
        return list(self._ready.nodes(digest))

    def has_ready(self, node_id: str, digest: str) -> bool:
        """Return whether a node is known to have an environment."""
        return self._ready.has(node_id, digest)

    def tells_ready(self, node_id: str) -> bool:
        """Return whether a node reports which environments it has."""
        return self._ready.tells(node_id)

    def ready_rows(self, digest: str) -> NDArray[np.bool_]:
        """Return a mask of the rows of a draft that have an environment; valid until the fleet
        changes."""
        found = np.zeros(len(self._nodes), dtype=np.bool_)
        found[[self._row[id] for id in self._ready.nodes(digest)]] = True
        return found

    def promising(
        self,
        ids: Iterable[str],
        requirement: Requirement,
        filters: Filters,
        project_id: str = "",
    ) -> list[str]:
        """Return those of the nodes that could take such a task if they had free resources."""
        lasting = self.lasting_verdicts(requirement, filters, project_id)
        is_open = (self.verdicts(requirement, filters, project_id) == OPEN) & (lasting == OPEN)
        rows = ((id, self._row.get(id)) for id in ids)
        return [id for id, row in rows if row is not None and is_open[row]]

    def capacity(self, node_id: str) -> Resources:
        """Return the node's whole capacity. Raises `KeyError` when the node is not known."""
        return from_units(self._capacity[:, self._row[node_id]])

    def reserved(self, node_id: str) -> Resources:
        """Return the resources that executions hold on the node. Raises `KeyError` when the node is
        not known."""
        self._settle()
        return from_units(self._reserved[:, self._row[node_id]])

    def free(self, node_id: str) -> Resources:
        """Return the free part of the node's capacity. Raises `KeyError` when the node is not
        known."""
        self._settle()
        row = self._row[node_id]
        return from_units(np.maximum(self._capacity[:, row] - self._reserved[:, row], 0.0))

    @property
    def is_shut(self) -> bool:
        """True if no node takes any new work now."""
        return not self._nodes or not (self._shut() == OPEN).any()

    def totals(self) -> list[float]:
        """Return the total of each resource on the nodes that take work, in millionths."""
        is_open = self._shut() == OPEN
        totals: list[float] = self._capacity[:, : len(self._nodes)][:, is_open].sum(axis=1).tolist()
        return totals

    def load(self, node_id: str) -> float:
        """Return the load that the node measured last. Raises `KeyError` when the node is not
        known."""
        return float(self._load[self._row[node_id]])

    def count(self, node_id: str) -> int:
        """Return the number of executions on the node. Raises `KeyError` when the node is not
        known."""
        self._settle()
        return int(self._active[self._row[node_id]])

    def node_at(self, row: int) -> Node:
        """Return the node in a row of a draft that was taken since the last change."""
        return self._nodes[row]

    def accepts_work(self, cluster_id: str) -> bool:
        """Return whether a cluster accepts new work."""
        return cluster_id not in self._closed_clusters

    def draft(self) -> Draft:
        """Return a copy of the columns for one plan; valid until the fleet is changed."""
        self._settle()
        size = len(self._nodes)
        return Draft(
            capacity=self._capacity[:, :size],
            inverse=self._inverse[:, :size],
            reserved=self._reserved[:, :size],
            ahead=self._ahead[:size],
            load=self._load[:size],
            active=self._active[:size],
            turn=self._turn[:size],
            weight=self._weight[:size],
            accepting=self._shut() == OPEN,
            class_of=self._class_of[:size],
            classes=self.classes,
            experience=self._experience,
        )

    def class_verdicts(
        self, requirement: Requirement, filters: Filters, project_id: str = ""
    ) -> Floats:
        """Return the verdict on each class: `OPEN`, or the number of the filter that rejects it.

        Of the reserved nodes, those of `project_id` are open.
        """
        # A user's filter may look at all of the requirement, ours look at little.
        key = (requirement, *filters.items()) if filters else static_key(requirement)
        verdicts = self.classes.answers(
            ("verdict", key), lambda kind: class_verdict(requirement, kind, filters)
        )
        if self._reservations:
            kept = self.classes.answers(
                ("kept", self._reservations, project_id),
                lambda kind: float(bool(owners := self.owners(kind)) and project_id not in owners),
            )
            later = (verdicts == OPEN) | (verdicts > RESERVED)
            verdicts = np.where((kept > 0) & later, float(RESERVED), verdicts)
        closed = self._closed_clusters
        if not closed:
            return verdicts
        takes_none = self.classes.answers(
            ("closed", closed), lambda kind: float(kind.cluster_id in closed)
        )
        return np.where(takes_none > 0, float(CLUSTER), verdicts)

    def verdicts(self, requirement: Requirement, filters: Filters, project_id: str = "") -> Rows:
        """Return the first filter that rejects each node, resources aside, as `class_verdicts`."""
        size = len(self._nodes)
        closed = self._shut().astype(np.intp)
        of_class = self.class_verdicts(requirement, filters, project_id)[self._class_of[:size]]
        return np.where(closed != OPEN, closed, of_class.astype(np.intp))

    def lasting_verdicts(
        self, requirement: Requirement, filters: Filters, project_id: str = ""
    ) -> Rows:
        """Return for each node the filter that rejects it for good: as `class_verdicts`, or the
        number after the last filter's where the node is too small; `OPEN` where none does."""
        size = len(self._nodes)
        of_class = self.class_verdicts(requirement, filters, project_id)[self._class_of[:size]]
        too_small = (units(requirement.demand)[:, None] > self._capacity[:, :size]).any(axis=0)
        beyond = len(filter_names(filters)) + 1
        return np.where(of_class != OPEN, of_class, np.where(too_small, beyond, OPEN)).astype(
            np.intp
        )

    def census(self) -> tuple[Rows, NDArray[np.int64]]:
        """Return the number of open nodes of each class, and the number that each early filter
        closes."""
        size = len(self._nodes)
        closed = self._shut()
        open_classes = self._class_of[:size][closed == OPEN]
        return np.bincount(open_classes, minlength=len(self.classes)), np.bincount(closed)

    def _shut(self) -> NDArray[np.int8]:
        """Return for each node the early filter that closes it; a node that is only busy is open
        while it is idle."""
        self._settle()
        size = len(self._nodes)
        closed = self._closed[:size]
        if not (busy := closed == BUSY).any():
            return closed
        return np.where(busy, np.where(self._active[:size] > 0, HEALTH, OPEN), closed)

    def _new_row(self, node: Node) -> int:
        row = len(self._nodes)
        if row == len(self._load):
            self._grow()
        self._nodes.append(node)
        self._row[node.id] = row
        reserved, active = self._away.pop(node.id, (units(NOTHING), 0))
        self._reserved[:, row] = reserved
        self._active[row] = active
        return row

    def _grow(self) -> None:
        """Double the columns; rarely enough that an insertion costs the same on average."""
        self._capacity = np.concatenate([self._capacity, np.zeros_like(self._capacity)], axis=1)
        self._inverse = np.concatenate([self._inverse, np.zeros_like(self._inverse)], axis=1)
        self._reserved = np.concatenate([self._reserved, np.zeros_like(self._reserved)], axis=1)
        self._ahead = np.concatenate([self._ahead, np.zeros_like(self._ahead)])
        self._load = np.concatenate([self._load, np.zeros_like(self._load)])
        self._active = np.concatenate([self._active, np.zeros_like(self._active)])
        self._turn = np.concatenate([self._turn, np.zeros_like(self._turn)])
        self._weight = np.concatenate([self._weight, np.ones_like(self._weight)])
        self._closed = np.concatenate([self._closed, np.zeros_like(self._closed)])
        self._class_of = np.concatenate([self._class_of, np.zeros_like(self._class_of)])
        for feature, done in self._experience.items():
            self._experience[feature] = np.concatenate([done, np.zeros_like(done)])

    def _columns(self) -> tuple[NDArray[Any], ...]:
        return (
            self._capacity,
            self._inverse,
            self._reserved,
            self._ahead,
            self._load,
            self._active,
            self._turn,
            self._weight,
            self._closed,
            self._class_of,
            *self._experience.values(),
        )

    def _renumber_classes(self) -> None:
        """Drop the classes without a node and number the others anew."""
        self.classes = NodeClasses()
        for row, node in enumerate(self._nodes):
            self._class_of[row] = self.classes.number(class_of(node))


def _weight(node: Node) -> float:
    """Return the label `weight` when it is a number, else the CPU cores, else one."""
    try:
        weight = float(node.labels["weight"])
    except (KeyError, ValueError):
        weight = node.resources.cpu_cores or 1.0
    return max(weight, SMALLEST_WEIGHT) if weight == weight else 1.0
