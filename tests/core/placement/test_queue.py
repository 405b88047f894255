import time
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.core.placement.plan import default_rules
from crawlfleet.core.placement.project_queues import ProjectQueues
from crawlfleet.core.placement.queue import ReadyQueue
from crawlfleet.model.resources import Resources
from tests.core.placement_worlds import NOW, fleet_of, make_node, need, planned
from tests.sampling import examples

A, B = need(), need(node_type="standard")
HUNGRY = need(demand=Resources(cpu_cores=99, slots=1))


def everything(queue: ReadyQueue, ageing_s: float = 600.0) -> list[str]:
    return [id for group in queue.groups(set(), ageing_s=ageing_s) for id in group.take(group.size)]


def one_by_one(queue: ReadyQueue, number: int) -> list[str]:
    """The tasks in the order in which single slots that become free would take them."""
    taken = []
    for _ in range(number):
        (first,) = next(queue.groups(set())).take(1)
        taken.append(first)
        queue.discard(first)
    return taken


def test_the_most_urgent_comes_first() -> None:
    queue = ReadyQueue()
    for priority in (3, 10, 1, 7, 5):
        queue.add(f"p{priority}", A, priority=priority, created_at=NOW)
    assert everything(queue) == ["p10", "p7", "p5", "p3", "p1"]


def test_equal_priorities_are_served_in_order_of_arrival_and_then_of_id() -> None:
    queue = ReadyQueue()
    for id, created_at in (("c", 3.0), ("b", 1.0), ("d", 3.0), ("a", 2.0)):
        queue.add(id, A, priority=5, created_at=NOW + created_at)
    assert everything(queue) == ["b", "a", "c", "d"]


def test_of_one_priority_the_nearest_deadline_comes_first() -> None:
    queue = ReadyQueue()
    queue.add("without", A, priority=5, created_at=NOW)
    queue.add("far", A, priority=5, created_at=NOW + 1, deadline=NOW + 9000)
    queue.add("soon", A, priority=5, created_at=NOW + 2, deadline=NOW + 300)
    queue.add("now", A, priority=5, created_at=NOW + 3, deadline=NOW + 60)
    queue.add("urgent", A, priority=6, created_at=NOW + 4)
    queue.add("calm", A, priority=4, created_at=NOW, deadline=NOW + 1)
    assert everything(queue) == ["urgent", "now", "soon", "without", "calm", "far"]
    assert everything(queue, ageing_s=0)[:4] == ["urgent", "now", "soon", "far"]


def test_waiting_for_the_ageing_time_is_worth_one_priority() -> None:
    queue = ReadyQueue()
    queue.add("patient", A, priority=5, created_at=NOW - 700)
    queue.add("urgent", A, priority=6, created_at=NOW)
    queue.add("fresh", A, priority=5, created_at=NOW)
    assert everything(queue) == ["patient", "urgent", "fresh"]
    assert everything(queue, ageing_s=3600) == ["urgent", "patient", "fresh"]
    assert everything(queue, ageing_s=0) == ["urgent", "patient", "fresh"]


def test_a_late_comer_that_is_older_goes_before_those_already_looked_at() -> None:
    queue = ReadyQueue()
    for number in range(1, 6):
        queue.add(f"t{number}", A, priority=5, created_at=NOW + number)
    everything(queue)
    queue.add("t0", A, priority=5, created_at=NOW)
    assert everything(queue) == ["t0", "t1", "t2", "t3", "t4", "t5"]


def test_a_task_added_again_takes_its_new_place_once() -> None:
    queue = ReadyQueue()
    queue.add("a", A, priority=5, created_at=NOW)
    queue.add("b", A, priority=5, created_at=NOW + 1)
    queue.add("b", B, priority=9, created_at=NOW + 1)
    assert everything(queue) == ["b", "a"]
    queue.discard("a")
    queue.add("a", A, priority=5, created_at=NOW)
    assert everything(queue) == ["b", "a"]
    assert len(queue) == 2
    assert queue.requirements() == {A: 1, B: 1}


def test_a_discarded_task_is_gone() -> None:
    queue = ReadyQueue()
    queue.add("a", A, priority=5, created_at=NOW)
    queue.discard("a")
    queue.discard("a")
    assert "a" not in queue
    assert not queue
    assert everything(queue) == []
    assert queue.requirements() == {}


def test_tasks_of_one_band_that_ask_for_the_same_come_together() -> None:
    queue = ReadyQueue()
    for number in range(6):
        queue.add(f"t{number}", (A, B)[number % 2], priority=5, created_at=NOW + number)
    groups = [(group.requirement, group.take(9)) for group in queue.groups(set())]
    assert groups == [(A, ["t0", "t2", "t4"]), (B, ["t1", "t3", "t5"])]


