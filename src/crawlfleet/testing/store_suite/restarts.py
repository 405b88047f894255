"""Tests of reopening a store: committed rows are kept."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from crawlfleet.ports.kernel_tables import CLUSTERS
from crawlfleet.ports.store import Change, RefusalKind, Store
from crawlfleet.testing.store_suite.harness import Harness, commit_one, must, take_lead
from crawlfleet.testing.store_suite.samples import (
    FULL_TASK,
    NOW,
    make_claim,
    make_event,
    make_execution,
    make_task,
)


class DurableStoreTests(Harness):
    def _in_turn(self, folder: Path, *lives: Callable[[Store], Awaitable[None]]) -> None:
        """Run each of `lives` on a store object of its own over the same rows."""
        for live in lives:

            async def run(live: Callable[[Store], Awaitable[None]] = live) -> None:
                store = self.make_store(folder)
                await store.open()
                try:
                    await live(store)
                finally:
                    await store.close()

            asyncio.run(run())

    def test_rows_events_claims_and_cursors_outlive_the_process(self, tmp_path: Path) -> None:
        async def before(store: Store) -> None:
            await must(
                store,
                Change(
                    tasks=(FULL_TASK,),
                    executions=(make_execution(),),
                    claims=(make_claim("a"),),
                    events=(make_event(), make_event()),
                ),
            )
            await store.move_cursor("outbox", 1)

        async def after(store: Store) -> None:
            assert await store.tasks([FULL_TASK.id]) == [FULL_TASK]
            assert await store.executions(FULL_TASK.id) == [make_execution()]
            assert len(await store.events(after=0, limit=10)) == 2
            assert await store.cursor("outbox") == 1
            refusal = await commit_one(store, Change(claims=(make_claim("b"),)))
            assert refusal is not None
            assert refusal.claim == make_claim("a")
            assert len(await store.find(CLUSTERS.where())) == 1

        self._in_turn(tmp_path, before, after)

    def test_versions_and_event_numbers_go_on_where_they_were(self, tmp_path: Path) -> None:
        async def before(store: Store) -> None:
            await must(store, Change(tasks=(make_task(),), events=(make_event(),)))
            await must(store, Change(tasks=(make_task(version=2),), events=(make_event(),)))

        async def after(store: Store) -> None:
            assert await commit_one(store, Change(tasks=(make_task(version=2),))) is not None
            known, new = Change(tasks=(make_task(),)), Change(tasks=(make_task(2),))
            assert [*map(bool, (await store.commit([known, new])).refusals)] == [True, False]
            committed = await store.commit(
                [Change(tasks=(make_task(version=3),), events=(make_event(),))]
            )
            assert committed.refusals == (None,)
            assert committed.last_seq == 3

        self._in_turn(tmp_path, before, after)

    def test_event_numbers_go_on_even_when_the_log_is_empty(self, tmp_path: Path) -> None:
        async def before(store: Store) -> None:
            await must(store, Change(events=(make_event(), make_event())))
            assert await store.remove_events(before=NOW + 1, limit=10) == 2

        async def after(store: Store) -> None:
            assert (await store.commit([Change(events=(make_event(),))])).last_seq == 3

        self._in_turn(tmp_path, before, after)

    def test_epochs_go_on_growing(self, tmp_path: Path) -> None:
        epochs: list[int] = []

        async def lead(store: Store) -> None:
            if epochs:
                refusal = await commit_one(store, Change(epoch=epochs[-1] + 1))
                assert refusal is not None
                assert refusal.kind is RefusalKind.EPOCH
            epochs.append(await take_lead(store, "a"))

        self._in_turn(tmp_path, lead, lead, lead)
        assert epochs == sorted(set(epochs))
