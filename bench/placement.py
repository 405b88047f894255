"""How fast tasks are placed: every strategy, from ten nodes to ten thousand.

`python -m bench.placement [--quick] [--json FILE]`. Nodes are 70 % full on average; 240 different
requirements; the queue is made anew for each measurement, so that nothing is sorted beforehand. The
clock is that of the thread, which is the clock on the wall when the machine has nothing else to do.
Beside it the naive peer: for each task a loop over all nodes in Python, as schedulers often do.
"""

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.core.placement.plan import default_rules, plan
from crawlfleet.core.placement.project_queues import ProjectQueues
from crawlfleet.core.placement.strategies import BUILT_IN
from crawlfleet.core.resources import add
from crawlfleet.model.node import Health, Node, NodeStatus
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import Requirement

NODES = (10, 100, 1_000, 10_000)
TASKS = (1_000, 10_000, 100_000)
REPEATS = 3
FULL = 0.7
REGIONS = ("us-east-1", "eu-west-1", "cn-north", "ap-south-1", "br")
TASK_TYPES = ("web_crawl", "http_fetch", "browser_crawl", "python")
TECHNOLOGIES = ("react", "wordpress", "angular", "static")
NOW = 1_800_000_000.0


def requirements() -> list[Requirement]:
    """240 different things to ask for; each can be met by a part of the nodes."""
    made = []
    for number in range(240):
        rendering = number % 3 == 0
        made.append(
            Requirement(
                task_type=TASK_TYPES[number % 4],
                capabilities=(("javascript_rendering", 1),) if rendering else (),
                demand=Resources(
                    cpu_cores=(1 + number % 5) / 20, memory_mb=64.0 * (1 + number % 4), slots=1.0
                ),
                target_region=REGIONS[number % 5],
                content_features=(
                    ("content_type", ("html", "json")[number % 2]),
                    ("technology", TECHNOLOGIES[number % 4]),
                    ("topic", f"t{number}"),
                ),
            )
        )
    return made


def fleet_of(nodes: int, tasks: int, random: Random) -> Fleet:
    """A fleet of 60 classes, 70 % full, whose free rest would hold the tasks 1.5 times over."""
    fleet = Fleet()
    slots = max(20.0, round(1.5 * tasks / (nodes * (1 - FULL))))
    for number in range(nodes):
        node = Node(
            id=f"node-{number:05}",
            name=f"n{number}",
            created_at=NOW,
            updated_at=NOW,
            region=REGIONS[number % 5],
            task_types=TASK_TYPES if number % 4 else TASK_TYPES[:2],
            capabilities={
                "javascript_rendering": number % 2,
                "content_types": ["html"] if number % 3 else ["html", "json"],
                "technologies": [TECHNOLOGIES[number % 4]],
            },
            resources=Resources(cpu_cores=slots / 4, memory_mb=slots * 200, slots=slots),
            status=NodeStatus.ONLINE,
            health=Health.HEALTHY,
        )
        fleet.put(node)
        share = min(1.0, max(0.0, random.gauss(FULL, 0.15)))
        held = Resources()
        one = Resources(cpu_cores=0.15, memory_mb=160.0, slots=1.0)
        for _ in range(min(int(share * slots), 40)):
            fleet.reserve(node.id, one)
            held = add(held, one)
        rest = Resources(
            cpu_cores=max(0.0, share * slots / 4 - held.cpu_cores),
            memory_mb=max(0.0, share * slots * 200 - held.memory_mb),
            slots=max(0.0, int(share * slots) - held.slots),
        )
        fleet.reserve(node.id, rest)
        fleet.observe(node.id, random.random())
    return fleet


def queue_of(tasks: int, random: Random) -> ProjectQueues:
    """Tasks of all priorities, submitted within a minute."""
    kinds = requirements()
    queue = ProjectQueues()
    for number in range(tasks):
        queue.add(
            f"task-{number:07}",
            kinds[random.randrange(len(kinds))],
            priority=random.randint(1, 10),
            created_at=NOW + 60.0 * number / tasks,
        )
    return queue


def measure(strategy: str, nodes: int, tasks: int, fleet: Fleet) -> dict[str, object]:
    """Decisions per second of the best of three plans for all tasks at once."""
    rules = default_rules(default_strategy=strategy)
    best, placed = float("inf"), 0
    for _ in range(REPEATS):
        queue = queue_of(tasks, Random(2))
        started = time.thread_time()
        made = plan(queue, fleet, rules, now=NOW + 60, seed=3, limit=tasks)
        best = min(best, time.thread_time() - started)
        placed = len(made.assignments)
    return {
        "strategy": strategy,
        "nodes": nodes,
        "tasks": tasks,
        "placed": placed,
        "unplaced": tasks - placed,
        "decisions_per_s": round(tasks / best),
    }


