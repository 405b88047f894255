"""Health of a node: compares measurements with limits, with a delay in both directions.

A reading beyond its limit becomes a condition of the node when it stays there for a while, and the
condition ends when the reading has been well inside the limit for a while; so conditions do not
flap. The worst condition is the node's health. Under pressure (CPU, memory, disk) a node gets no
new work; running work stays. A crawler that works hard is at 100 % CPU. If CPU is the only
condition and the node has nothing to do, it gets work all the same, since something else keeps its
machine busy.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from crawlfleet.model.event import Event
from crawlfleet.model.node import Condition, Health, Node
from crawlfleet.model.settings import HealthSettings
from crawlfleet.model.translatable import Phrase

CPU, MEMORY, DISK = "cpu", "memory", "disk"
ERRORS, LATENCY, CLOCK, PROBE = "errors", "latency", "clock", "probe"
SLACK: Final = 0.1
"""Distance inside its limit that a reading needs before its condition can end, as a share of the
limit."""
DISK_SHARE: Final = 0.95
"""Usage of a disk up to which it counts as free enough, however small the disk is."""
SEVERITY: Final = (
    Health.UNKNOWN,
    Health.HEALTHY,
    Health.DEGRADED,
    Health.UNHEALTHY,
    Health.UNREACHABLE,
)
NO_NEW_WORK: Final = frozenset({Health.UNHEALTHY, Health.UNREACHABLE})


class HealthReading(msgspec.Struct, frozen=True, kw_only=True):
    """Readings of a node at a heartbeat; `None` is not known, and causes no condition."""

    cpu: float | None = None
    memory: float | None = None
    disk: float | None = None
    disk_free_mb: float | None = None
    error_rate: float | None = None
    """Share of the recently ended executions that did not succeed."""
    wait_s: float | None = None
    """Mean time that these executions waited at the node before they began."""
    clock_skew_s: float | None = None


class Trend(msgspec.Struct, frozen=True):
    """Times since when each reading contradicts the node's present conditions."""

    since: Mapping[str, float] = {}


class _Gauge(NamedTuple):
    kind: str
    health: Health
    is_over: bool
    is_calm: bool
    words: str
    value: float | None = None
    limit: float | None = None


def judge(
    conditions: tuple[Condition, ...],
    trend: Trend,
    reading: HealthReading,
    settings: HealthSettings,
    *,
    now: float,
) -> tuple[tuple[Condition, ...], Trend]:
    """Return the node's conditions after a reading, and the trend to pass with the next reading.

    Conditions that the node does not measure itself stay as they are.
    """
    known = {each.kind: each for each in conditions}
    turning: dict[str, float] = {}
    for gauge in _gauges(reading, settings):
        holds = gauge.kind in known
        if not (gauge.is_calm if holds else gauge.is_over):
            continue
        since = trend.since.get(gauge.kind, now)
        if now - since < (settings.recover_s if holds else settings.sustain_s):
            turning[gauge.kind] = since
        elif holds:
            del known[gauge.kind]
        else:
            known[gauge.kind] = Condition(
                kind=gauge.kind,
                health=gauge.health,
                reason=gauge.words,
                since=now,
                value=gauge.value,
                limit=gauge.limit,
            )
    return tuple(known.values()), Trend(turning)


def probed(
    conditions: tuple[Condition, ...], trouble: str | None, *, now: float
) -> tuple[Condition, ...]:
    """Return the conditions of a node after a probe of its address: `trouble` if it did not
    answer."""
    others = tuple(each for each in conditions if each.kind != PROBE)
    if trouble is None:
        return others
    if len(others) < len(conditions):
        return conditions
    found = Condition(kind=PROBE, health=Health.UNREACHABLE, reason=trouble, since=now)
    return (*others, found)


def health_of(conditions: Iterable[Condition]) -> Health:
    """Return the worst health of the conditions; healthy without any."""
    found = (each.health for each in conditions)
    return max(found, key=SEVERITY.index, default=Health.HEALTHY)


def reason_of(conditions: Iterable[Condition]) -> str:
    """Return the reasons of the conditions as text, the worst first."""
    return "; ".join(each.reason for each in _worst_first(conditions))


