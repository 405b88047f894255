"""What a run found, as it stands in the JSON."""

import statistics
from collections.abc import Callable, Sequence

import msgspec

from bench.machine import Machine
from bench.tasks.floor import Floor
from bench.tasks.measures import Drain, Enqueue, Killed, Latency, Queued


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a system: fill, drain with one process, fill again, drain with two."""

    single: Enqueue
    batch: Enqueue
    drains: dict[int, Drain]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All about one system; the figures of the rounds are medians."""

    title: str
    tasks: int
    settings: str
    done: str
    bulk: str
    single_per_s: float = 0.0
    batch_per_s: float = 0.0
    drain_per_s: dict[int, float] = {}
    drain_range: dict[int, tuple[float, float]] = {}
    """The slowest and the fastest round."""
    enqueue_cpu_ms: dict[str, float] = {}
    drain_cpu_ms: dict[str, float] = {}
    """With one worker process."""
    latency: Latency | None = None
    queued: Queued | None = None
    killed: Killed | None = None

    @property
    def cpu_ms(self) -> float:
        """Of a task's whole life: submitted in bulk, then done by one worker process."""
        return sum(self.enqueue_cpu_ms.values()) + sum(self.drain_cpu_ms.values())


class Report(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    versions: dict[str, str]
    quick: bool
    rounds: int
    seconds: float
    systems: dict[str, Measured]
    floors: dict[str, list[Floor]]
    missing: dict[str, str]
    """What was not measured, and why."""


def summed_up(measured: Measured, rounds: Sequence[Round]) -> Measured:
    """The medians of the rounds, put beside what is known already."""
    processes = sorted(rounds[0].drains)

    def rates(count: int) -> list[float]:
        return [each.drains[count].per_s for each in rounds]

    return msgspec.structs.replace(
        measured,
        single_per_s=_median(rounds, lambda each: each.single.per_s),
        batch_per_s=_median(rounds, lambda each: each.batch.per_s),
        drain_per_s={count: statistics.median(rates(count)) for count in processes},
        drain_range={count: (min(rates(count)), max(rates(count))) for count in processes},
        enqueue_cpu_ms=_medians([each.batch.cpu_ms for each in rounds]),
        drain_cpu_ms=_medians([each.drains[processes[0]].cpu_ms for each in rounds]),
    )


def _median(rounds: Sequence[Round], figure: Callable[[Round], float]) -> float:
    return statistics.median(map(figure, rounds))


def _medians(costs: Sequence[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for cost in costs for name in cost)
    return {name: statistics.median(cost.get(name, 0.0) for cost in costs) for name in names}
