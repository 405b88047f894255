"""Projects get their shares of the fleet, and none of them waits for ever."""

import os
import random
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.core.placement.plan import default_rules, plan
from crawlfleet.core.placement.project_queues import ProjectQueues
from crawlfleet.core.placement.tenancy import Tenancy
from crawlfleet.model.project import Project
from crawlfleet.model.quota import Allowance
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import Requirement
from tests.core.placement_worlds import NOW, fleet_of, make_node, need
from tests.sampling import examples

SLOT = need()


class Scene:
    """A fleet, tasks of some projects, and the book of what each holds."""

    def __init__(self, fleet: Fleet, **allowances: Allowance) -> None:
        self.fleet = fleet
        self.queue = ProjectQueues()
        self.tenancy = Tenancy()
        self.running: dict[str, tuple[str, str, Resources]] = {}
        self.waiting: dict[str, tuple[str, Requirement]] = {}
        self._number = 0
        for id, allowance in allowances.items():
            self.tenancy.put(
                Project(id=id, name=id, created_at=NOW, updated_at=NOW, allowance=allowance)
            )
        self.fleet.keep_nodes(self.tenancy.reservations())

    def submit(self, project: str, tasks: int, asked: Requirement = SLOT, **fields: int) -> None:
        for _ in range(tasks):
            self._number += 1
            id = f"{project}-{self._number:06}"
            self.waiting[id] = project, asked
            self.queue.add(
                id,
                asked,
                priority=fields.get("priority", 5),
                created_at=NOW + self._number / 1000,
                project_id=project,
            )

    def dispatch(self, limit: int = 1000) -> list[str]:
        """Carry out one plan; the projects of what was placed, in order."""
        made = plan(
            self.queue,
            self.fleet,
            default_rules(),
            now=NOW,
            seed=self._number,
            limit=limit,
            tenancy=self.tenancy,
        )
        placed = []
        for task_id, node_id in made.assignments:
            project, asked = self.waiting.pop(task_id)
            self.queue.discard(task_id)
            self.fleet.reserve(node_id, asked.demand)
            self.tenancy.take(project, asked.demand)
            self.running[task_id] = project, node_id, asked.demand
            placed.append(project)
        return placed

    def end(self, task_id: str) -> None:
        project, node_id, demand = self.running.pop(task_id)
        self.fleet.release(node_id, demand)
        self.tenancy.give_back(project, demand)

    def held(self) -> Counter[str]:
        return Counter(project for project, _, _ in self.running.values())


def slots(number: int, nodes: int = 1) -> Fleet:
    resources = Resources(cpu_cores=number, memory_mb=1024 * number, slots=number)
    return fleet_of(*(make_node(f"n{each}", resources=resources) for each in range(nodes)))


def test_projects_with_equal_weights_get_equal_parts_of_a_full_fleet() -> None:
    scene = Scene(slots(12))
    for project in ("a", "b", "c"):
        scene.submit(project, 30)
    scene.dispatch()
    assert scene.held() == {"a": 4, "b": 4, "c": 4}


def test_twice_the_weight_is_twice_as_much() -> None:
    scene = Scene(slots(12), a=Allowance(weight=2))
    scene.submit("a", 30)
    scene.submit("b", 30)
    scene.dispatch()
    assert scene.held() == {"a": 8, "b": 4}


def test_what_others_leave_idle_is_lent_and_comes_back_as_work_ends() -> None:
    scene = Scene(slots(10))
    scene.submit("a", 50)
    scene.dispatch()
    assert scene.held() == {"a": 10}
    scene.submit("b", 50)
    for _ in range(5):
        scene.end(next(id for id, (project, _, _) in scene.running.items() if project == "a"))
        scene.dispatch()
    assert scene.held() == {"a": 5, "b": 5}


def test_a_share_is_that_of_the_resource_of_which_a_project_has_most() -> None:
    """One project's tasks are heavy in CPU, the other's in memory: both get two thirds."""
    fleet = fleet_of(make_node("n", resources=Resources(cpu_cores=9, memory_mb=18, slots=100)))
    scene = Scene(fleet)
    scene.submit("a", 20, need(demand=Resources(cpu_cores=1, memory_mb=4, slots=1)))
    scene.submit("b", 20, need(demand=Resources(cpu_cores=3, memory_mb=1, slots=1)))
    scene.dispatch()
    assert scene.held() == {"a": 3, "b": 2}


def test_on_a_single_slot_projects_are_served_by_weight_over_time() -> None:
    scene = Scene(slots(1), a=Allowance(weight=3))
    scene.submit("a", 400)
    scene.submit("b", 400)
    served: Counter[str] = Counter()
    for _ in range(400):
        served.update(scene.dispatch())
        scene.end(next(iter(scene.running)))
    assert served["a"] == pytest.approx(300, abs=3)


def test_a_project_that_was_away_has_nothing_saved_up() -> None:
    scene = Scene(slots(1))
    scene.submit("a", 300)
    for _ in range(200):
        scene.dispatch()
        scene.end(next(iter(scene.running)))
    scene.submit("b", 100)
    served: Counter[str] = Counter()
    for _ in range(50):
        served.update(scene.dispatch())
        scene.end(next(iter(scene.running)))
    assert served["b"] == pytest.approx(25, abs=1)


def test_priorities_count_within_a_project_and_not_between_them() -> None:
    scene = Scene(slots(4))
    scene.submit("a", 10, priority=10)
    scene.submit("b", 10, priority=1)
    scene.submit("b", 1, priority=9)
    scene.dispatch()
    assert scene.held() == {"a": 2, "b": 2}
    assert "b-000021" in scene.running


