"""Attention list: ranks the problems of the fleet that an operator should look at first.

Problems that stop work come before those that may stop it; of equal severity, the one that affects
most comes first. Problems of one kind share a line, so that a rack that lost its power does not
hide the one task type that no node knows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from crawlfleet.core.nodes.health import phrases_of
from crawlfleet.core.placement.explanation import in_words
from crawlfleet.model.attention import HIGH, LOW, MEDIUM, SEVERITIES, Concern, Subject
from crawlfleet.model.explanation import Cause
from crawlfleet.model.node import Health, Node, NodeStatus
from crawlfleet.model.translatable import Phrase

LONG_WAIT_S: Final = 60.0
"""Seconds after which a ready task counts as waiting too long."""
NEW_S: Final = 5.0
"""Seconds of grace for a new task that no node can run: its node may be about to register."""
MAX_OF_A_KIND: Final = 5
"""Limit of concerns of one kind that are listed singly; more are put into one line."""
BUSY: Final = "resources"
"""Cause of nodes that reject a task only while other work occupies them."""
FAILING_SHARE: Final = 0.2
FEWEST_FAILURES: Final = 5
CLOCK_SET_S: Final = 1.0

_ILL: Final = {
    Health.UNREACHABLE: (HIGH, "node_unreachable"),
    Health.UNHEALTHY: (HIGH, "node_unhealthy"),
    Health.DEGRADED: (MEDIUM, "node_degraded"),
}
_LOOK: Final = "open the node: its history says since when"


class WaitingTasks(msgspec.Struct, frozen=True, kw_only=True):
    """Ready tasks with equal requirements."""

    first: str
    """Id of the task that is first in line."""
    tasks: int
    waited_s: float
    task_type: str
    feasible: bool
    causes: Sequence[Cause]
    """Causes that keep nodes from taking these tasks."""


class BlockedHost(msgspec.Struct, frozen=True, kw_only=True):
    """Host that a crawl pauses, because the site asked for it."""

    host: str
    task_id: str
    why: str
    errors: int
    waiting: int


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """Observations about the fleet, or about one project; those about a project have no nodes."""

    nodes: Sequence[Node] = ()
    whole: bool = True
    """True if the observations cover all of the fleet."""
    waiting: Sequence[WaitingTasks] = ()
    dead_letters: int = 0
    more_dead_letters: bool = False
    """True if there are more dead letters than `dead_letters`, where counting stopped."""
    attempts: int = 0
    """Number of attempts that ended in the last minutes."""
    failures: Mapping[str, int] = {}
    """Failed attempts among `attempts`, by error class."""
    blocked: Sequence[BlockedHost] = ()
    disk_free: float | None = None
    """The free share of the disk with the master's data."""
    store_trouble: str = ""
    """Reason why nothing can be stored, with the remedy; empty when the store works."""
    clock_set_by_s: float = 0.0
    """Seconds by which the clock of the master's machine was set ahead while the master ran."""


def rank(seen: Observed) -> tuple[Concern, ...]:
    """Return the concerns to look at, the most pressing first."""
    found = [
        *_store(seen.store_trouble),
        *_nodes(seen),
        *_waiting(seen),
        *_blocked(seen.blocked),
        *_failures(seen),
        *_dead_letters(seen),
        *_disk(seen.disk_free),
        *_clock(seen.clock_set_by_s),
    ]
    return tuple(sorted(found, key=lambda each: (SEVERITIES.index(each.severity), -each.count)))


