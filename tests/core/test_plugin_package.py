"""The example plug-in is installed for real, in a folder of its own, and a plan uses it."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

PACKAGE = Path(__file__).parents[2] / "examples" / "plugin"
UV = Path(sys.executable).parent / "uv"

PLAN_WITH_IT = """
import msgspec
from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.core.placement.project_queues import ProjectQueues
from crawlfleet.core.placement.plan import default_rules, explain, plan
from crawlfleet.model.node import Health, Node, NodeStatus
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import Requirement
from crawlfleet.plugins import FILTERS, STRATEGIES, load

rules = default_rules(strategies=load(STRATEGIES), filters=load(FILTERS))
fleet = Fleet()
for id, memory_mb, labels in (
    ("small", 1000, {}), ("large", 9000, {}), ("private", 50000, {"owner": "ann"})
):
    fleet.put(
        Node(
            id=id, name=id, created_at=0, updated_at=0, labels=labels,
            status=NodeStatus.ONLINE, health=Health.HEALTHY,
            resources=Resources(memory_mb=memory_mb, slots=4),
        )
    )
need = Requirement(
    task_type="web_crawl", strategy="most_memory", demand=Resources(memory_mb=100, slots=1)
)
queue = ProjectQueues()
queue.add("task", need, priority=5, created_at=0)
made = plan(queue, fleet, rules, now=1, seed=1, limit=10)
report = {
    "assignments": made.assignments,
    "faults": made.faults,
    "rejected": explain(need, fleet, rules).rejected,
}
print(msgspec.json.encode(report).decode())
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    command = [
        *(str(UV), "pip", "install", "--offline", "--no-deps", "--no-build-isolation"),
        *("--python", sys.executable, "--target", str(tmp_path / "site"), str(PACKAGE)),
    ]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, timeout=60)
    return tmp_path / "site"


@pytest.mark.skipif(
    not UV.exists() and not os.environ.get("CI"), reason="uv is not installed beside this Python"
)
def test_an_installed_plug_in_offers_its_strategy_and_its_filter(installed: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", PLAN_WITH_IT]
    done = subprocess.run(command, check=True, capture_output=True, env=environment, timeout=60)
    assert msgspec.json.decode(done.stdout) == {
        "assignments": [["task", "large"]],
        "faults": {},
        "rejected": {"owner": 1},
    }
