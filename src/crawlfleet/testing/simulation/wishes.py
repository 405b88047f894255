"""Random tasks of all sizes for a simulated world, some of which cannot succeed."""

import random
from collections.abc import Sequence
from typing import Final

import msgspec

from crawlfleet.model.project import DEFAULT_PROJECT
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.task import RetryPolicy
from crawlfleet.testing.simulation.faults import SimulatedWork
from crawlfleet.testing.simulation.measured import expected
from crawlfleet.testing.simulation.scenario import Scenario

STRATEGIES: Final = ("least_loaded", "round_robin", "random", "bin_pack", None)


def wanted(scenario: Scenario, chance: random.Random, projects: Sequence[str]) -> TaskRequest:
    """A task of one of the projects; of the default one when there are none."""
    outcome = chance.choices(("ok", "error", "bad", "hang"), (70, 20, 5, 5))[0]
    work = SimulatedWork(
        seconds=chance.choice(scenario.work_s),
        outcome=outcome,
        shards=chance.choice(scenario.shards),
    )
    return TaskRequest(
        task_type="work",
        project_id=chance.choice(projects) if projects else DEFAULT_PROJECT,
        parameters=msgspec.Raw(msgspec.json.encode(work)),
        priority=chance.randint(1, 10),
        min_resources={"cpu": chance.choice((0, 1, 2)), "memory_mb": chance.choice((0, 1024))},
        schedule_strategy=chance.choice(STRATEGIES),
        max_retries=chance.randint(0, 3),
        retry_policy=RetryPolicy(initial_delay_s=chance.choice((0.0, 1.0)), max_delay_s=20.0),
        timeout=chance.choice(scenario.limits_s),
        dedup_key=chance.choice((None, None, None, f"key {chance.randint(1, 9)}"))
        if scenario.dedup
        else None,
        dedup_window=30.0,
        target=chance.choice(scenario.targets) if scenario.targets else None,
        expectations=expected(chance)
        if scenario.expecting and chance.random() < scenario.expecting
        else None,
    )
