import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.core.resources import (
    LARGEST,
    add,
    allocate,
    demand_of,
    fits,
    parse_resources,
    subtract,
)
from crawlfleet.model.resources import NOTHING, Resources
from tests.core.placement_worlds import make_task


@pytest.mark.parametrize(
    ("given_amounts", "parsed", "unknown"),
    [
        ({}, NOTHING, []),
        ({"cpu": 8, "memory_mb": 16384}, Resources(cpu_cores=8, memory_mb=16384), []),
        ({"cpu_cores": 2, "memory": 4096}, Resources(cpu_cores=2, memory_mb=4096), []),
        ({"network_bandwidth_mbps": 1000, "gpu": 1}, Resources(bandwidth_mbps=1000, gpu=1), []),
        ({"bandwidth_mbps": 5, "slots": 3}, Resources(bandwidth_mbps=5, slots=3), []),
        ({"disk_gb": 5, "cpu": 1}, Resources(cpu_cores=1), ["disk_gb"]),
        ({"cpu": 8, "cpu_cores": 2}, Resources(cpu_cores=2), []),
        ({"cpu_cores": 2, "cpu": 8}, Resources(cpu_cores=2), []),
        ({"cpu": -1, "memory": float("nan")}, NOTHING, []),
        ({"cpu": float("inf")}, Resources(cpu_cores=LARGEST), []),
    ],
)
def test_both_spellings_are_understood(
    given_amounts: dict[str, float], parsed: Resources, unknown: list[str]
) -> None:
    assert parse_resources(given_amounts) == (parsed, unknown)


def test_adding_and_taking_away_leaves_no_rounding_behind() -> None:
    one = Resources(cpu_cores=0.1, memory_mb=333.3, slots=1)
    total = NOTHING
    for _ in range(1000):
        total = add(total, one)
    assert total == Resources(cpu_cores=100, memory_mb=333300, slots=1000)
    for _ in range(1000):
        total = subtract(total, one)
    assert total == NOTHING


def test_three_times_a_tenth_fits_into_three_tenths() -> None:
    tenth = Resources(cpu_cores=0.1)
    assert fits(add(add(tenth, tenth), tenth), Resources(cpu_cores=0.3))
    assert not fits(Resources(cpu_cores=0.300001), Resources(cpu_cores=0.3))


@pytest.mark.parametrize(
    ("asked", "demand"),
    [
        ({}, Resources(slots=1)),
        ({"cpu": 2, "slots": 0}, Resources(cpu_cores=2, slots=1)),
        ({"memory_mb": 512, "slots": 3}, Resources(memory_mb=512, slots=3)),
    ],
)
def test_every_task_demands_a_slot(asked: dict[str, float], demand: Resources) -> None:
    assert demand_of(make_task(min_resources=asked)) == demand


CAPACITY = Resources(cpu_cores=8, memory_mb=16384, slots=4)
FREE = Resources(cpu_cores=6, memory_mb=12288, slots=3)


@pytest.mark.parametrize(
    ("capabilities", "load", "cpu_cores", "memory_mb"),
    [
        ({}, 0.5, 1.0, 1024.0),
        ({}, 0.9, 0.8, 921.6),
        ({}, 0.1, 1.2, 1126.4),
        ({"javascript_rendering": 1}, 0.5, 1.0, 1536.0),
        ({"proxy_rotation": True}, 0.5, 1.3, 1024.0),
    ],
)
def test_an_allocation_follows_load_and_nature_of_the_task(
    capabilities: dict[str, object], load: float, cpu_cores: float, memory_mb: float
) -> None:
    given_out = allocate(Resources(slots=1), capabilities, CAPACITY, FREE, load)
    assert given_out.cpu_cores == pytest.approx(cpu_cores)
    assert given_out.memory_mb == pytest.approx(memory_mb)
    assert given_out.slots == 1


def test_a_small_demand_is_given_the_least_that_an_execution_needs() -> None:
    small = Resources(cpu_cores=0.1, memory_mb=64, slots=1)
    given_out = allocate(small, {}, CAPACITY, FREE, 0.9)
    assert (given_out.cpu_cores, given_out.memory_mb) == (0.5, 512)


@given(
    demand=st.builds(Resources, cpu_cores=st.floats(0, 8), memory_mb=st.floats(0, 16384)),
    rendering=st.booleans(),
    rotation=st.booleans(),
    idle=st.floats(0, 1),
    load=st.floats(0, 2),
)
def test_an_allocation_is_between_the_demand_and_what_the_node_can_give(
    demand: Resources, rendering: bool, rotation: bool, idle: float, load: float
) -> None:
    left = subtract(CAPACITY, demand)
    free = Resources(cpu_cores=left.cpu_cores * idle, memory_mb=left.memory_mb * idle)
    wishes = {"javascript_rendering": rendering, "proxy_rotation": rotation}
    given_out = allocate(demand, wishes, CAPACITY, free, load)
    for name in ("cpu_cores", "memory_mb"):
        amount, asked = getattr(given_out, name), getattr(demand, name)
        assert asked <= amount <= getattr(CAPACITY, name)
        assert amount <= asked + getattr(free, name)
