"""History gets coarser and stays true: means of means are means of all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.core.nodes.thinning import bucket, thin, whole
from crawlfleet.model.node_sample import NodeSample, Resolution


def sample(at: float, **fields: float | None) -> NodeSample:
    return NodeSample(node_id="n", at=at, **fields)


def test_samples_of_a_minute_become_their_mean() -> None:
    found = thin(
        [
            sample(61.0, cpu_usage=0.2, memory_usage=0.5, load=1.0, active_tasks=1),
            sample(64.0, cpu_usage=0.4, memory_usage=0.7, load=3.0, active_tasks=4),
            sample(120.0, cpu_usage=1.0),
        ],
        Resolution.MINUTE,
    )

    assert [(each.at, each.count, each.resolution) for each in found] == [
        (60.0, 2, Resolution.MINUTE),
        (120.0, 1, Resolution.MINUTE),
    ]
    assert found[0].cpu_usage == pytest.approx(0.3)
    assert found[0].memory_usage == pytest.approx(0.6)
    assert found[0].load == pytest.approx(2.0)
    assert found[0].active_tasks == pytest.approx(2.5)


def test_what_ended_adds_up_and_its_time_is_weighed_by_it() -> None:
    (mean,) = thin(
        [
            sample(0.0, ended=3, errors=1, latency_s=1.0),
            sample(1.0, ended=1, errors=1, latency_s=5.0),
            sample(2.0),
        ],
        Resolution.MINUTE,
    )

    assert (mean.ended, mean.errors, mean.latency_s) == (4, 2, pytest.approx(2.0))


def test_what_was_never_measured_stays_unknown() -> None:
    (none,) = thin([sample(0.0), sample(1.0)], Resolution.HOUR)
    (some,) = thin([sample(0.0), sample(1.0, gpu_usage=0.5)], Resolution.HOUR)

    assert (none.gpu_usage, none.latency_s) == (None, None)
    assert some.gpu_usage == 0.5


def test_nothing_is_thinned_to_raw() -> None:
    assert thin([sample(2.0), sample(1.0)], Resolution.RAW) == [sample(1.0), sample(2.0)]


def test_only_buckets_that_are_in_a_portion_to_their_end_are_taken() -> None:
    samples = [sample(10.0), sample(59.0), sample(60.0), sample(119.0), sample(120.0)]

    assert whole(samples, Resolution.MINUTE, complete=False) == samples[:4]
    assert whole(samples, Resolution.MINUTE, complete=True) == samples
    assert whole([], Resolution.MINUTE, complete=False) == []


@pytest.mark.parametrize(
    ("at", "resolution", "begin"),
    [
        (3725.5, Resolution.RAW, 3725.5),
        (3725.5, Resolution.MINUTE, 3720.0),
        (3725.5, Resolution.HOUR, 3600.0),
        (3600.0, Resolution.HOUR, 3600.0),
    ],
)
def test_an_instant_belongs_to_one_bucket(at: float, resolution: Resolution, begin: float) -> None:
    assert bucket(at, resolution) == begin


@given(
    st.lists(
        st.builds(
            NodeSample,
            node_id=st.just("n"),
            at=st.floats(0, 20_000),
            cpu_usage=st.floats(0, 1),
            gpu_usage=st.none() | st.just(0.5),
            ended=st.integers(0, 50),
            errors=st.integers(0, 50),
        ),
        max_size=60,
    )
)
def test_it_does_not_matter_in_how_many_steps(samples: list[NodeSample]) -> None:
    direct = thin(samples, Resolution.HOUR)
    by_minutes = thin(thin(samples, Resolution.MINUTE), Resolution.HOUR)

    assert sum(each.count for each in direct) == len(samples)
    assert sum(each.ended for each in direct) == sum(each.ended for each in samples)
    for one, other in zip(direct, by_minutes, strict=True):
        assert (one.at, one.count, one.errors) == (other.at, other.count, other.errors)
        assert one.cpu_usage == pytest.approx(other.cpu_usage)
