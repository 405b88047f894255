"""A day of a thousand nodes and a million tasks, simulated: every promise is checked throughout.

The control plane and the agents are the real ones; time, network, store and executors are played
(docs/guides/simulation.md). Nodes crash and are cut off all day, messages get lost, masters
die.
"""

import argparse
import contextlib
import gc
import os
import resource
import time
from pathlib import Path

import msgspec
from rich.console import Console

from bench.sheets import Sheet, show
from crawlfleet.testing.simulation import Scenario, ScenarioOutcome, share_of_a_day, simulate


class Day(msgspec.Struct, frozen=True, kw_only=True):
    scenario: Scenario
    outcome: ScenarioOutcome
    seconds: float
    cpu_s: float
    peak_mb: float


def main(arguments: list[str] | None = None) -> Day:
    parser = argparse.ArgumentParser(prog="bench.day", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 nodes, 10,000 tasks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="of the nodes and of the day")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args(arguments)
    day = measure(options.seed, share_of_a_day(0.1 if options.quick else options.share))
    show([sheet(day)], Console())
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(day)))
    return day


def measure(seed: int, scenario: Scenario) -> Day:
    """Run it to its end; raises `Violation` when a promise was broken."""
    # What is made stays: looking through millions of objects for garbage finds none.
    gc.set_threshold(200_000, 50, 1_000)
    begun, cpu_begun = time.monotonic(), time.process_time()
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        outcome = simulate(seed, scenario)
    return Day(
        scenario=scenario,
        outcome=outcome,
        seconds=time.monotonic() - begun,
        cpu_s=time.process_time() - cpu_begun,
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    )


def sheet(day: Day) -> Sheet:
    tasks = ", ".join(f"{number:,} {state}" for state, number in day.outcome.by_status.items())
    return Sheet(
        f"a day in minutes: {day.scenario.nodes:,} nodes, {day.scenario.tasks:,} tasks",
        ["", ""],
        [
            ["seed", str(day.outcome.seed)],
            ["simulated hours", f"{day.outcome.simulated_s / 3600:.1f}"],
            ["real minutes", f"{day.seconds / 60:.1f}"],
            ["CPU minutes", f"{day.cpu_s / 60:.1f}"],
            ["peak memory, MB", f"{day.peak_mb:,.0f}"],
            ["tasks", tasks],
            ["commits, each of them checked", f"{day.outcome.commits:,}"],
            ["lives of the master", str(day.outcome.master_lives)],
        ],
    )


if __name__ == "__main__":
    main()
