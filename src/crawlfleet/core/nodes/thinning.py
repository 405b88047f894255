"""Thinning of a node's history: old samples are replaced by their means.

A mean of means is the mean of all samples, so the number of steps in which a history was thinned
does not matter.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from crawlfleet.model.node_sample import WIDTH_S, NodeSample, Resolution


def bucket(at: float, resolution: Resolution) -> float:
    """Return the start of the minute or hour that contains an instant; the instant itself for
    `raw`."""
    width = WIDTH_S[resolution]
    return at // width * width if width else at


def thin(samples: Iterable[NodeSample], to: Resolution) -> list[NodeSample]:
    """Return the means of one node's samples, in order of time; finer samples only become
    coarser."""
    if to is Resolution.RAW:
        return sorted(samples, key=lambda sample: sample.at)
    ordered = sorted(samples, key=lambda sample: sample.at)
    return [
        _mean([*group], at, to)
        for at, group in groupby(ordered, key=lambda sample: bucket(sample.at, to))
    ]


def whole(samples: Sequence[NodeSample], to: Resolution, *, complete: bool) -> list[NodeSample]:
    """Return the samples of an ordered portion whose minute or hour ends within the portion.

    With `complete`, no sample follows the portion, and all of it is returned.
    """
    if complete or not samples:
        return [*samples]
    last = bucket(samples[-1].at, to)
    return [sample for sample in samples if bucket(sample.at, to) < last]


def _mean(samples: Sequence[NodeSample], at: float, resolution: Resolution) -> NodeSample:
    count = sum(sample.count for sample in samples)

    def mean(value: Callable[[NodeSample], float]) -> float:
        return sum(value(sample) * sample.count for sample in samples) / count

    with_gpu = [(s.gpu_usage, s.count) for s in samples if s.gpu_usage is not None]
    with_disk = [(s.disk_usage, s.count) for s in samples if s.disk_usage is not None]
    waited = [(s.wait_s, s.ended) for s in samples if s.wait_s is not None and s.ended]
    timed = [(s.latency_s, s.ended) for s in samples if s.latency_s is not None and s.ended]
    return NodeSample(
        node_id=samples[0].node_id,
        at=at,
        resolution=resolution,
        count=count,
        cpu_usage=mean(lambda sample: sample.cpu_usage),
        memory_usage=mean(lambda sample: sample.memory_usage),
        gpu_usage=_weighted(with_gpu),
        network_io=mean(lambda sample: sample.network_io),
        disk_io=mean(lambda sample: sample.disk_io),
        disk_usage=_weighted(with_disk),
        load=mean(lambda sample: sample.load),
        active_tasks=mean(lambda sample: sample.active_tasks),
        ended=sum(sample.ended for sample in samples),
        errors=sum(sample.errors for sample in samples),
        latency_s=_weighted(timed),
        wait_s=_weighted(waited),
    )


def _weighted(values: Sequence[tuple[float, int]]) -> float | None:
    weight = sum(each for _, each in values)
    return sum(value * each for value, each in values) / weight if weight else None
