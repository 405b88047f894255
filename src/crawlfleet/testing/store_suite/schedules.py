"""Tests of schedules and their firings, which are committed with the tasks that they start."""

from msgspec.structs import replace

from crawlfleet.features.schedules.model import Outcome, ScheduleStatus
from crawlfleet.features.schedules.table import (
    SCHEDULES,
    firings_of,
    kept_schedules,
    old_firings,
    removed_schedules,
)
from crawlfleet.model.change import NEVER
from crawlfleet.ports.store import Change, RefusalKind, Store
from crawlfleet.testing.store_suite.harness import (
    Harness,
    commit_one,
    is_refused,
    must,
    on_store,
    take_lead,
)
from crawlfleet.testing.store_suite.samples import (
    FULL_FIRING,
    FULL_SCHEDULE,
    NOW,
    make_claim,
    make_event,
    make_firing,
    make_schedule,
    make_task,
)


class ScheduleTests(Harness):
    @on_store
    async def test_schedules_and_firings_come_back_as_they_were(self, store: Store) -> None:
        plain = make_schedule(2)
        await must(store, Change(rows=(plain, FULL_SCHEDULE, FULL_FIRING)))
        assert await store.find(kept_schedules()) == [FULL_SCHEDULE, plain]
        assert await store.get_many(SCHEDULES, [plain.id, "sched-none", plain.id]) == [plain]
        assert await store.find(firings_of("sched-0001", after=None, limit=9)) == [FULL_FIRING]
        changed = replace(plain, status=ScheduleStatus.PAUSED, cursor=NOW + 1, version=2)
        await must(store, Change(rows=(changed,)))
        assert await store.get_many(SCHEDULES, [plain.id]) == [changed]

    @on_store
    async def test_a_firing_is_one_change_of_task_cursor_and_history(self, store: Store) -> None:
        epoch = await take_lead(store, "one")
        await must(store, Change(rows=(make_schedule(),)))
        fire = Change(
            rows=(make_schedule(cursor=NOW + 60, version=2), make_firing()),
            tasks=(make_task(),),
            events=(make_event("sched-0001"),),
            epoch=epoch,
        )
        await must(store, fire)
        # The same again, by whoever believes to lead.
        refused = await commit_one(store, fire)
        assert refused is not None
        later = replace(fire, epoch=await take_lead(store, "another"), tasks=(make_task(2),))
        assert is_refused(await commit_one(store, fire), RefusalKind.EPOCH, str(later.epoch))
        assert is_refused(await commit_one(store, later), RefusalKind.VERSION, "sched-0001")
        # Nor can the history have it twice, whatever became of the cursor.
        moved = replace(later, rows=(make_schedule(cursor=NOW + 60, version=3), make_firing()))
        assert is_refused(await commit_one(store, moved), RefusalKind.VERSION, make_firing().id)
        assert [task.id for task in await store.tasks(["task-0001", "task-0002"])] == ["task-0001"]
        assert await store.find(firings_of("sched-0001", after=None, limit=10)) == [make_firing()]
        assert (await store.find(kept_schedules()))[0].version == 2

    @on_store
    async def test_two_firings_of_one_batch_see_each_other(self, store: Store) -> None:
        await must(store, Change(rows=(make_schedule(),)))
        both = [
            Change(
                rows=(make_schedule(cursor=NOW + 60, version=2), make_firing()),
                tasks=(make_task(number),),
            )
            for number in (1, 2)
        ]
        refusals = (await store.commit(both)).refusals
        assert refusals[0] is None
        assert is_refused(refusals[1], RefusalKind.VERSION, "sched-0001")

    @on_store
    async def test_a_firing_that_waits_is_written_again_when_it_starts(self, store: Store) -> None:
        waits = make_firing(outcome=Outcome.QUEUED, task_id=None)
        started = make_firing(at=NOW + 9, version=2)
        await must(store, Change(rows=(waits,)), Change(rows=(started,)))
        assert await store.find(firings_of("sched-0001", after=None, limit=10)) == [started]

    @on_store
    async def test_history_is_in_order_of_the_instants_newest_first(self, store: Store) -> None:
        dues = [NOW + 3600 * n for n in (3, 1, 2, 5, 4)]
        firings = [make_firing(due) for due in dues]
        other = make_firing(NOW, schedule_id="sched-0002")
        await must(store, Change(rows=(*firings, other)))
        newest_first = sorted(firings, key=lambda each: each.due_at, reverse=True)
        assert await store.find(firings_of("sched-0001", after=None, limit=10)) == newest_first
        assert await store.find(firings_of("sched-0001", after=None, limit=2)) == newest_first[:2]
        after = newest_first[1].id
        assert await store.find(firings_of("sched-0001", after=after, limit=2)) == newest_first[2:4]
        assert await store.find(firings_of("sched-0001", after=None, limit=0)) == []
        assert await store.find(firings_of("sched-0002", after=None, limit=10)) == [other]
        assert await store.find(firings_of("sched-none", after=None, limit=10)) == []

    @on_store
    async def test_old_firings_go_oldest_first_but_one_that_waits(self, store: Store) -> None:
        firings = [make_firing(NOW + n, at=NOW + n) for n in range(5)]
        waits = make_firing(NOW - 9, at=NOW - 9, outcome=Outcome.QUEUED)
        await must(store, Change(rows=(*firings, waits)))
        assert await store.remove(old_firings(before=NOW + 4, limit=0)) == 0
        assert await store.remove(old_firings(before=NOW + 4, limit=3)) == 3
        assert await store.remove(old_firings(before=NOW + 4, limit=3)) == 1
        assert await store.remove(old_firings(before=NOW + 4, limit=3)) == 0
        left = await store.find(firings_of("sched-0001", after=None, limit=10))
        assert left == [firings[4], waits]
        # What is gone is new again.
        await must(store, Change(rows=(firings[0],)))
        await must(store, Change(rows=(replace(waits, outcome=Outcome.STARTED, version=2),)))

    @on_store
    async def test_a_removed_schedule_is_not_listed_and_goes_with_its_history(
        self, store: Store
    ) -> None:
        kept, gone = make_schedule(1), make_schedule(2)
        claim = make_claim("sched-0002", scope="schedule:default", key="n", expires_at=NEVER)
        await must(store, Change(rows=(kept, gone), claims=(claim,)))
        of_gone = make_firing(schedule_id="sched-0002", outcome=Outcome.QUEUED)
        await must(store, Change(rows=(make_firing(), of_gone)))
        removed = replace(gone, removed_at=NOW + 1, version=2)
        freed = replace(claim, at=NOW + 1, expires_at=NOW + 1)
        await must(store, Change(rows=(removed,), claims=(freed,)))
        assert await store.find(kept_schedules()) == [kept]
        assert await store.get_many(SCHEDULES, ["sched-0002"]) == [removed]
        taken = replace(claim, holder="sched-0003", at=NOW + 2)
        await must(store, Change(claims=(taken,)))
        assert await store.remove(removed_schedules(before=NOW + 1, limit=10)) == 0
        assert await store.remove(removed_schedules(before=NOW + 2, limit=0)) == 0
        assert await store.remove(removed_schedules(before=NOW + 2, limit=10)) == 1
        assert await store.get_many(SCHEDULES, ["sched-0002"]) == []
        assert await store.find(firings_of("sched-0002", after=None, limit=10)) == []
        assert await store.find(firings_of("sched-0001", after=None, limit=10)) == [make_firing()]
        await must(store, Change(rows=(gone, of_gone)))
