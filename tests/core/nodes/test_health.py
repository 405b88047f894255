"""Conditions come when a limit is passed for long enough, and go when it was kept long enough."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.core.nodes.health import (
    HealthReading,
    Trend,
    assessed,
    health_of,
    is_only_busy,
    judge,
    probed,
    reason_of,
    release_at,
)
from crawlfleet.core.nodes.registration import probe_refusal
from crawlfleet.model.node import Condition, Health, Node, NodeStatus
from crawlfleet.model.settings import HealthSettings

LIMITS = HealthSettings(sustain_s=15, recover_s=10)
AT_ONCE = HealthSettings(sustain_s=0, recover_s=0)
WELL = HealthReading(cpu=0.1, memory=0.1, disk_free_mb=1e6)
NODE = Node(id="node-1", name="n", created_at=0, updated_at=0, status=NodeStatus.ONLINE)


def after(*readings: tuple[float, HealthReading], limits: HealthSettings = LIMITS) -> list[str]:
    """The kinds of the conditions after readings at these times."""
    conditions: tuple[Condition, ...] = ()
    trend = Trend()
    for at, reading in readings:
        conditions, trend = judge(conditions, trend, reading, limits, now=at)
    return [each.kind for each in conditions]


def with_(**fields: float) -> HealthReading:
    return msgspec.structs.replace(WELL, **fields)


@pytest.mark.parametrize(
    ("reading", "kind", "health"),
    [
        (with_(cpu=0.91), "cpu", Health.UNHEALTHY),
        (with_(memory=0.96), "memory", Health.UNHEALTHY),
        (with_(disk_free_mb=199.0), "disk", Health.UNHEALTHY),
        (with_(disk_free_mb=0.1, disk=0.99), "disk", Health.UNHEALTHY),
        (with_(error_rate=0.51), "errors", Health.DEGRADED),
        (with_(wait_s=5.1), "latency", Health.DEGRADED),
        (with_(clock_skew_s=31.0), "clock", Health.DEGRADED),
    ],
)
def test_each_limit_has_its_condition(reading: HealthReading, kind: str, health: Health) -> None:
    conditions, _ = judge((), Trend(), reading, AT_ONCE, now=5.0)

    (found,) = conditions
    assert (found.kind, found.health, found.since) == (kind, health, 5.0)
    assert "limit" in found.reason
    assert health_of(conditions) is health


@pytest.mark.parametrize(
    "reading",
    [
        WELL,
        HealthReading(),
        with_(cpu=0.90, memory=0.95, disk_free_mb=200.0),
        with_(error_rate=0.5, wait_s=5.0, clock_skew_s=30.0),
        with_(disk_free_mb=1.0, disk=0.5),
    ],
)
def test_what_reaches_a_limit_and_what_is_not_known_is_no_matter(reading: HealthReading) -> None:
    assert after((0, reading), (100, reading)) == []


def test_a_peak_that_does_not_last_changes_nothing() -> None:
    high = with_(cpu=1.0)
    assert after((0, high), (14, high)) == []
    assert after((0, high), (14, high), (15, high)) == ["cpu"]
    assert after((0, high), (14, WELL), (15, high), (29, high)) == []


def test_a_condition_goes_when_its_reading_was_well_inside_for_a_while() -> None:
    high, near, low = with_(cpu=1.0), with_(cpu=0.85), with_(cpu=0.8)
    ill = [(0.0, high), (15.0, high)]
    assert after(*ill, (16, near), (99, near)) == ["cpu"]
    assert after(*ill, (16, low), (25, low)) == ["cpu"]
    assert after(*ill, (16, low), (26, low)) == []
    assert after(*ill, (16, low), (25, near), (26, low), (35, low)) == ["cpu"]


def test_a_small_disk_is_well_again_when_there_is_room_on_it() -> None:
    full, roomy = with_(disk_free_mb=0.0, disk=1.0), with_(disk_free_mb=0.9, disk=0.1)
    ill = [(0.0, full), (15.0, full)]
    assert after(*ill) == ["disk"]
    assert after(*ill, (16, roomy), (26, roomy)) == []


def test_what_is_not_known_any_more_is_no_condition_for_long() -> None:
    failing = with_(error_rate=1.0)
    assert after((0, failing), (15, failing), (16, WELL), (26, WELL)) == []


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=60))
def test_nothing_changes_more_often_than_the_patience_allows(usages: list[float]) -> None:
    conditions: tuple[Condition, ...] = ()
    trend, changes = Trend(), []
    for second, cpu in enumerate(usages):
        before = conditions
        conditions, trend = judge(conditions, trend, with_(cpu=cpu), LIMITS, now=float(second))
        if conditions != before:
            changes.append(second)
    assert all(later - earlier >= 10 for earlier, later in pairwise(changes))


def test_probes_and_measurements_do_not_touch_each_other() -> None:
    unreachable = probed((), "refused", now=1.0)
    assert health_of(unreachable) is Health.UNREACHABLE
    assert probed(unreachable, "refused again", now=2.0) is unreachable
    both, _ = judge(unreachable, Trend(), with_(memory=1.0), AT_ONCE, now=3.0)
    assert [each.kind for each in both] == ["probe", "memory"]
    assert reason_of(both).startswith("refused; memory at 100%")
    only_memory = probed(both, None, now=4.0)
    assert [each.kind for each in only_memory] == ["memory"]


def test_an_assessment_is_an_event_with_its_reason_and_only_when_something_changed() -> None:
    conditions, _ = judge((), Trend(), with_(memory=0.97), AT_ONCE, now=7.0)
    changed = assessed(NODE, conditions, now=7.0)

    assert changed is not None
    node, event = changed
    assert (node.health, node.health_at, node.version) == (Health.UNHEALTHY, 7.0, 2)
    assert (event.kind, event.from_state, event.to_state) == (
        "node.health_changed",
        "unknown",
        "unhealthy",
    )
    assert event.cause == node.health_reason == "memory at 97%, limit 95%"
    assert assessed(node, conditions, now=9.0) is None
    well = assessed(node, (), now=9.0)
    assert well is not None
    assert (well[0].health, well[0].health_reason) == (Health.HEALTHY, "")


def test_only_cpu_is_bearable() -> None:
    busy, _ = judge((), Trend(), with_(cpu=1.0, error_rate=1.0), AT_ONCE, now=0.0)
    full, _ = judge(busy, Trend(), with_(cpu=1.0, memory=1.0), AT_ONCE, now=0.0)
    assert is_only_busy(msgspec.structs.replace(NODE, conditions=busy))
    assert not is_only_busy(msgspec.structs.replace(NODE, conditions=full))
    assert not is_only_busy(NODE)


def test_work_goes_back_after_the_patience_for_what_is_wrong() -> None:
    patience = HealthSettings(release_unhealthy_s=100, release_unreachable_s=60)
    ill, _ = judge((), Trend(), with_(memory=1.0), AT_ONCE, now=10.0)
    both = msgspec.structs.replace(NODE, conditions=probed(ill, "refused", now=80.0))
    assert release_at(both, patience) == 110.0
    assert release_at(both, HealthSettings()) == 140.0
    assert release_at(msgspec.structs.replace(NODE, conditions=ill), HealthSettings()) is None


def test_the_work_of_a_node_that_is_only_busy_stays() -> None:
    patience = HealthSettings(release_unhealthy_s=100)
    busy, _ = judge((), Trend(), with_(cpu=1.0), AT_ONCE, now=10.0)
    full, _ = judge(busy, Trend(), with_(cpu=1.0, memory=1.0), AT_ONCE, now=50.0)
    assert release_at(msgspec.structs.replace(NODE, conditions=busy), patience) is None
    assert release_at(msgspec.structs.replace(NODE, conditions=full), patience) == 150.0


@pytest.mark.parametrize(
    ("address", "loopback", "is_fine"),
    [
        ("10.0.0.7", False, True),
        ("192.168.1.5", False, True),
        ("fd12::7", False, True),
        ("127.0.0.1", True, True),
        ("127.0.0.1", False, False),
        ("::1", False, False),
        ("::ffff:127.0.0.1", False, False),
        ("169.254.169.254", True, False),
        ("169.254.7.7", True, False),
        ("fe80::1", True, False),
        ("100.100.100.200", True, False),
        ("0.0.0.0", True, False),
        ("224.0.0.1", True, False),
        ("metadata.google.internal", True, False),
        ("", True, False),
    ],
)
def test_the_master_knocks_only_where_nodes_can_be(
    address: str, loopback: bool, is_fine: bool
) -> None:
    assert (probe_refusal(address, allow_loopback=loopback) is None) is is_fine
