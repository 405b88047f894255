"""Schedules in random worlds where masters die around any commit; and what breaks without care."""

import os

import pytest
from msgspec.structs import replace

from crawlfleet.adapters.store.acceptance import Present
from crawlfleet.features.schedules import runner
from crawlfleet.features.schedules.model import Schedule
from crawlfleet.features.schedules.rules import firing
from crawlfleet.features.workflows.model import Run
from crawlfleet.model.change import Change
from crawlfleet.ports.store import Refusal
from crawlfleet.testing.simulation import Scenario, Violation, simulate

SEEDS = 600 if os.environ.get("CRAWLFLEET_SOAK") else 12
PORTION = 6
SEEDS_TO_FIND_A_DEFECT = 40
WORLD = Scenario(tasks=15, schedules=4, rough_s=150.0)
TWO_MASTERS = replace(WORLD, masters=2)
WITH_WORKFLOWS = replace(WORLD, tasks=5, workflows=1)
"""Every other schedule runs a workflow."""
DEAF_MASTERS = replace(TWO_MASTERS, late_news_s=4.0)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, PORTION))
def test_every_due_instant_fires_once_whatever_fails(first: int) -> None:
    for seed in range(first, first + PORTION):
        world = (WORLD, TWO_MASTERS, DEAF_MASTERS)[seed % 3]
        assert sum(simulate(seed, world).by_status.values()) > 15


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS // 3, 2))
def test_every_due_instant_runs_its_workflow_once_whatever_fails(first: int) -> None:
    for seed in range(first, first + 2):
        world = (WITH_WORKFLOWS, replace(WITH_WORKFLOWS, masters=2))[seed % 2]
        assert sum(simulate(seed, world).by_status.values()) > 15


def found_by_somebody(world: Scenario) -> bool:
    for seed in range(SEEDS_TO_FIND_A_DEFECT):
        try:
            simulate(seed, world)
        except (Violation, AssertionError):
            return True
    return False


@pytest.mark.slow
def test_a_cursor_that_is_not_written_with_the_task_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settle = firing.settle

    def careless(verdict: firing.FiringPlan, *args: object, **more: object) -> Change:
        change = settle(verdict, *args, **more)  # type: ignore[arg-type]
        # Who orders a run is told what became of it: that one is left alone.
        ordered = str(more["cause"]).startswith("run by")
        return change if ordered else replace(change, rows=(*change.of(Schedule), *change.of(Run)))

    monkeypatch.setattr(runner.firing, "settle", careless)
    assert found_by_somebody(TWO_MASTERS)


@pytest.mark.slow
def test_a_store_that_does_not_compare_versions_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two leaders, and nothing that stands in the way of the second."""
    accept = Present.accept

    def lenient(self: Present, change: Change) -> Refusal | None:
        if not change.of(Schedule):
            return accept(self, change)
        fitting = tuple(
            replace(each, version=self.versions[Schedule].get(each.id, 0) + 1)
            for each in change.of(Schedule)
        )
        return accept(self, replace(change, rows=fitting + change.of(Run), epoch=None))

    monkeypatch.setattr(Present, "accept", lenient)
    assert found_by_somebody(DEAF_MASTERS)