def phrases_of(conditions: Iterable[Condition]) -> tuple[Phrase, ...]:
    """Return the reasons of the conditions, the worst first, as phrases that a client can word
    itself."""
    return tuple(
        Phrase(each.kind, {"value": each.value, "limit": each.limit})
        if each.value is not None and each.limit is not None
        else Phrase(each.kind, {"words": each.reason})
        for each in _worst_first(conditions)
    )


def _worst_first(conditions: Iterable[Condition]) -> list[Condition]:
    return sorted(conditions, key=lambda each: -SEVERITY.index(each.health))


def assessed(
    node: Node, conditions: tuple[Condition, ...], *, now: float
) -> tuple[Node, Event] | None:
    """Return the node with these conditions, and the event about it; `None` if they are its
    conditions already."""
    health, reason = health_of(conditions), reason_of(conditions)
    if health is node.health and conditions == node.conditions:
        return None
    changed = msgspec.structs.replace(
        node,
        health=health,
        health_reason=reason,
        health_at=now if health is not node.health else node.health_at,
        conditions=conditions,
        version=node.version + 1,
        updated_at=now,
    )
    event = Event(
        kind="node.health_changed",
        subject=node.id,
        at=now,
        cause=reason or "all readings are inside their limits",
        from_state=str(node.health),
        to_state=str(health),
        details={"conditions": {each.kind: each.reason for each in conditions}},
    )
    return changed, event


def is_only_busy(node: Node) -> bool:
    """Return whether CPU is the only condition that keeps the node from new work."""
    heavy = [each.kind for each in node.conditions if each.health in NO_NEW_WORK]
    return heavy == [CPU]


def release_at(node: Node, settings: HealthSettings) -> float | None:
    """Return when the work of a node in this state is returned to the queue; `None` for never.

    CPU does not count: a node that is only busy gets work, and must not lose it at once.
    """
    patience = {
        Health.UNHEALTHY: settings.release_unhealthy_s,
        Health.UNREACHABLE: settings.release_unreachable_s,
    }
    instants = (
        each.since + wait_s
        for each in node.conditions
        if each.kind != CPU and (wait_s := patience.get(each.health))
    )
    return min(instants, default=None)


def _gauges(reading: HealthReading, settings: HealthSettings) -> Iterator[_Gauge]:
    pressure, weakness = Health.UNHEALTHY, Health.DEGRADED
    yield _above(CPU, pressure, reading.cpu, settings.cpu_limit, "CPU at {:.0%}, limit {:.0%}")
    yield _above(
        MEMORY, pressure, reading.memory, settings.memory_limit, "memory at {:.0%}, limit {:.0%}"
    )
    yield _disk(reading.disk, reading.disk_free_mb, settings.disk_free_mb)
    yield _above(
        ERRORS,
        weakness,
        reading.error_rate,
        settings.error_rate_limit,
        "{:.0%} of its executions failed lately, limit {:.0%}",
    )
    yield _above(
        LATENCY,
        weakness,
        reading.wait_s,
        settings.latency_limit_s,
        "executions begin {:.1f} s after they were given to it, limit {:g} s",
    )
    yield _above(
        CLOCK,
        weakness,
        reading.clock_skew_s,
        settings.clock_skew_limit_s,
        "its clock is wrong by {:.1f} s, limit {:g} s",
    )


def _above(kind: str, health: Health, value: float | None, limit: float, words: str) -> _Gauge:
    if value is None:
        return _Gauge(kind, health, False, True, "")
    is_over, is_calm = value > limit, value <= limit * (1 - SLACK)
    said = words.format(value, limit) if is_over else ""
    return _Gauge(kind, health, is_over, is_calm, said, value, limit)


def _disk(usage: float | None, free_mb: float | None, limit_mb: float) -> _Gauge:
    """Return the reading of the disk. Share and free space both count: a small share of a large
    disk is much space, and a small disk may be full of nothing important."""
    if free_mb is None:
        return _Gauge(DISK, Health.UNHEALTHY, False, True, "")
    share = 1.0 if usage is None else usage
    is_over = free_mb < limit_mb and share > DISK_SHARE
    is_calm = free_mb >= limit_mb * (1 + SLACK) or share <= 1 - (1 - DISK_SHARE) * (1 + SLACK)
    words = f"{free_mb:.0f} MB of its disk are free, limit {limit_mb:g} MB"
    return _Gauge(DISK, Health.UNHEALTHY, is_over, is_calm, words, free_mb, limit_mb)
