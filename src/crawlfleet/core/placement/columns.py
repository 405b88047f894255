"""Columns of numbers about the nodes: a plan calculates on them, and strategies rank by them.

A `Draft` is a copy of everything that placing changes; the plan writes its placements into it, so
that the next group sees the resources that earlier groups took. `NodeColumns` is a strategy's view
of the nodes that can take the work: one entry per node in each column, always in the same order.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from crawlfleet.core.placement.filters import NodeClass
from crawlfleet.core.resources import SLOTS, UNITS, demanded
from crawlfleet.model.resources import RESOURCE_NAMES, Resources
from crawlfleet.model.task import Requirement

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

REMEMBERED_ANSWERS: Final = 4096


class NodeClasses:
    """Numbered classes of nodes, with cached answers about each."""

    def __init__(self) -> None:
        self._numbers: dict[NodeClass, int] = {}
        self._kinds: list[NodeClass] = []
        self._answers: dict[Hashable, Floats] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    def __getitem__(self, number: int) -> NodeClass:
        return self._kinds[number]

    def number(self, kind: NodeClass) -> int:
        """Return the number of a class; a new number when the class was not known."""
        known = self._numbers.get(kind)
        if known is None:
            known = self._numbers[kind] = len(self._kinds)
            self._kinds.append(kind)
        return known

    def answers(self, key: Hashable, ask: Callable[[NodeClass], float]) -> Floats:
        """Return `ask`'s answer for each class, by number; each class is asked once per key."""
        known = self._answers.get(key)
        if known is not None and len(known) == len(self._kinds):
            return known
        if known is None:
            known = np.empty(0)
            if len(self._answers) >= REMEMBERED_ANSWERS:
                self._answers.clear()
        new = [float(ask(kind)) for kind in self._kinds[len(known) :]]
        self._answers[key] = known = np.concatenate([known, new])
        return known


