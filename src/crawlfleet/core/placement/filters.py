"""Filters of placement: a chain of named tests whether a node may run a task, each "no" with its
reason.

Nodes that are alike in everything that these filters read form one class, so a verdict is found
once per requirement and class, not once per task and node. The filters run in a fixed order, and a
node counts under the first one that rejects it. Values that change from minute to minute (status,
health, free resources) are not part of the class.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from crawlfleet.core.isolation import CAPABILITY, MISSING
from crawlfleet.core.nodes.health import NO_NEW_WORK, is_only_busy, phrases_of
from crawlfleet.core.resources import demanded, units
from crawlfleet.model.explanation import Reason
from crawlfleet.model.node import Node, NodeStatus
from crawlfleet.model.resources import RESOURCE_NAMES, Resources
from crawlfleet.model.task import Requirement

Pairs = tuple[tuple[str, Any], ...]

FIRST_FILTERS: Final = (
    "status",
    "health",
    "cluster",
    "task_type",
    "node_type",
    "capabilities",
    "reservation",
)
LAST_FILTER: Final = "resources"
OPEN, STATUS, HEALTH, CLUSTER, RESERVED = 0, 1, 2, 3, 7
"""Verdicts: zero is a yes, any other number a position (from one) in `filter_names`."""
BUSY: Final = -1
"""Verdict that counts as `OPEN` while the node has no executions, else as `HEALTH`."""


class NodeClass(msgspec.Struct, frozen=True, kw_only=True):
    """Class of nodes with equal properties: everything that filters may read.

    `capabilities` and `labels` are sorted pairs; `capability` and `label` look one up.
    """

    cluster_id: str
    node_type: str
    region: str | None
    task_types: frozenset[str]
    capabilities: Pairs
    labels: tuple[tuple[str, str], ...]

    def capability(self, name: str) -> Any:
        """Return the node's value of a capability; `None` when the node does not declare it."""
        return next((value for key, value in self.capabilities if key == name), None)

    def label(self, name: str) -> str | None:
        """The value of a label."""
        return next((value for key, value in self.labels if key == name), None)


UserFilter = Callable[[NodeClass, Requirement], str | None]
"""Filter of a plug-in: `None` lets the node pass, a text is the reason against it.

It must depend on its arguments alone: its answer is cached for the class.
"""
Filters = Mapping[str, UserFilter]


def class_of(node: Node) -> NodeClass:
    """Return the class that a node belongs to."""
    return NodeClass(
        cluster_id=node.cluster_id,
        node_type=node.node_type,
        region=node.region,
        task_types=frozenset(node.task_types),
        capabilities=sorted_pairs(
            # Reasons are for people, and differ between machines that are of one kind.
            {name: value for name, value in node.capabilities.items() if name != MISSING}
        ),
        labels=tuple(sorted(node.labels.items())),
    )


def sorted_pairs(values: Mapping[str, Any]) -> Pairs:
    """Return a mapping as a hashable value: sorted pairs, lists as sorted tuples."""
    if not values:
        return ()
    return tuple(sorted((name, _frozen(value)) for name, value in values.items()))


def filter_names(filters: Iterable[str]) -> tuple[str, ...]:
    """Return the names of all filters in the order in which they run."""
    return (*FIRST_FILTERS, *filters, LAST_FILTER)


def closed_by(node: Node) -> int:
    """Return `OPEN` when the node takes new work, `BUSY`, or the number of the filter that rejects
    it."""
    if node.status is not NodeStatus.ONLINE:
        return STATUS
    if node.health not in NO_NEW_WORK:
        return OPEN
    return BUSY if is_only_busy(node) else HEALTH


def class_verdict(requirement: Requirement, kind: NodeClass, filters: Filters) -> float:
    """Return `OPEN`, or the number of the first filter that rejects this class for good."""
    first = next(class_reasons(requirement, kind, filters), None)
    return OPEN if first is None else filter_names(filters).index(first.filter) + 1


def class_reasons(requirement: Requirement, kind: NodeClass, filters: Filters) -> Iterator[Reason]:
    """Yield all reasons against the nodes of a class, in the order of the filters."""
    if requirement.cluster_id != kind.cluster_id:
        yield Reason(
            "cluster",
            f"the task belongs to cluster {requirement.cluster_id!r},"
            f" the node to {kind.cluster_id!r}",
            "other_cluster",
            {"task": requirement.cluster_id, "node": kind.cluster_id},
        )
    if kind.task_types and requirement.task_type not in kind.task_types:
        yield Reason(
            "task_type",
            f"the node has no executor for {requirement.task_type!r}",
            "no_executor",
            {"task_type": requirement.task_type},
        )
    if requirement.node_type is not None and requirement.node_type != kind.node_type:
        yield Reason(
            "node_type",
            f"needs {requirement.node_type!r}, the node is {kind.node_type!r}",
            "other_type",
            {"needs": requirement.node_type, "has": kind.node_type},
        )
    for name, need in requirement.capabilities:
        has = kind.capability(name)
        missing = shortfall(need, has)
        if missing is not None:
            yield _lack(name, missing, has)
    for name, accepts in filters.items():
        message = _asked(accepts, kind, requirement)
        if message is not None:
            yield Reason(name, message)


