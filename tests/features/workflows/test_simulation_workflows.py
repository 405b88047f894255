"""Workflows in random worlds where masters die around any commit; and what breaks without care."""

import os
from typing import Any

import pytest
from msgspec.structs import replace

from crawlfleet.features.workflows.model import Run, RunStep
from crawlfleet.features.workflows.rules.engine import RunProgress
from crawlfleet.features.workflows.rules.plan import PlannedStep
from crawlfleet.features.workflows.run_state import RunState
from crawlfleet.model.change import Change
from crawlfleet.testing.simulation import Scenario, Violation, simulate

SEEDS = 600 if os.environ.get("CRAWLFLEET_SOAK") else 9
PORTION = 3
SEEDS_TO_FIND_A_DEFECT = 20
WORLD = Scenario(tasks=5, workflows=6, rough_s=150.0)
TWO_MASTERS = replace(WORLD, masters=2)
DEAF_MASTERS = replace(TWO_MASTERS, late_news_s=4.0)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, PORTION))
def test_every_step_begins_once_and_after_what_it_waits_for(first: int) -> None:
    for seed in range(first, first + PORTION):
        world = (WORLD, TWO_MASTERS, DEAF_MASTERS)[seed % 3]
        assert sum(simulate(seed, world).by_status.values()) > 5


def found_by_somebody(world: Scenario) -> bool:
    for seed in range(SEEDS_TO_FIND_A_DEFECT):
        try:
            simulate(seed, world)
        except (Violation, AssertionError):
            return True
    return False


@pytest.mark.slow
def test_steps_that_are_not_written_with_their_tasks_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take = RunState.take_change

    def careless(self: RunState, now: float) -> Change | None:
        change = take(self, now)
        if change is None:
            return None
        return replace(change, rows=change.of(Run) + change.of(RunStep)[:1])

    monkeypatch.setattr(RunState, "take_change", careless)
    assert found_by_somebody(WORLD)


@pytest.mark.slow
def test_a_step_that_does_not_wait_for_all_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    put = RunProgress._put

    def hasty(self: RunProgress, place: int, status: Any) -> None:
        step: PlannedStep = self.plan.steps[place]
        for after in step.dependents:
            self._pending[after] = min(self._pending[after], 1)
        put(self, place, status)

    monkeypatch.setattr(RunProgress, "_put", hasty)
    assert found_by_somebody(WORLD)
