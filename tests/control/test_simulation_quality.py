"""Expectations in random worlds where masters die around any commit; and what is found there."""

import os

import pytest
from msgspec.structs import replace

from crawlfleet.control.quality import Measurement
from crawlfleet.core.quality.recording import QualityRecord
from crawlfleet.core.tasks import attempts
from crawlfleet.model.change import Change
from crawlfleet.testing.simulation import Scenario, Violation, simulate

SEEDS = 300 if os.environ.get("CRAWLFLEET_SOAK") else 4
WORLD = Scenario(tasks=40, expecting=0.7, rough_s=120.0)
TWO_MASTERS = replace(WORLD, masters=2)
SEEDS_TO_FIND_A_DEFECT = 20


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, 2))
def test_no_task_ends_without_its_verdict_whoever_dies(first: int) -> None:
    for seed, world in ((first, WORLD), (first + 1, TWO_MASTERS)):
        assert sum(simulate(seed, world).by_status.values()) > 20


@pytest.mark.slow
def test_a_verdict_that_is_written_apart_from_the_end_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def careless(change: Change, judged: QualityRecord, *, now: float) -> Change:
        return change

    monkeypatch.setattr(attempts, "signed", careless)
    assert any(_breaks(seed) for seed in range(SEEDS_TO_FIND_A_DEFECT))


def _breaks(seed: int) -> bool:
    try:
        simulate(seed, WORLD)
    except (Violation, AssertionError):
        return True
    return False


def test_what_is_measured_is_not_kept_for_ever() -> None:
    """Of executions that are over nothing is remembered."""
    kept: list[int] = []
    forget = Measurement.forget

    def counting(self: Measurement, execution_ids: object) -> None:
        forget(self, execution_ids)  # type: ignore[arg-type]
        kept.append(len(self._under_way))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Measurement, "forget", counting)
        simulate(1, replace(WORLD, tasks=20, rough_s=30.0))
    assert kept
    assert max(kept) <= 20