def _nodes(seen: Observed) -> Iterator[Concern]:
    if not seen.whole:
        return
    present = [node for node in seen.nodes if node.status is not NodeStatus.OFFLINE]
    ready = sum(each.tasks for each in seen.waiting)
    if not any(node.status is NodeStatus.ONLINE for node in present):
        waits = f", and {_count(ready, 'task')} {'waits' if ready == 1 else 'wait'}"
        yield Concern(
            severity=HIGH if ready else MEDIUM,
            kind="no_node_online",
            subject=Subject(kind="nodes"),
            message=f"no node is online{waits if ready else ''}",
            remedy="start a worker (`crawlfleet join-tokens create` prints how), or resume one",
            count=max(ready, 1),
            values={"tasks": ready},
        )
    yield from _each(
        [
            Concern(
                severity=HIGH,
                kind="node_unresponsive",
                subject=Subject(kind="node", id=node.id),
                message=f"{node.name} fell silent; its work went back into the queue",
                remedy="look at the machine and its network, or unregister it",
                values={"name": node.name},
            )
            for node in present
            if node.status is NodeStatus.UNRESPONSIVE
        ],
        "nodes fell silent; their work went back into the queue",
        "look at the machines and what connects them",
    )
    for health, (severity, kind) in _ILL.items():
        yield from _each(
            [
                Concern(
                    severity=severity,
                    kind=kind,
                    subject=Subject(kind="node", id=node.id),
                    message=f"{node.name} is {health}"
                    + (f": {node.health_reason}" if node.health_reason else ""),
                    remedy=_LOOK,
                    values={"name": node.name},
                    because=phrases_of(node.conditions),
                )
                for node in present
                if node.health is health and node.status is not NodeStatus.UNRESPONSIVE
            ],
            f"nodes are {health}",
            "the list of nodes says why",
        )
    yield from _each(
        [
            Concern(
                severity=LOW,
                kind=f"node_{node.status}",
                subject=Subject(kind="node", id=node.id),
                message=f"{node.name} is {_IDLE[node.status]}, and gets no new work",
                remedy="resume it when that is no longer wanted",
                values={"name": node.name},
            )
            for node in present
            if node.status in _IDLE
        ],
        "nodes drain or are in maintenance, and get no new work",
        "resume them when that is no longer wanted",
    )


_IDLE: Final = {NodeStatus.DRAINING: "draining", NodeStatus.MAINTENANCE: "in maintenance"}


def _waiting(seen: Observed) -> Iterator[Concern]:
    if seen.whole and not any(node.status is NodeStatus.ONLINE for node in seen.nodes):
        return  # that is the one thing to say
    stuck: list[Concern] = []
    for each in seen.waiting:
        if each.feasible or each.waited_s < NEW_S:
            continue
        tasks = f"{_count(each.tasks, f'{each.task_type} task')}"
        waits = "waits" if each.tasks == 1 else "wait"
        if not any(cause.code == BUSY for cause in each.causes):
            why = f": {in_words(each.causes)}" if each.causes else ""
            it = "it" if each.tasks == 1 else "them"
            stuck.append(
                Concern(
                    severity=HIGH,
                    kind="nothing_can_run",
                    subject=Subject(kind="task", id=each.first),
                    message=f"{tasks} {waits}, and no node can run {it}{why}",
                    remedy="explain the task: it names what each node lacks; add such a node, or "
                    "cancel",
                    count=each.tasks,
                    values={"task_type": each.task_type},
                    because=tuple(Phrase(cause.code, {"n": cause.nodes}) for cause in each.causes),
                )
            )
        elif each.waited_s >= LONG_WAIT_S:
            stuck.append(
                Concern(
                    severity=MEDIUM,
                    kind="overdue",
                    subject=Subject(kind="task", id=each.first),
                    message=f"{tasks} {waits} for a free node, one for {_span(each.waited_s)}",
                    remedy="add nodes, or slots to those that there are, or raise its priority",
                    count=each.tasks,
                    values={"task_type": each.task_type, "waited_s": each.waited_s},
                )
            )
    for kind in ("nothing_can_run", "overdue"):
        yield from _each(
            [each for each in stuck if each.kind == kind],
            "kinds of tasks wait, and no node can run them"
            if kind == "nothing_can_run"
            else "kinds of tasks wait for a free node",
            "the list of pending tasks; explain names what is missing",
            of=Subject(kind="tasks"),
        )


