"""Who does what in a crawl, out of what its parts know; bounded, and discreet."""

from crawlfleet.features.crawls.rules import held_by, host_work, key_work, partition_work, ranked
from crawlfleet.features.crawls.work_views import MAX_HOLDERS, MAX_VISITORS, KeyWork, Visitor
from crawlfleet.model.crawl.frontier import HostFigures, PartitionFigures
from crawlfleet.model.crawl.politeness_entry import LedgerEntry, LedgerHold, LedgerTurn, User


def partition(number: int, **lent: int) -> PartitionFigures:
    return PartitionFigures(number=number, waiting=9, leased=2, done=5, free=3, lent=lent)


def crawl(task_id: str) -> Visitor:
    return Visitor(task_id=task_id, task_type="web_crawl")


def test_workers_of_one_execution_count_as_one_holder() -> None:
    figures = partition(0, **{"exec-1/0": 2, "exec-1/1": 3, "exec-2": 1})
    work = partition_work(figures, {"exec-1": 0})
    assert [(each.execution_id, each.shard, each.hosts) for each in work.holders] == [
        ("exec-1", 0, 5),
        ("exec-2", None, 1),
    ]
    assert (work.hosts, work.waiting, work.in_flight, work.done) == (9, 9, 2, 5)
    assert held_by([figures, partition(1, **{"exec-2": 4})]) == {"exec-1": 5, "exec-2": 5}


def test_only_those_with_the_most_hosts_are_named() -> None:
    figures = partition(0, **{f"exec-{number:03}": number + 1 for number in range(200)})
    work = partition_work(figures, {})
    assert len(work.holders) == MAX_HOLDERS
    assert (work.holders[0].hosts, work.holders_total) == (200, 200)


def test_a_host_has_the_holder_of_its_lease() -> None:
    figures = HostFigures(
        host="https://a.example",
        waiting=3,
        leased=1,
        done=2,
        failures=0,
        next_at=0.0,
        worker="exec-1/2",
    )
    work = host_work(figures, 7, {"exec-1": 4})
    assert (work.partition, work.execution_id, work.shard) == (7, "exec-1", 4)


def test_a_key_tells_its_terms_its_grants_and_its_pause() -> None:
    entry = LedgerEntry(
        users=(User("exec-1", 100.0, 1.0, 4), User("exec-2/0", 100.0, 2.0, 3)),
        holds=(LedgerHold("exec-1", 106.0, 2, 160.0), LedgerHold("exec-9", 90.0, 1, 95.0)),
        queue=(LedgerTurn(99.0, "exec-2/0", "https://a.example", 100.0),),
        next_at=101.5,
        paused_until=142.0,
        pause="429",
    )
    crawls = {"exec-1": (crawl("task-1"), True), "exec-2": (crawl("task-2"), False)}
    work = key_work("host:https://a.example", entry, 100.0, crawls)
    assert (work.delay_s, work.concurrency) == (2.0, 3)
    assert (work.granted, work.granted_for_s, work.next_in_s) == (2, 6.0, 1.5)
    assert (work.waiting, work.paused_for_s, work.pause) == (1, 42.0, "429")
    # Of another project it is told that it is there, and no more.
    assert (work.visitors, work.visitors_total) == ((crawl("task-1"),), 2)


def test_a_key_that_is_over_has_nobody() -> None:
    entry = LedgerEntry(users=(User("exec-1", 0.0, 1.0, 4),), paused_until=5.0, pause="429")
    work = key_work("host:x", entry, 100.0, {"exec-1": (crawl("task-1"), True)})
    assert (work.visitors_total, work.paused_for_s, work.pause, work.granted) == (0, 0.0, "", 0)


def test_visitors_of_a_key_are_bounded() -> None:
    users = tuple(User(f"exec-{number}", 100.0, 1.0, 1) for number in range(50))
    crawls = {f"exec-{number}": (crawl(f"task-{number:02}"), True) for number in range(50)}
    work = key_work("host:x", LedgerEntry(users=users), 100.0, crawls)
    assert (len(work.visitors), work.visitors_total) == (MAX_VISITORS, 50)


def test_what_is_left_alone_comes_first() -> None:
    keys = [
        KeyWork(key="host:a", delay_s=1.0, concurrency=1),
        KeyWork(key="host:b", delay_s=1.0, concurrency=1, visitors_total=2),
        KeyWork(key="host:c", delay_s=1.0, concurrency=1, paused_for_s=3.0),
    ]
    assert [each.key for each in ranked(keys)] == ["host:c", "host:b", "host:a"]