class Draft:
    """Copy of the changing columns of a fleet, for trying out placements."""

    def __init__(
        self,
        *,
        capacity: Floats,
        inverse: Floats,
        reserved: Floats,
        ahead: Floats,
        load: Floats,
        active: Floats,
        turn: Floats,
        weight: Floats,
        accepting: NDArray[np.bool_],
        class_of: Rows,
        classes: NodeClasses,
        experience: dict[Any, NDArray[np.bool_]],
    ) -> None:
        self.capacity = capacity
        self.inverse = inverse
        self.free = capacity - reserved
        """Free amounts of the nodes' own capacity; free slots are negative where executions are
        queued."""
        self._ahead = ahead
        self.takes_ahead = bool(ahead.any())
        """True if executions may be queued on any node."""
        self.load = load
        self.active = active.copy()
        self.turn = turn.copy()
        self.weight = weight
        self.class_of = class_of
        self.classes = classes
        self.experience = experience
        self.open = np.flatnonzero(accepting)
        self._with_slot: dict[bool, Rows] = {}
        self._share: Floats | None = None
        self._last_turn = float(turn.max(initial=0.0))

    @property
    def share(self) -> Floats:
        """Share of its scarcest resource that is reserved on each node: 0 empty, 1 full, more when
        executions are queued."""
        if self._share is None:
            used = (self.capacity - self.free) * self.inverse
            self._share = np.maximum.reduce(used, axis=0)
        return self._share

    def candidates(self, demand: Resources, *, ahead: bool) -> Rows:
        """Return the nodes that may have room for such a demand; with `ahead` also those that could
        only queue it. On a busy fleet few nodes have a free slot, and only these are looked at."""
        if not demand.slots:
            return self.open
        rows = self._with_slot.get(ahead)
        if rows is None:
            rows = self.open[self._free(SLOTS, self.open, ahead=ahead) > 0]
            self._with_slot[ahead] = rows
        return rows

    def fitting(self, rows: Rows, demand: Resources, *, ahead: bool) -> Rows:
        """Return those of the rows that have the demand free."""
        for index, amount in demanded(demand):
            rows = rows[self._free(index, rows, ahead=ahead) >= amount]
        return rows

    def room(self, rows: Rows, demand: Resources, most: int, *, ahead: bool) -> list[int]:
        """Return the number of times that the demand is free on each row, at most `most`."""
        if most == 1:
            return [1] * len(rows)
        room = np.full(len(rows), float(most))
        for index, amount in demanded(demand):
            np.minimum(room, self._free(index, rows, ahead=ahead) // amount, out=room)
        return room.astype(np.intp).tolist()

    def place(self, order: Rows, demand: Resources) -> None:
        """Reserve the demand on these rows, one after the other; a row may occur repeatedly."""
        # The last turn of each row counts: unique() finds the first in the reversed order.
        rows, back, times = np.unique(order[::-1], return_index=True, return_counts=True)
        for index, amount in demanded(demand):
            self.free[index][rows] -= amount * times
        self.active[rows] += times
        self.turn[rows] = self._last_turn + len(order) - back
        self._last_turn += len(order)
        if self._share is not None:
            self._share[rows] = self._shares(rows)

    def _free(self, index: int, rows: Rows, *, ahead: bool) -> Floats:
        own: Floats = self.free[index].take(rows)
        return own + self._ahead.take(rows) if ahead and index == SLOTS else own

    def _shares(self, rows: Rows) -> Floats:
        used = self.capacity.take(rows, axis=1) - self.free.take(rows, axis=1)
        used *= self.inverse.take(rows, axis=1)
        dominant: Floats = np.maximum.reduce(used, axis=0)
        return dominant


class NodeColumns:
    """View of the nodes that can take a group of tasks, for a strategy."""

    def __init__(self, draft: Draft, rows: Rows) -> None:
        self._draft = draft
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def load(self) -> Floats:
        """Load that each node measured last; 1 is busy, more is overloaded."""
        return self._draft.load.take(self._rows)

    @property
    def share(self) -> Floats:
        """Share of its scarcest resource that is reserved on each node: 0 empty, 1 full, more when
        executions are queued."""
        return self._draft.share.take(self._rows)

    @property
    def active(self) -> Floats:
        """Number of executions on each node, those placed by this plan included."""
        return self._draft.active.take(self._rows)

    @property
    def turn(self) -> Floats:
        """Number of each node's last turn, which only grows; 0 for a node that never got work."""
        return self._draft.turn.take(self._rows)

    @property
    def weight(self) -> Floats:
        """Label `weight` of each node, or its CPU cores; above zero."""
        return self._draft.weight.take(self._rows)

    def free(self, resource: str) -> Floats:
        """Return the amount of a resource (a field of `Resources`) that is not reserved on each
        node."""
        return self._amounts(self._draft.free, resource)

    def capacity(self, resource: str) -> Floats:
        """Return the amount of a resource (a field of `Resources`) that each node has in all."""
        return self._amounts(self._draft.capacity, resource)

    def share_of(self, demand: Resources) -> Floats:
        """Return the share of each node's scarcest resource that one such demand takes.

        Resources that a node does not have at all are left out; the candidates have all that their
        tasks ask for.
        """
        shares = np.zeros(len(self._rows))
        for index, amount in demanded(demand):
            np.maximum(shares, self._draft.inverse[index].take(self._rows) * amount, out=shares)
        return shares

    def by_class(self, key: Hashable, ask: Callable[[NodeClass], float]) -> Floats:
        """Return a number for each node that depends only on its class: capabilities, region,
        labels.

        `ask` is called once per class and its answer cached under `key`, so the key must name
        everything that the answer depends on, the strategy included.
        """
        answers = self._draft.classes.answers(("strategy", key), ask)
        return answers.take(self._draft.class_of.take(self._rows))

    def has_done(self, feature: tuple[str, Any]) -> NDArray[np.bool_]:
        """Return for each node whether it has finished work with this content feature before."""
        known = self._draft.experience.get(feature)
        if known is None:
            return np.zeros(len(self._rows), dtype=np.bool_)
        return known[self._rows]

    def _amounts(self, column: Floats, resource: str) -> Floats:
        amounts: Floats = column[RESOURCE_NAMES.index(resource)].take(self._rows)
        return amounts / UNITS


def static_key(requirement: Requirement) -> Hashable:
    """Return the part of a requirement that the built-in filters read: requirements that share it
    share their verdicts."""
    return (
        requirement.task_type,
        requirement.cluster_id,
        requirement.node_type,
        requirement.capabilities,
    )