def _blocked(hosts: Sequence[BlockedHost]) -> Iterator[Concern]:
    yield from _each(
        [
            Concern(
                severity=MEDIUM,
                kind="host_blocks",
                subject=Subject(kind="crawl", id=each.task_id),
                message=f"{each.host} is left alone: {each.why}; "
                f"{_count(each.waiting, 'address')} {'waits' if each.waiting == 1 else 'wait'} "
                "there",
                remedy="slow the crawl down (`politeness`), use proxies, or let it come back",
                count=max(each.waiting, 1),
                values={"host": each.host, "why": each.why, "waiting": each.waiting},
            )
            for each in hosts
        ],
        "hosts are left alone, because they block us or cannot keep up",
        "the crawls say why",
        of=Subject(kind="crawl"),
    )


def _failures(seen: Observed) -> Iterator[Concern]:
    failed = sum(seen.failures.values())
    if failed < FEWEST_FAILURES or failed < FAILING_SHARE * seen.attempts:
        return
    worst = max(seen.failures, key=lambda each: seen.failures[each])
    yield Concern(
        severity=MEDIUM,
        kind="failures",
        subject=Subject(kind="tasks"),
        message=f"{failed} of {max(seen.attempts, failed)} attempts failed in the last 5 minutes, "
        f"most with {worst} errors ({seen.failures[worst]})",
        remedy="look at the failed tasks and their logs",
        count=failed,
        values={
            "attempts": max(seen.attempts, failed),
            "error_class": worst,
            "of_class": seen.failures[worst],
        },
    )


def _dead_letters(seen: Observed) -> Iterator[Concern]:
    if not seen.dead_letters:
        return
    number = f"{'more than ' if seen.more_dead_letters else ''}{seen.dead_letters}"
    yield Concern(
        severity=MEDIUM,
        kind="dead_letters",
        subject=Subject(kind="dead-letters"),
        message=f"{number} {'task was' if number == '1' else 'tasks were'} given up",
        remedy="mend the cause and send them back, or discard them",
        count=seen.dead_letters,
    )


def _store(trouble: str) -> Iterator[Concern]:
    if trouble:
        yield Concern(
            severity=HIGH,
            kind="store_unusable",
            subject=Subject(kind="master"),
            message=f"the master accepts nothing: {trouble}",
            remedy="do what it says; `/readyz` answers 200 when the master accepts work again",
            values={"why": trouble},
        )


def _clock(set_by_s: float) -> Iterator[Concern]:
    if abs(set_by_s) <= CLOCK_SET_S:
        return
    where = "ahead" if set_by_s > 0 else "back"
    yield Concern(
        severity=LOW,
        kind="clock_set",
        subject=Subject(kind="master"),
        message=f"the clock of the master's machine was set {where} by {abs(set_by_s):,.0f} s; "
        "time limits go on evenly and schedules follow it, but the times that the master writes "
        "down are by the clock from before",
        remedy="restart the master at a quiet time",
        values={"by_s": set_by_s},
    )


def _disk(free: float | None) -> Iterator[Concern]:
    if free is None or free > 0.1:
        return
    yield Concern(
        severity=HIGH if free < 0.03 else MEDIUM,
        kind="disk_full",
        subject=Subject(kind="master"),
        message=f"only {free:.0%} of the disk with the master's data is free",
        remedy="make room, or keep less (`retention`)",
        values={"free": free},
    )


def _each(
    found: Sequence[Concern], several: str, remedy: str, of: Subject | None = None
) -> Iterable[Concern]:
    """Return the concerns, or a single one for all when there are too many."""
    if len(found) <= MAX_OF_A_KIND:
        return found
    first = found[0]
    return [
        Concern(
            severity=min((each.severity for each in found), key=SEVERITIES.index),
            kind=first.kind,
            subject=of or Subject(kind=f"{first.subject.kind}s"),
            message=f"{len(found)} {several}",
            remedy=remedy,
            count=sum(each.count for each in found),
        )
    ]


def _count(number: int, thing: str) -> str:
    return (
        f"{number} {thing}"
        if number == 1
        else f"{number} {thing}{'es' * thing.endswith('s') or 's'}"
    )


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