@pytest.mark.slow
def test_a_small_project_is_served_beside_one_with_a_hundred_thousand_tasks() -> None:
    scene = Scene(slots(10, nodes=2))
    scene.submit("large", 100_000)
    scene.dispatch()
    scene.submit("small", 10)
    oldest = list(scene.running)
    for number in range(10):
        scene.end(oldest[number])
        scene.dispatch()
    assert scene.held() == {"large": 10, "small": 10}


@pytest.mark.slow
def test_dispatch_costs_what_is_placed_and_not_what_waits() -> None:
    def cost(tasks: int) -> float:
        scene = Scene(slots(10, nodes=2))
        scene.submit("large", tasks)
        scene.submit("small", 10)
        scene.dispatch()
        took = []
        for _ in range(30):
            scene.end(next(iter(scene.running)))
            started = time.thread_time()
            scene.dispatch()
            took.append(time.thread_time() - started)
        return min(took)

    assert cost(50_000) < 10 * cost(500)


def test_quotas_are_kept_within_a_plan_and_others_take_what_is_left() -> None:
    scene = Scene(slots(12), a=Allowance(running=3), b=Allowance(cpu_cores=2))
    scene.submit("a", 20)
    scene.submit("b", 20, need(demand=Resources(cpu_cores=1, slots=1)))
    scene.submit("c", 20)
    scene.dispatch()
    assert scene.held() == {"a": 3, "b": 2, "c": 7}


def test_a_quota_of_cpu_holds_back_only_what_asks_for_too_much() -> None:
    scene = Scene(slots(12), a=Allowance(cpu_cores=3))
    scene.submit("a", 2, need(demand=Resources(cpu_cores=2, slots=1)))
    scene.submit("a", 2, need(demand=Resources(cpu_cores=1, slots=1)))
    scene.submit("a", 2)
    scene.dispatch()
    assert sorted(demand.cpu_cores for _, _, demand in scene.running.values()) == [0, 0, 1, 2]


def test_nodes_that_are_kept_for_a_project_take_nothing_of_others() -> None:
    resources = Resources(cpu_cores=4, memory_mb=4096, slots=4)
    fleet = fleet_of(
        make_node("common", resources=resources),
        make_node("kept", resources=resources, labels={"pool": "shop", "rack": "7"}),
    )
    scene = Scene(fleet, shop=Allowance(nodes={"pool": "shop"}))
    scene.submit("other", 10)
    scene.dispatch()
    assert {node for _, node, _ in scene.running.values()} == {"common"}
    scene.submit("shop", 10)
    scene.dispatch()
    assert scene.held() == {"other": 4, "shop": 4}
    assert {node for project, node, _ in scene.running.values() if project == "shop"} == {"kept"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5 if os.environ.get("CRAWLFLEET_SOAK") else 1))
def test_nobody_starves_in_ten_thousand_random_steps(seed: int) -> None:
    """Projects of all sizes and weights, tasks of all sizes, some of which run for long."""
    chance = random.Random(seed)
    fleet = slots(4, nodes=5)
    allowances = {
        f"p{number}": Allowance(
            weight=chance.choice((0.5, 1, 1, 2, 8)),
            running=chance.choice((None, None, 1, 6)),
            cpu_cores=chance.choice((None, None, 4)),
        )
        for number in range(8)
    }
    scene = Scene(fleet, **allowances)
    demands = [Resources(cpu_cores=cpu, slots=1) for cpu in (0, 0.5, 1, 2)]
    unserved: Counter[str] = Counter()
    ends: dict[str, int] = {}
    worst = 0
    for step in range(10_000):
        for project in allowances:
            if project == "p0" and len(scene.waiting) < 1000:
                scene.submit(project, 3, need(demand=chance.choice(demands)))
            elif chance.random() < 0.15:
                scene.submit(project, 1, need(demand=chance.choice(demands)))
        for id in [id for id, end in ends.items() if end <= step]:
            del ends[id]
            scene.end(id)
        served = set(scene.dispatch())
        for id in scene.running:
            ends.setdefault(id, step + chance.choice((1, 1, 2, 5, 20)))
        held, waits = scene.held(), scene.queue.projects()
        for project, allowance in allowances.items():
            use = scene.tenancy.tenant(project).use()
            assert use.running == held[project]
            assert use.running <= (allowance.running or 20)
            assert use.cpu_cores <= (allowance.cpu_cores or 20)
            idle = project in waits and not held[project] and project not in served
            unserved[project] = unserved[project] + 1 if idle else 0
        worst = max(worst, *unserved.values())
    assert worst < 60, f"a project had nothing for {worst} steps, though its tasks waited"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), max_size=80))
@settings(deadline=None, max_examples=examples(60))
def test_what_is_booked_is_what_live_leases_hold(steps: list[tuple[str, int, bool]]) -> None:
    tenancy, live = Tenancy(), []
    for project, tenths, begins in steps:
        if begins or not live:
            amount = Resources(cpu_cores=tenths / 10, memory_mb=tenths * 0.1, slots=1)
            tenancy.take(project, amount)
            live.append((project, amount))
        else:
            tenancy.give_back(*live.pop(tenths % len(live)))
        for name in "abc":
            use = tenancy.tenant(name).use()
            own = [amount for project, amount in live if project == name]
            assert use.running == len(own)
            assert round(use.cpu_cores * 10) == sum(round(each.cpu_cores * 10) for each in own)
            assert bool(use.cpu_cores) == bool(sum(each.cpu_cores for each in own))
