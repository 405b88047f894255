"""Tests of the audit log: one row for each request, committed with the changes of the request."""

from msgspec.structs import replace

from crawlfleet.model.audit import MAX_SUBJECTS, AuditFilter
from crawlfleet.ports.store import Change, Store
from crawlfleet.testing.store_suite.harness import Harness, commit_one, must, on_store
from crawlfleet.testing.store_suite.samples import (
    AWKWARD,
    NOW,
    make_entry,
    make_key,
    make_node,
    make_task,
)

ALL = AuditFilter()


class AuditTests(Harness):
    @on_store
    async def test_changes_of_one_request_are_one_entry(self, store: Store) -> None:
        entry = make_entry(actor=AWKWARD, project_id="shop")
        await must(
            store,
            Change(tasks=(make_task(1),), audit=entry),
            Change(tasks=(make_task(2), make_task(3)), audit=entry),
            Change(nodes=(make_node(),), audit=make_entry(2)),
            Change(rows=(make_key(),)),
        )
        assert await store.audit(ALL, after=None, limit=10) == [
            make_entry(2, subjects=("node-0001",), count=1),
            replace(entry, subjects=("task-0001", "task-0002", "task-0003"), count=3),
        ]

    @on_store
    async def test_what_is_refused_is_in_no_entry(self, store: Store) -> None:
        entry = make_entry()
        await must(store, Change(tasks=(make_task(1),)))
        assert await commit_one(store, Change(tasks=(make_task(1),), audit=entry)) is not None
        assert await store.audit(ALL, after=None, limit=10) == []
        await store.commit([Change(tasks=(make_task(n),), audit=entry) for n in (1, 2)])
        assert await store.audit(ALL, after=None, limit=10) == [
            replace(entry, subjects=("task-0002",), count=1)
        ]

    @on_store
    async def test_a_later_commit_of_the_request_goes_on_with_the_entry(self, store: Store) -> None:
        entry = make_entry()
        await must(store, Change(tasks=(make_task(1),), audit=entry))
        grown = replace(entry, subjects=("task-0001",), count=1)
        await must(store, Change(tasks=(make_task(2),), audit=grown))
        assert await store.audit(ALL, after=None, limit=10) == [
            replace(entry, subjects=("task-0001", "task-0002"), count=2)
        ]

    @on_store
    async def test_an_entry_names_the_first_and_counts_all(self, store: Store) -> None:
        many = MAX_SUBJECTS + 5
        await must(
            store, *(Change(tasks=(make_task(n),), audit=make_entry()) for n in range(1, many + 1))
        )
        (found,) = await store.audit(ALL, after=None, limit=10)
        assert found.count == many
        assert found.subjects == tuple(f"task-{n:04}" for n in range(1, MAX_SUBJECTS + 1))

    @on_store
    async def test_entries_are_found_by_who_what_and_when(self, store: Store) -> None:
        entries = [
            make_entry(1, actor="ann", actor_id="key-0001", action="cancel_task"),
            make_entry(2, actor="bob", actor_id="key-0002", action="cancel_tasks"),
            make_entry(3, actor="Ann", actor_id="key-0003", action="drain_node"),
        ]
        made = [replace(entry, subjects=(f"task-{n}",), count=1) for n, entry in enumerate(entries)]
        await must(
            store,
            *(Change(tasks=(make_task(id=f"task-{n}"),), audit=e) for n, e in enumerate(entries)),
        )

        async def found(**filter: object) -> list[int]:
            kept = await store.audit(AuditFilter(**filter), after=None, limit=10)  # type: ignore[arg-type]
            return [made.index(entry) for entry in kept]

        assert await found() == [2, 1, 0]
        assert await found(actor="ann") == [0]
        assert await found(actor="key-0002") == [1]
        assert await found(action="cancel_task") == [0]
        assert await found(subject="task-2") == [2]
        assert await found(subject="task-") == []
        assert await found(subject="TASK-2") == []
        assert await found(subject='"') == []
        assert await found(since=NOW + 2) == [2, 1]
        assert await found(until=NOW + 2) == [0]
        assert await found(since=NOW + 2, until=NOW + 3, actor="bob") == [1]
        assert await store.audit(ALL, after="audit-0003", limit=1) == [made[1]]
        assert await store.audit(ALL, after=None, limit=0) == []

    @on_store
    async def test_old_entries_go_oldest_first(self, store: Store) -> None:
        await must(
            store, *(Change(tasks=(make_task(n),), audit=make_entry(n)) for n in range(1, 7))
        )
        assert await store.remove_audit(before=NOW + 5, limit=0) == 0
        assert await store.remove_audit(before=NOW + 5, limit=3) == 3
        left = await store.audit(ALL, after=None, limit=10)
        assert [entry.id for entry in left] == ["audit-0006", "audit-0005", "audit-0004"]
        assert await store.remove_audit(before=NOW + 5, limit=3) == 1
        assert await store.remove_audit(before=NOW + 5, limit=3) == 0
