"""The real control plane and real agents on a fake clock, under faults, from one seed.

`simulate(seed)` runs one world to its end and raises `Violation` when a promise was broken.
"""

from crawlfleet.testing.simulation.invariants import Violation
from crawlfleet.testing.simulation.world import Outcome, Scenario, simulate

__all__ = ["Outcome", "Scenario", "Violation", "simulate"]
