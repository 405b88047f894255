"""What projects may have: how many more, what stands against it, and in which words."""

import pytest

from crawlfleet.core.placement.quota import UNBOUNDED, Use, holds, refusal, room_for
from crawlfleet.model.quota import Allowance, Over, Quota
from crawlfleet.model.resources import Resources

SLOT = Resources(slots=1)
TWO_CORES = Resources(cpu_cores=2, memory_mb=512, slots=1)


@pytest.mark.parametrize(
    ("allowance", "use", "demand", "room"),
    [
        (Allowance(), Use(running=10**6), TWO_CORES, UNBOUNDED),
        (Allowance(running=5), Use(running=3), SLOT, 2),
        (Allowance(running=5), Use(running=7), SLOT, 0),
        (Allowance(running=0), Use(), SLOT, 0),
        (Allowance(cpu_cores=5), Use(cpu_cores=0.5), TWO_CORES, 2),
        (Allowance(cpu_cores=5), Use(cpu_cores=5), SLOT, UNBOUNDED),
        (Allowance(cpu_cores=0.3), Use(cpu_cores=0.1), Resources(cpu_cores=0.1), 2),
        (Allowance(memory_mb=1500), Use(), TWO_CORES, 2),
        (Allowance(cpu_cores=100, running=1), Use(), TWO_CORES, 1),
    ],
)
def test_room_is_what_the_tightest_quota_leaves(
    allowance: Allowance, use: Use, demand: Resources, room: int
) -> None:
    assert room_for(allowance, use, demand) == room
    assert bool([*holds(allowance, use, demand)]) == (room == 0)


def test_what_is_spent_holds_what_fetches_and_a_full_storage_everything() -> None:
    allowance = Allowance(pages_per_day=100, storage_mb=5)
    for use, crawls, others in (
        (Use(pages_per_day=99, storage_mb=4.9), UNBOUNDED, UNBOUNDED),
        (Use(pages_per_day=100), 0, UNBOUNDED),
        (Use(storage_mb=5.0), 0, 0),
    ):
        assert room_for(allowance, use, SLOT, "web_crawl") == crawls
        assert room_for(allowance, use, SLOT, "python") == others
    (hold,) = holds(allowance, Use(pages_per_day=140), SLOT, task_type="http_fetch")
    assert str(hold) == "140 of 100 pages of the day are used"
    rejecting = Allowance(pages_per_day=100, over=Over.REJECT)
    use = Use(pages_per_day=100)
    for over, refused_by in ((allowance, None), (rejecting, Quota.PAGES_PER_DAY)):
        found = refusal(over, use, lambda: use, SLOT, tasks=1, task_type="web_crawl")
        assert (found.quota if found else None) is refused_by


def test_holds_name_the_quota_its_use_and_its_limit() -> None:
    allowance = Allowance(running=4, cpu_cores=8)
    (running, cpu) = holds(allowance, Use(running=4, cpu_cores=7.5), TWO_CORES)
    assert (running.quota, running.use, running.needs, running.limit) == (Quota.RUNNING, 4, 1, 4)
    assert str(cpu) == "7.5 of 8 CPU cores are used, and it needs 2"
    assert not cpu.is_lasting


def refused(allowance: Allowance, use: Use, booked: Use, tasks: int = 1) -> Quota | None:
    hold = refusal(allowance, use, lambda: booked, TWO_CORES, tasks=tasks)
    return None if hold is None else hold.quota


def test_a_full_waiting_room_refuses_in_either_mode() -> None:
    for over in Over:
        allowance = Allowance(over=over, waiting=3)
        assert refused(allowance, Use(waiting=2), Use()) is None
        assert refused(allowance, Use(waiting=2), Use(), tasks=2) is Quota.WAITING
        assert refused(allowance, Use(waiting=3), Use()) is Quota.WAITING


def test_a_task_that_could_never_run_is_refused_in_either_mode() -> None:
    for over in Over:
        assert refused(Allowance(over=over, cpu_cores=1), Use(), Use()) is Quota.CPU_CORES


def test_a_project_that_may_not_run_anything_can_still_let_its_tasks_wait() -> None:
    assert refused(Allowance(running=0), Use(), Use()) is None


def test_only_a_project_that_does_not_queue_refuses_what_would_have_to_wait() -> None:
    full = Use(running=4, cpu_cores=8)
    assert refused(Allowance(running=4), full, full) is None
    assert refused(Allowance(running=4, over=Over.REJECT), full, full) is Quota.RUNNING
    booked = Use(running=1, cpu_cores=7)
    assert refused(Allowance(cpu_cores=8, over=Over.REJECT), Use(), booked) is Quota.CPU_CORES
