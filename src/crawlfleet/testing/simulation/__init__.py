"""The real control plane and real agents on a fake clock, under faults, from one seed.

`simulate(seed)` runs one world to its end and raises `Violation` when a promise was broken.
"""

from crawlfleet.testing.simulation.invariants import Violation
from crawlfleet.testing.simulation.scenario import (
    A_BAD_DAY,
    Scenario,
    ScenarioOutcome,
    share_of_a_day,
)
from crawlfleet.testing.simulation.world import simulate

__all__ = ["A_BAD_DAY", "Scenario", "ScenarioOutcome", "Violation", "share_of_a_day", "simulate"]
