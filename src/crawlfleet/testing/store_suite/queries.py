"""Declared queries: every store finds, counts and removes the same rows in the same order."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from crawlfleet.features.schedules.model import Firing, Outcome
from crawlfleet.features.schedules.table import FIRINGS, SCHEDULES
from crawlfleet.ports.store import Change, Store
from crawlfleet.ports.tables import (
    Query,
    above,
    among,
    at_least,
    below,
    equal,
    is_set,
    is_unset,
    unequal,
    within,
)
from crawlfleet.testing.store_suite.harness import Harness, must, on_store
from crawlfleet.testing.store_suite.samples import NOW, make_schedule

FIRED: Final = tuple(
    Firing(
        id=f"fire-{number:02}{'.b' if number % 4 == 0 else ''}",
        schedule_id=f"sched-{number % 3}",
        project_id="default",
        due_at=NOW + number,
        at=NOW + number * 7 % 10,
        outcome=[*Outcome][number % 3],
        task_id=None if number % 2 else f"task-{number % 5}",
        reason="x" * number,
    )
    for number in range(24)
)
Meets = Callable[[Firing], Any]
CASES: Final[tuple[tuple[Any, Meets], ...]] = (
    (equal("schedule_id", "sched-1"), lambda row: row.schedule_id == "sched-1"),
    (equal("schedule_id", None), lambda row: True),
    (equal("schedule_id", "sched-9"), lambda row: False),
    (equal("task_id", "task-2"), lambda row: row.task_id == "task-2"),
    (unequal("task_id", "task-2"), lambda row: row.task_id not in (None, "task-2")),
    (unequal("outcome", Outcome.QUEUED), lambda row: row.outcome is not Outcome.QUEUED),
    (above("at", NOW + 4), lambda row: row.at > NOW + 4),
    (at_least("at", NOW + 4), lambda row: row.at >= NOW + 4),
    (below("at", NOW + 4), lambda row: row.at < NOW + 4),
    (above("id", "fire-07"), lambda row: row.id > "fire-07"),
    (below("id", "fire-07"), lambda row: row.id < "fire-07"),
    (above("task_id", "task-2"), lambda row: row.task_id is not None and row.task_id > "task-2"),
    (
        among("schedule_id", ["sched-0", "sched-2", "sched-0"]),
        lambda row: row.schedule_id[-1] in "02",
    ),
    (
        among("id", ["fire-05", "fire-none", "fire-01"]),
        lambda row: row.id in ("fire-01", "fire-05"),
    ),
    (among("task_id", []), lambda row: False),
    (is_set("task_id"), lambda row: row.task_id is not None),
    (is_unset("task_id"), lambda row: row.task_id is None),
)
"""Terms with functions that evaluate them."""


def _expected(meets: Meets, query: Query[Firing]) -> list[Firing]:
    found = sorted(
        filter(meets, FIRED), key=lambda row: [getattr(row, name) for name in query.order]
    )
    return (found[::-1] if query.newest_first else found)[: query.limit]


class QueryTests(Harness):
    """`Store.get`, `get_many`, `find`, `values`, `count` and `remove`."""

    @on_store
    async def test_a_query_finds_the_rows_that_meet_its_terms_in_its_order(
        self, store: Store
    ) -> None:
        await must(store, Change(rows=FIRED))
        for term, meets in CASES:
            for limit in (None, 0, 1, 4, 99):
                for newest_first in (False, True):
                    for order in ((), ("at", "id")):
                        query = FIRINGS.where(
                            term, order=order, newest_first=newest_first, limit=limit
                        )
                        assert await store.find(query) == _expected(meets, query), query

    @on_store
    async def test_terms_come_together(self, store: Store) -> None:
        await must(store, Change(rows=FIRED))
        for one, meets_one in CASES:
            for other, meets_other in CASES:
                query = FIRINGS.where(one, other, limit=5, newest_first=True)

                def both(row: Firing, one: Meets = meets_one, other: Meets = meets_other) -> bool:
                    return bool(one(row) and other(row))

                assert await store.find(query) == _expected(both, query), query
                counts = await store.count(FIRINGS.where(one, other), "outcome")
                assert counts == Counter(row.outcome for row in filter(both, FIRED)), query

    @on_store
    async def test_a_changed_row_is_found_by_what_it_has_become(self, store: Store) -> None:
        await must(store, Change(rows=FIRED))
        moved = replace(FIRED[1], schedule_id="sched-7", task_id="task-0", at=NOW + 99, version=2)
        await must(store, Change(rows=(moved,)))
        assert await store.find(FIRINGS.where(equal("schedule_id", "sched-7"))) == [moved]
        assert moved in await store.find(FIRINGS.where(is_set("task_id")))
        assert moved.id not in [
            row.id for row in await store.find(FIRINGS.where(is_unset("task_id")))
        ]
        assert await store.find(FIRINGS.where(above("at", NOW + 50))) == [moved]
        assert await store.get(FIRINGS, moved.id) == moved

    @on_store
    async def test_the_newest_row_of_each_value_and_what_lies_beyond(self, store: Store) -> None:
        await must(store, Change(rows=FIRED))
        newest = [
            max((row for row in FIRED if row.schedule_id == f"sched-{n}"), key=lambda row: row.id)
            for n in range(3)
        ]
        each = FIRINGS.where(newest_of="schedule_id", limit=9)
        assert await store.find(each) == newest
        past = FIRINGS.where(above("schedule_id", "sched-0"), newest_of="schedule_id", limit=1)
        assert await store.find(past) == newest[1:2]
        surplus = FIRINGS.where(
            unequal("outcome", Outcome.QUEUED), newest_of="schedule_id", beyond=2, limit=99
        )
        kept = [
            row.id
            for n in range(3)
            for row in sorted(
                (row for row in FIRED if row.schedule_id == f"sched-{n}"), key=lambda row: row.id
            )[-2:]
        ]
        gone = [row for row in FIRED if row.id not in kept and row.outcome is not Outcome.QUEUED]
        assert await store.remove(surplus) == len(gone)
        left = [row for row in FIRED if row not in gone]
        assert await store.find(FIRINGS.where()) == sorted(left, key=lambda row: row.id)

    @on_store
    async def test_values_are_read_without_the_rest(self, store: Store) -> None:
        await must(store, Change(rows=FIRED))
        found = await store.values(
            FIRINGS.where(below("id", "fire-02")), "id", "outcome", "task_id"
        )
        assert found == [(row.id, row.outcome, row.task_id) for row in FIRED[:2]]

    @on_store
    async def test_rows_are_removed_in_order_and_may_come_again(self, store: Store) -> None:
        await must(store, Change(rows=FIRED))
        oldest = FIRINGS.where(below("at", NOW + 3), order=("at", "id"), limit=3)
        wanted = await store.find(oldest)
        assert len(wanted) == 3
        assert await store.remove(FIRINGS.where(limit=0)) == 0
        assert await store.remove(oldest) == 3
        assert not {row.id for row in wanted} & {
            row.id for row in await store.find(FIRINGS.where())
        }
        await must(store, Change(rows=tuple(wanted)))
        assert await store.find(FIRINGS.where()) == sorted(FIRED, key=lambda row: row.id)

    @on_store
    async def test_what_a_row_owns_goes_with_it(self, store: Store) -> None:
        first, second = make_schedule(id="sched-0"), make_schedule(id="sched-1", name="other")
        await must(store, Change(rows=(first, second, *FIRED)))
        assert await store.remove(SCHEDULES.where(equal("id", first.id))) == 1
        left = {row.schedule_id for row in await store.find(FIRINGS.where())}
        assert left == {"sched-1", "sched-2"}
        assert await store.find(SCHEDULES.where(*within("id", "sched-"))) == [second]
        # All of them are new again.
        await must(store, Change(rows=(first, FIRED[0])))

    @on_store
    async def test_rows_of_many_ids_come_in_order_of_id(self, store: Store) -> None:
        await must(store, Change(rows=FIRED))
        ids = [FIRED[9].id, "none", FIRED[2].id, FIRED[9].id]
        assert await store.get_many(FIRINGS, ids) == [FIRED[2], FIRED[9]]
        assert await store.get_many(FIRINGS, []) == []
        assert await store.get(FIRINGS, "none") is None