def measure_cycle(nodes: int, tasks: int, batch: int, fleet: Fleet) -> float:
    """Tasks per second through add, plan by plan in batches, discard and reserve."""
    rules, kinds, random = default_rules(), requirements(), Random(2)
    started = time.thread_time()
    queue = ProjectQueues()
    asked = {}
    for number in range(tasks):
        asked[f"task-{number:07}"] = kinds[random.randrange(len(kinds))]
    for id, kind in asked.items():
        queue.add(id, kind, priority=5, created_at=NOW)
    done = 0
    while made := plan(queue, fleet, rules, now=NOW, seed=done, limit=batch).assignments:
        for task_id, node_id in made:
            queue.discard(task_id)
            fleet.reserve(node_id, asked[task_id].demand)
        done += len(made)
    return done / (time.thread_time() - started)


def measure_single(nodes: int, fleet: Fleet) -> float:
    """Microseconds to plan one task, the queue holding just that task."""
    rules, best = default_rules(), float("inf")
    queue = ProjectQueues()
    queue.add("task", requirements()[1], priority=5, created_at=NOW)
    for _ in range(200):
        started = time.thread_time()
        plan(queue, fleet, rules, now=NOW, seed=3, limit=1)
        best = min(best, time.thread_time() - started)
    return best * 1e6


def naive(nodes: int, tasks: int) -> float:
    """Decisions per second of a loop over all nodes for each task, `least_loaded`."""
    random = Random(1)
    fleet = [
        {
            "id": f"node-{number}",
            "task_types": TASK_TYPES,
            "capabilities": {"javascript_rendering": number % 2},
            "free": {"cpu_cores": 1e6, "memory_mb": 1e9, "slots": 1e6},
            "load": random.random(),
        }
        for number in range(nodes)
    ]
    kinds = requirements()
    wanted = sorted(
        ((random.randint(1, 10), number, kinds[number % len(kinds)]) for number in range(tasks)),
        key=lambda task: (-task[0], task[1]),
    )
    started = time.thread_time()
    for _, _, kind in wanted:
        able = [node for node in fleet if _naive_fit(node, kind)]
        if able:
            chosen = min(able, key=lambda node: node["load"])
            chosen["load"] += 1e-6
            for name in ("cpu_cores", "memory_mb", "slots"):
                chosen["free"][name] -= getattr(kind.demand, name)
    return tasks / (time.thread_time() - started)


def _naive_fit(node: dict, kind: Requirement) -> bool:
    if kind.task_type not in node["task_types"]:
        return False
    for name, level in kind.capabilities:
        if node["capabilities"].get(name, 0) < level:
            return False
    return all(
        node["free"][name] >= getattr(kind.demand, name)
        for name in ("cpu_cores", "memory_mb", "slots")
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the corners")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(arguments)
    sizes = [(nodes, tasks) for nodes in NODES for tasks in TASKS]
    if options.quick:
        sizes = [(10, 1_000), (1_000, 10_000), (10_000, 100_000)]
    console = Console(width=150)
    table = Table(title="decisions per CPU-second, best of 3, 240 requirements, nodes 70 % full")
    for title in ("nodes", "tasks", "placed / unplaced", *BUILT_IN):
        table.add_column(title, justify="right")
    figures = []
    for nodes, tasks in sizes:
        fleet = fleet_of(nodes, tasks, Random(1))
        row = [measure(strategy, nodes, tasks, fleet) for strategy in BUILT_IN]
        figures += row
        table.add_row(
            f"{nodes:,}",
            f"{tasks:,}",
            f"{row[0]['placed']:,} / {row[0]['unplaced']:,}",
            *(f"{figure['decisions_per_s']:,}" for figure in row),
        )
    console.print(table)
    peers = {
        f"naive loop, {nodes:,} nodes, {tasks:,} tasks": round(naive(nodes, tasks))
        for nodes, tasks in ((100, 1_000), (1_000, 500), (10_000, 100))
    }
    for name, rate in peers.items():
        console.print(f"peer: {name}: {rate:,} decisions per CPU-second")
    cycles = {}
    for nodes, tasks in ((100, 10_000), (10_000, 10_000 if options.quick else 100_000)):
        fleet = fleet_of(nodes, tasks, Random(1))
        rate = round(measure_cycle(nodes, tasks, 1_000, fleet))
        cycles[f"{nodes} nodes"] = rate
        console.print(
            f"add, plan in batches of 1,000, discard, reserve: {tasks:,} tasks on {nodes:,} nodes:"
            f" {rate:,} tasks per CPU-second"
        )
    singles = {nodes: measure_single(nodes, fleet_of(nodes, 0, Random(1))) for nodes in (2, *NODES)}
    for nodes, micros in singles.items():
        console.print(f"one task on {nodes:,} nodes: {micros:.0f} µs")
    if options.json:
        report = {
            "python": sys.version.split()[0],
            "machine": platform.machine(),
            "plans": figures,
            "naive": peers,
            "cycles_per_s": cycles,
            "single_us": singles,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
