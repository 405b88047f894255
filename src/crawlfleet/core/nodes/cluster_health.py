"""Health of a cluster: its problems, the worst first, each with a remedy."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from crawlfleet.model.admin_requests import Trouble
from crawlfleet.model.node import Health, NodeStatus
from crawlfleet.model.project import ClusterStatus
from crawlfleet.model.resources import RESOURCE_NAMES, Resources

CRITICAL, WARNING, NOTICE = "critical", "warning", "notice"
SEVERITIES: Final = (CRITICAL, WARNING, NOTICE)
_HEALTH: Final = {CRITICAL: "unhealthy", WARNING: "degraded", NOTICE: "healthy"}
LONG_WAIT_S: Final = 60.0
"""Seconds after which a ready task counts as waiting too long."""


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a cluster that its health is judged by."""

    cluster_id: str
    status: ClusterStatus
    nodes: Mapping[NodeStatus, int]
    health: Mapping[Health, int]
    free: Resources
    ready: int
    oldest_ready_s: float | None
    outdated_nodes: int


def troubles_of(vitals: Vitals) -> tuple[Trouble, ...]:
    """Return all problems of a cluster, the worst first."""
    found = [*_work(vitals), *_nodes(vitals), *_notices(vitals)]
    return tuple(sorted(found, key=lambda each: SEVERITIES.index(each.severity)))


def verdict_of(troubles: tuple[Trouble, ...]) -> str:
    """Return `healthy`, `degraded` or `unhealthy`, by the worst problem."""
    return _HEALTH[troubles[0].severity] if troubles else "healthy"


def total(amounts: Iterable[Resources]) -> Resources:
    """Return the sum of each resource."""
    listed = list(amounts)
    sums = {name: sum(getattr(each, name) for each in listed) for name in RESOURCE_NAMES}
    return Resources(**{name: round(amount, 6) for name, amount in sums.items() if amount})


def _work(vitals: Vitals) -> Iterator[Trouble]:
    if not vitals.ready or vitals.status is not ClusterStatus.ACTIVE:
        return
    waiting = f"{_count(vitals.ready, 'task')} {'waits' if vitals.ready == 1 else 'wait'}"
    if not vitals.nodes.get(NodeStatus.ONLINE):
        yield Trouble(
            severity=CRITICAL,
            message=f"{waiting}, and no node is online",
            remedy=f"start a worker with `worker.cluster` = {vitals.cluster_id!r}, or resume one",
            kind="no_node_online",
            values={"ready": vitals.ready, "cluster": vitals.cluster_id},
        )
    elif (waited_s := vitals.oldest_ready_s or 0.0) > LONG_WAIT_S:
        if vitals.free.slots:
            yield Trouble(
                severity=WARNING,
                message=f"{waiting} though slots are free, one for {waited_s:.0f} s",
                remedy="`crawlfleet explain TASK` says what no node has",
                kind="waits_despite_slots",
                values={"ready": vitals.ready, "waited_s": waited_s},
            )
        else:
            yield Trouble(
                severity=WARNING,
                message=f"{waiting} for a slot, one for {waited_s:.0f} s",
                remedy="add nodes, or slots to those that there are",
                kind="waits_for_slot",
                values={"ready": vitals.ready, "waited_s": waited_s},
            )


def _nodes(vitals: Vitals) -> Iterator[Trouble]:
    if not sum(vitals.nodes.values()):
        yield Trouble(
            severity=WARNING,
            message="it has no node",
            remedy=f"start a worker with `worker.cluster` = {vitals.cluster_id!r}",
            kind="no_node",
            values={"cluster": vitals.cluster_id},
        )
    if silent := vitals.nodes.get(NodeStatus.UNRESPONSIVE):
        yield Trouble(
            severity=WARNING,
            message=f"{_count(silent, 'node')} fell silent",
            remedy="look at the machine and its network, or unregister it",
            kind="nodes_silent",
            values={"n": silent},
        )
    bad = [Health.UNHEALTHY, Health.UNREACHABLE, Health.DEGRADED]
    if ill := sum(vitals.health.get(each, 0) for each in bad):
        yield Trouble(
            severity=WARNING,
            message=f"{_count(ill, 'node')} not healthy",
            remedy="`crawlfleet nodes list` says which",
            kind="nodes_ill",
            values={"n": ill},
        )


def _notices(vitals: Vitals) -> Iterator[Trouble]:
    if vitals.status is not ClusterStatus.ACTIVE:
        yield Trouble(
            severity=NOTICE,
            message=f"it is {vitals.status}: its nodes get no new work",
            remedy="reopen it when that is no longer wanted",
            kind="closed",
            values={"status": str(vitals.status)},
        )
    if vitals.outdated_nodes:
        yield Trouble(
            severity=NOTICE,
            message=f"{_count(vitals.outdated_nodes, 'node')} not yet on the newest configuration",
            remedy="it comes with the next heartbeat; a node that stays so is of an older version",
            kind="outdated",
            values={"n": vitals.outdated_nodes},
        )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
