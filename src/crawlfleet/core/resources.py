"""Amounts of CPU, memory and the rest: how they are spelled, compared and handed out.

Inside there is one vocabulary, `Resources`; at the edge the spellings of tasks (`cpu_cores`) and
of nodes (`cpu`) are both accepted. Placement calculates in whole millionths, so that a thousand
reservations of 0.1 and their releases leave exactly nothing behind. What is *reserved* for an
execution is its demand; what it may *use* is its allocation, which also takes what lies idle.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from crawlfleet.model.resources import RESOURCE_NAMES, Resources
from crawlfleet.model.task import Task

SPELLINGS: Final[Mapping[str, str]] = {
    "cpu": "cpu_cores",
    "memory": "memory_mb",
    "network_bandwidth_mbps": "bandwidth_mbps",
    **{name: name for name in RESOURCE_NAMES},
}
UNITS: Final = 1_000_000.0
"""Factor between amounts and the whole numbers (millionths) that floats add without rounding."""
LARGEST: Final = 1e9
"""Upper bound of amounts; a million times it is still exact."""
SLOTS: Final = RESOURCE_NAMES.index("slots")

ONE_SLOT: Final = Resources(slots=1.0)
USUAL_CPU_CORES: Final = 1.0
USUAL_MEMORY_MB: Final = 1024.0
LEAST_CPU_CORES: Final = 0.5
LEAST_MEMORY_MB: Final = 512.0
BUSY: Final = 0.7
IDLE: Final = 0.3


def parse_resources(amounts: Mapping[str, float]) -> tuple[Resources, list[str]]:
    """Return the amounts as `Resources`, and the names that are not resources.

    When both spellings of a resource are given, the inner one (`cpu_cores`, not `cpu`) counts: it
    is the one that we print, and the rule is the same for a need and for a capacity. Negative
    amounts and NaN count as zero, endless ones as `LARGEST`.
    """
    known: dict[str, float] = {}
    unknown = []
    for name, amount in amounts.items():
        inner = SPELLINGS.get(name)
        if inner is None:
            unknown.append(name)
        elif name == inner or inner not in amounts:
            known[inner] = _bounded(amount)
    return Resources(**known), unknown


def add(a: Resources, b: Resources) -> Resources:
    """Return the sum of both."""
    return from_units(units(a) + units(b))


def subtract(a: Resources, b: Resources) -> Resources:
    """Return `a - b`, never below zero.

    Plain numbers: it runs once per assignment, and five of them are too few for an array to pay.
    """
    return Resources(
        cpu_cores=_less(a.cpu_cores, b.cpu_cores),
        memory_mb=_less(a.memory_mb, b.memory_mb),
        gpu=_less(a.gpu, b.gpu),
        bandwidth_mbps=_less(a.bandwidth_mbps, b.bandwidth_mbps),
        slots=_less(a.slots, b.slots),
    )


def _less(amount: float, taken: float) -> float:
    return max(round(amount - taken, 6), 0.0) if taken else amount


def fits(need: Resources, free: Resources) -> bool:
    """Return whether `free` has enough of every resource for `need`."""
    return bool((units(need) <= units(free)).all())


def demand_of(task: Task) -> Resources:
    """Return the resources that a node must have free for the task: those it asks for, and at least
    one slot."""
    if not task.min_resources:
        return ONE_SLOT
    asked, _ = parse_resources(task.min_resources)
    if asked.slots >= 1.0:
        return asked
    return Resources(
        cpu_cores=asked.cpu_cores,
        memory_mb=asked.memory_mb,
        gpu=asked.gpu,
        bandwidth_mbps=asked.bandwidth_mbps,
        slots=1.0,
    )


def allocate(
    demand: Resources,
    capabilities: Mapping[str, Any],
    capacity: Resources,
    free: Resources,
    load: float,
) -> Resources:
    """Return what an execution may use on a node where `demand` is reserved and `free` is left
    over.

    It is never less than the demand, and never more than the node's capacity or than demand and
    idle rest together. Beyond the demand it is a ceiling for bursts, not a reservation: two
    executions may be offered the same idle memory. A busy node (load over 0.7) is less generous, an
    idle one (under 0.3) more; rendering needs memory, rotating proxies needs CPU. GPU, bandwidth
    and slots are given as asked.
    """
    cpu = demand.cpu_cores or USUAL_CPU_CORES
    memory = demand.memory_mb or USUAL_MEMORY_MB
    if load > BUSY:
        cpu, memory = cpu * 0.8, memory * 0.9
    elif load < IDLE:
        cpu, memory = cpu * 1.2, memory * 1.1
    if capabilities.get("javascript_rendering"):
        memory *= 1.5
    if capabilities.get("proxy_rotation"):
        cpu *= 1.3
    cpu_ceiling = min(capacity.cpu_cores, demand.cpu_cores + free.cpu_cores)
    memory_ceiling = min(capacity.memory_mb, demand.memory_mb + free.memory_mb)
    return Resources(
        cpu_cores=max(demand.cpu_cores, min(max(cpu, LEAST_CPU_CORES), cpu_ceiling)),
        memory_mb=max(demand.memory_mb, min(max(memory, LEAST_MEMORY_MB), memory_ceiling)),
        gpu=demand.gpu,
        bandwidth_mbps=demand.bandwidth_mbps,
        slots=demand.slots,
    )


@lru_cache(maxsize=4096)
def units(amount: Resources) -> NDArray[np.float64]:
    """Return the amount as whole millionths, in the order of `RESOURCE_NAMES`; do not write to
    it."""
    exact = np.array(
        [
            float(round(_bounded(value) * UNITS))
            for value in (getattr(amount, name) for name in RESOURCE_NAMES)
        ]
    )
    exact.flags.writeable = False
    return exact


@lru_cache(maxsize=4096)
def demanded(demand: Resources) -> tuple[tuple[int, float], ...]:
    """Return the demanded resources as (index into `RESOURCE_NAMES`, millionths), slots first.

    Slots run out first on most nodes, so testing them first leaves less to test.
    """
    asked = [(index, float(amount)) for index, amount in enumerate(units(demand)) if amount > 0]
    return tuple(sorted(asked, key=lambda pair: pair[0] != SLOTS))


def from_units(amount: NDArray[np.float64]) -> Resources:
    """Return the amount from millionths, the reverse of `units`."""
    return Resources(
        **dict(zip(RESOURCE_NAMES, (amount / UNITS).tolist(), strict=True)),
    )


def _bounded(amount: float) -> float:
    """Return the amount between zero and `LARGEST`; NaN is zero, since no comparison holds for
    it."""
    return min(amount, LARGEST) if amount > 0 else 0.0
