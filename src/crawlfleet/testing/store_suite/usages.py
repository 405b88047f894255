"""Tests of usage: it is added up in the commits that cause it, and only if they are made."""

from math import inf
from typing import Any

from crawlfleet.model.usage import UsageHour
from crawlfleet.ports.kernel_tables import old_usage, usage_between
from crawlfleet.ports.store import Change, RefusalKind, Store
from crawlfleet.testing.store_suite.harness import (
    Harness,
    commit_one,
    is_refused,
    must,
    on_store,
    take_lead,
)
from crawlfleet.testing.store_suite.samples import make_task

HOUR: float = 1_793_998_800.0


def make_usage(place: int = 0, project_id: str = "default", **fields: Any) -> UsageHour:
    return UsageHour(project_id=project_id, at=HOUR + 3600 * place, **fields)


FULL_USAGE = make_usage(
    submitted=2**40,
    completed=1,
    failed=2,
    cancelled=3,
    attempts=4,
    cpu_s=0.125,
    run_s=1e9,
    pages=5,
    bytes=2**50,
    peak_waiting=6,
    peak_running=7,
    storage_bytes=2**52,
)


async def everything(store: Store) -> list[UsageHour]:
    return await store.find(usage_between(since=0.0, until=inf))


class UsageTests(Harness):
    @on_store
    async def test_usage_comes_back_as_it_was(self, store: Store) -> None:
        plain = make_usage(1)
        await must(store, Change(usage=(FULL_USAGE, plain)))
        assert await everything(store) == [FULL_USAGE, plain]

    @on_store
    async def test_what_is_told_of_the_same_hour_comes_together(self, store: Store) -> None:
        first = make_usage(pages=3, cpu_s=0.5, peak_running=4, storage_bytes=100)
        second = make_usage(pages=4, cpu_s=0.25, peak_running=2, peak_waiting=9)
        third = make_usage(completed=1, storage_bytes=50)
        # In one batch, and in one after the other.
        await store.commit([Change(usage=(first,)), Change(usage=(second,))])
        await must(store, Change(usage=(third,)))
        assert await everything(store) == [
            make_usage(
                pages=7,
                cpu_s=0.75,
                completed=1,
                peak_running=4,
                peak_waiting=9,
                storage_bytes=50,
            )
        ]

    @on_store
    async def test_a_change_that_is_refused_has_used_nothing(self, store: Store) -> None:
        epoch = await take_lead(store, "one")
        used = Change(tasks=(make_task(),), usage=(make_usage(pages=3),), epoch=epoch)
        await must(store, used)
        assert await commit_one(store, used) is not None
        stale = Change(usage=(make_usage(pages=3),), epoch=epoch - 1)
        assert is_refused(await commit_one(store, stale), RefusalKind.EPOCH, str(epoch))
        both = [used, Change(usage=(make_usage(pages=1),))]
        refusals = (await store.commit(both)).refusals
        assert [refusal is None for refusal in refusals] == [False, True]
        assert await everything(store) == [make_usage(pages=4)]

    @on_store
    async def test_usage_is_read_by_time_and_project(self, store: Store) -> None:
        hours = [make_usage(n, project, pages=n) for n in range(4) for project in ("a", "b")]
        await must(store, *(Change(usage=(row,)) for row in reversed(hours)))
        assert await everything(store) == hours
        since, until = HOUR + 3600, HOUR + 3 * 3600
        assert await store.find(usage_between(since=since, until=until)) == hours[2:6]
        of_b = await store.find(usage_between(since=since, until=until, project_id="b"))
        assert of_b == [hours[3], hours[5]]
        assert await store.find(usage_between(since=since, until=until, project_id="c")) == []

    @on_store
    async def test_old_usage_goes_oldest_first(self, store: Store) -> None:
        hours = [make_usage(n, project) for n in range(3) for project in ("a", "b")]
        await must(store, Change(usage=tuple(hours)))
        assert await store.remove(old_usage(before=HOUR + 7200, limit=0)) == 0
        assert await store.remove(old_usage(before=HOUR + 7200, limit=3)) == 3
        assert await everything(store) == hours[3:]
        assert await store.remove(old_usage(before=HOUR + 7200, limit=3)) == 1
        assert await store.remove(old_usage(before=HOUR + 7200, limit=3)) == 0
        assert await everything(store) == hours[4:]
