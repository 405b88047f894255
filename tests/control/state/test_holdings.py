"""What leases take and give back is booked as if each were booked by itself."""

import random

from crawlfleet.control.state.holdings import Holdings
from crawlfleet.control.state.retry_gate import HeldTasks, RetryBudgets
from crawlfleet.core.placement.tenancy import Tenancy
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.model.project import Project
from crawlfleet.model.quota import Allowance
from crawlfleet.model.resources import Resources
from crawlfleet.model.settings import RecoverySettings
from crawlfleet.model.task import Execution, Task

NOW = 1_793_998_800.0
PROJECTS = {"news": 1.0, "shop": 4.0}
AMOUNTS = (Resources(slots=1.0), Resources(slots=2.0, cpu_cores=0.1))


class Book:
    """A tenancy and budgets, to be compared with those of another."""

    def __init__(self) -> None:
        self.tenancy = Tenancy()
        for id, weight in PROJECTS.items():
            allowance = Allowance(weight=weight)
            project = Project(id=id, name=id, allowance=allowance, created_at=NOW, updated_at=NOW)
            self.tenancy.put(project)
        self.budgets = RetryBudgets(RecoverySettings(retry_budget=True), HeldTasks())
        self.bookings = Holdings(self.tenancy, self.budgets)

    def shows(self) -> list[object]:
        tenants = [self.tenancy.tenant(id) for id in PROJECTS]
        return [
            self.tenancy.clock,
            *((each.running, each.units, each.served) for each in tenants),
            *(self.budgets.in_words(id, NOW + 1.0) for id in PROJECTS),
        ]


def a_lease(chance: random.Random, number: int) -> Lease:
    task = Task(
        id=f"task-{number}",
        project_id=chance.choice([*PROJECTS]),
        task_type="python",
        created_at=NOW,
        updated_at=NOW,
    )
    execution = Execution(
        id=f"exec-{number}",
        task_id=task.id,
        node_id="node-1",
        session_id="sess-1",
        token=1,
        start_time=NOW + chance.choice([0.0, 0.5]),
        reserved=chance.choice(AMOUNTS),
        retry_count=chance.choice([0, 0, 1]),
    )
    return Lease(task, execution)


def test_many_at_once_come_to_the_same_as_one_by_one() -> None:
    chance = random.Random(7)
    together, singly = Book(), Book()
    living: list[Lease] = []
    for number in range(600):
        if living and chance.random() < 0.4:
            lease = living.pop(chance.randrange(len(living)))
            for book in (together, singly):
                book.bookings.give_back(lease)
        else:
            lease = a_lease(chance, number)
            living += [lease] * (count := chance.choice([1, 1, 5]))
            for book in (together, singly):
                for _ in range(count):
                    book.bookings.take(lease)
                    if book is singly:
                        book.bookings.settle()
        singly.bookings.settle()
    together.bookings.settle()
    together.bookings.settle()

    assert together.shows() == singly.shows()


def test_nothing_is_left_when_all_have_gone() -> None:
    chance = random.Random(3)
    book = Book()
    leases = [a_lease(chance, number) for number in range(50)]
    for lease in leases:
        book.bookings.take(lease)
    for lease in reversed(leases):
        book.bookings.give_back(lease)
    book.bookings.settle()

    for id in PROJECTS:
        tenant = book.tenancy.tenant(id)
        assert tenant.running == 0
        assert not any(tenant.units)