def test_a_closed_requirement_is_offered_no_more() -> None:
    queue = ReadyQueue()
    for priority in range(1, 11):
        queue.add(f"a{priority}", A, priority=priority, created_at=NOW)
    queue.add("b", B, priority=1, created_at=NOW)
    closed: set[int] = set()
    offered = []
    for group in queue.groups(closed):
        offered.append(group.requirement)
        closed.add(group.key)
    assert offered == [A, B]


def test_categories_take_turns_whatever_the_backlog() -> None:
    queue = ReadyQueue()
    for number in range(500):
        queue.add(f"big{number:03}", A, priority=5, created_at=NOW, category="big")
    for number in range(10):
        queue.add(f"small{number}", A, priority=5, created_at=NOW + 50, category="small")
    taken = one_by_one(queue, 20)
    assert Counter(id.rstrip("0123456789") for id in taken) == {"big": 10, "small": 10}


def test_categories_take_turns_when_each_asks_for_something_else() -> None:
    queue = ProjectQueues()
    for number in range(500):
        queue.add(f"big{number:03}", A, priority=5, created_at=NOW, category="big")
        if number < 40:
            queue.add(f"small{number}", B, priority=5, created_at=NOW + 50, category="small")
    fleet = fleet_of(make_node("n", resources=Resources(slots=60)))
    made = planned(queue, fleet)
    shares = Counter(id.rstrip("0123456789") for id, _ in made.assignments)
    assert min(shares.values()) >= 15


def test_a_category_that_comes_later_starts_level_with_the_others() -> None:
    queue = ReadyQueue()
    for number in range(300):
        queue.add(f"old{number:03}", A, priority=5, created_at=NOW, category="old")
    one_by_one(queue, 100)
    for number in range(100):
        queue.add(f"new{number:03}", A, priority=5, created_at=NOW, category="new")
    taken = one_by_one(queue, 40)
    assert Counter(id[:3] for id in taken) == {"old": 20, "new": 20}


def test_a_higher_priority_is_not_held_up_by_another_categorys_turn() -> None:
    queue = ReadyQueue()
    for number in range(50):
        queue.add(f"low{number}", A, priority=4, created_at=NOW, category="x")
        queue.add(f"top{number}", A, priority=9, created_at=NOW, category="y")
    assert all(id.startswith("top") for id in everything(queue)[:50])


def test_nothing_starves_while_more_urgent_work_keeps_coming() -> None:
    queue = ProjectQueues()
    fleet = fleet_of(make_node("n", resources=Resources(slots=1)))
    rules = default_rules(ageing_s=10)
    queue.add("poor", A, priority=1, created_at=NOW)
    for second in range(200):
        queue.add(f"rich{second}", A, priority=10, created_at=NOW + second)
        ((id, _),) = planned(queue, fleet, rules, limit=1).assignments
        queue.discard(id)
        if id == "poor":
            assert second >= 89
            return
    raise AssertionError("the task of priority 1 was never placed")


@settings(max_examples=examples(60), deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["add", "add", "discard", "read"]),
            st.integers(0, 8),
            st.sampled_from([4, 5, 5]),
            st.sampled_from([1, 3, 7, 30, 200, 600]),
            st.sampled_from(["", "", "x"]),
            st.sampled_from([A, B]),
        ),
        max_size=80,
    )
)
def test_each_waiting_task_is_offered_once_and_bands_in_order(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    queue, waiting = ReadyQueue(), {}
    for action, number, priority, age, category, requirement in steps:
        id = f"t{number}"
        if action == "add":
            rank = NOW - age - priority * 600.0
            queue.add(id, requirement, priority=priority, created_at=NOW - age, category=category)
            waiting[id] = rank
        elif action == "discard":
            queue.discard(id)
            waiting.pop(id, None)
        else:
            everything(queue)
    order = everything(queue)
    assert sorted(order) == sorted(waiting)
    bands = [waiting[id] // 60 for id in order]
    assert bands == sorted(bands)
    assert sum(queue.requirements().values()) == len(queue) == len(waiting)


def test_a_plan_costs_what_it_looks_at_and_not_what_waits() -> None:
    fleet = fleet_of(make_node("n", resources=Resources(cpu_cores=1, slots=1)))
    small, large = ProjectQueues(), ProjectQueues()
    for queue, size in ((small, 200), (large, 50_000)):
        for number in range(size):
            queue.add(f"t{number}", HUNGRY, priority=5, created_at=NOW + number / 10)
        queue.add("last", A, priority=1, created_at=NOW + 9999)
        planned(queue, fleet)

    def cost(queue: ProjectQueues) -> float:
        took = []
        for _ in range(20):
            started = time.perf_counter()
            assert [id for id, _ in planned(queue, fleet).assignments] == ["last"]
            took.append(time.perf_counter() - started)
        return min(took)

    assert cost(large) < 10 * cost(small)