def node_reasons(node: Node, *, is_idle: bool = False) -> Iterator[Reason]:
    """Yield the reasons against giving this node any new work now."""
    if node.status is not NodeStatus.ONLINE:
        yield Reason(
            "status", f"the node is {node.status}", "not_online", {"status": str(node.status)}
        )
    if node.health in NO_NEW_WORK and not (is_idle and is_only_busy(node)):
        why = f": {node.health_reason}" if node.health_reason else ""
        yield Reason(
            "health",
            f"the node is {node.health}{why}",
            "not_healthy",
            {"health": str(node.health)},
            phrases_of(node.conditions),
        )


def resource_reasons(need: Resources, capacity: Resources, free: Resources) -> Iterator[Reason]:
    """Yield a reason per resource that is too small for ever, or too small only now."""
    for index, amount in demanded(need):
        name = RESOURCE_NAMES[index]
        asked, whole, left = (getattr(each, name) for each in (need, capacity, free))
        if amount > units(capacity)[index]:
            yield Reason(
                LAST_FILTER,
                f"{name}: needs {asked:g}, the node has only {whole:g} in all",
                "too_small",
                {"name": name, "needs": asked, "has": whole},
            )
        elif amount > units(free)[index]:
            yield Reason(
                LAST_FILTER,
                f"{name}: needs {asked:g}, {left:g} of {whole:g} is free",
                "taken",
                {"name": name, "needs": asked, "free": left, "has": whole},
            )


class Shortfall(msgspec.Struct, frozen=True):
    """Part of a need that a capability does not meet."""

    needs: str
    is_level: bool
    """True if `needs` is a lowest level, and not names."""
    has: str

    def __str__(self) -> str:
        least = "at least " if self.is_level else ""
        return f"needs {least}{self.needs}, the node has {self.has}"


def shortfall(need: Any, has: Any) -> Shortfall | None:
    """Return the part of a need that a capability does not meet; `None` when it is enough.

    A number is a minimum level and a flag is level 1; a list must be contained; a text must be
    equal or contained. On the node's side `true`, a name and a list that is not empty are
    level 1, and a number written as text is that number. Asking for nothing (`false`, 0, an
    empty text or list) is always met; "some" (`true`) does not say that a named thing is there.
    """
    if not need:
        return None
    if isinstance(need, bool | int | float):
        if _level(has) >= need:
            return None
        return Shortfall(f"{float(need):g}", True, _shown(has))
    offered = _names(has)
    missing = [name for name in _names(need) if name not in offered]
    if not missing:
        return None
    return Shortfall(", ".join(missing), False, _shown(has))


def _lack(name: str, missing: Shortfall, has: Any) -> Reason:
    """Return the reason that the filter `capabilities` gives for a missing capability."""
    if name == CAPABILITY and missing.is_level:
        # People know levels by their names. A node without a sandbox has none at all.
        known = has is not None and not isinstance(has, str | bool)
        missing = Shortfall(f"L{missing.needs}", True, f"L{has:g}" if known else "none")
    code = "level_missing" if missing.is_level else "names_missing"
    if not has:
        code = "capability_missing"
    return Reason(
        "capabilities",
        f"{name}: {missing}",
        code,
        {"name": name, "needs": missing.needs, "has": missing.has},
    )


def _level(has: Any) -> float:
    if isinstance(has, bool | int | float):
        return float(has)
    if isinstance(has, str):
        try:
            return float(has)
        except ValueError:
            return 1.0 if has else 0.0
    return 1.0 if has else 0.0


def _names(value: Any) -> tuple[str, ...]:
    """Return the names that a capability lists; a flag lists none."""
    if isinstance(value, tuple | list):
        return tuple(map(str, value))
    if value is None or isinstance(value, bool):
        return ()
    return (f"{value:g}" if isinstance(value, float) else str(value),)


def _shown(has: Any) -> str:
    if has is None or has is False or has in ((), ""):
        return "none"
    if has is True:
        return "it, but does not say which or how much"
    return ", ".join(_names(has))


def _asked(accepts: UserFilter, kind: NodeClass, requirement: Requirement) -> str | None:
    """Return a plug-in's answer; a filter that raises counts as a no, since it may guard
    something."""
    try:
        return accepts(kind, requirement)
    except Exception as error:
        return f"the filter failed: {type(error).__name__}: {error}"


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return sorted_pairs(value)
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(sorted((_frozen(each) for each in value), key=repr))
    return value
