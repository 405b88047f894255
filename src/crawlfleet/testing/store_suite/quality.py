"""Measured runs: by series, by task, and how many of them are kept."""

from msgspec.structs import replace

from crawlfleet.model.quality import Decision, MeasuredRun, series_key
from crawlfleet.ports.kernel_tables import (
    measured_runs_in,
    measured_runs_of,
    newest_of_series,
    old_measured_runs,
    surplus_measured_runs,
)
from crawlfleet.ports.store import Change, RefusalKind, Store
from crawlfleet.testing.store_suite.harness import Harness, commit_one, is_refused, must, on_store
from crawlfleet.testing.store_suite.quality_samples import FULL_MEASURED, make_measured
from crawlfleet.testing.store_suite.samples import NOW


def ids(runs: list[MeasuredRun]) -> list[str]:
    return [each.id for each in runs]


async def remove(store: Store, *, before: float, keep: int, limit: int) -> int:
    """Remove old measured runs, and those beyond `keep` in each series; return their number."""
    old = await store.remove(old_measured_runs(before=before, limit=limit))
    return old + await store.remove(surplus_measured_runs(keep=keep, limit=limit))


class QualityTests(Harness):
    @on_store
    async def test_measured_runs_come_back_as_they_were(self, store: Store) -> None:
        plain = make_measured(2)
        await must(store, Change(rows=(plain, FULL_MEASURED)))
        assert await store.find(measured_runs_in(plain.series, after=None, limit=9)) == [plain]
        assert await store.find(measured_runs_in(FULL_MEASURED.series, after=None, limit=9)) == [
            FULL_MEASURED
        ]
        accepted = replace(plain, decision=Decision.ACCEPTED, decided_by="ann", version=2)
        await must(store, Change(rows=(accepted,)))
        again = await commit_one(store, Change(rows=(accepted,)))
        assert is_refused(again, RefusalKind.VERSION, plain.id)
        assert await store.find(measured_runs_of([plain.task_id, "task-none"])) == [accepted]
        said = {plain.task_id: Decision.ACCEPTED}
        assert (
            dict(
                await store.values(
                    measured_runs_of([plain.task_id, "task-none"]), "task_id", "decision"
                )
            )
            == said
        )
        assert dict(await store.values(measured_runs_of([]), "task_id", "decision")) == {}
        assert await store.find(measured_runs_of([])) == []

    @on_store
    async def test_the_runs_of_a_series_are_listed_newest_first(self, store: Store) -> None:
        runs = [make_measured(number) for number in range(5)]
        other = make_measured(9, series=series_key("default", "other"))
        await must(store, Change(rows=(*runs, other)))
        series = runs[0].series
        newest = ids([*reversed(runs)])
        assert ids(await store.find(measured_runs_in(series, after=None, limit=9))) == newest
        assert ids(await store.find(measured_runs_in(series, after=None, limit=2))) == newest[:2]
        assert (
            ids(await store.find(measured_runs_in(series, after=newest[1], limit=9))) == newest[2:]
        )
        assert await store.find(measured_runs_in(series, after=None, limit=0)) == []
        assert await store.find(measured_runs_in("default/none", after=None, limit=9)) == []

    @on_store
    async def test_a_task_that_ended_again_has_several_runs_oldest_first(
        self, store: Store
    ) -> None:
        runs = [make_measured(number, task_id="task-0001") for number in (3, 1, 2)]
        await must(store, Change(rows=(*runs,)))
        found = await store.find(measured_runs_of(["task-0001"]))
        assert ids(found) == sorted(each.id for each in runs)
        held = replace(found[-1], decision=Decision.HELD, version=2)
        accepted = replace(found[0], decision=Decision.ACCEPTED, version=2)
        await must(store, Change(rows=(held, accepted)))
        assert dict(await store.values(measured_runs_of(["task-0001"]), "task_id", "decision")) == {
            "task-0001": Decision.HELD
        }

    @on_store
    async def test_series_are_listed_with_their_newest_run(self, store: Store) -> None:
        names = [("a", "one"), ("a", "two"), ("a.b", "one"), ("b", "one")]
        runs = [
            make_measured(10 * number + turn, series=series_key(*name), project_id=name[0])
            for number, name in enumerate(names)
            for turn in range(2)
        ]
        await must(store, Change(rows=(*runs,)))

        async def find(project_id: str | None, after: str | None, limit: int) -> list[str]:
            found = await store.find(
                newest_of_series(project_id=project_id, after=after, limit=limit)
            )
            assert {each.id for each in found} <= {each.id for each in runs[1::2]}
            return [each.series for each in found]

        keys = sorted(series_key(*name) for name in names)
        assert await find(None, None, 9) == keys
        assert await find(None, None, 2) == keys[:2]
        assert await find(None, keys[1], 9) == keys[2:]
        assert await find("a", None, 9) == ["a/one", "a/two"]
        assert await find("a", "a/one", 9) == ["a/two"]
        assert await find("a.b", None, 9) == ["a.b/one"]
        assert await find("none", None, 9) == []
        assert await find(None, None, 0) == []

    @on_store
    async def test_old_runs_go_and_of_each_series_the_newest_stay(self, store: Store) -> None:
        runs = [make_measured(number, at=NOW + number) for number in range(8)]
        held = replace(runs[3], decision=Decision.HELD)
        other = make_measured(20, series=series_key("default", "other"), at=NOW + 20)
        await must(store, Change(rows=(*runs[:3], held, *runs[4:], other)))
        series = held.series
        assert await remove(store, before=NOW, keep=9, limit=9) == 0
        assert await remove(store, before=NOW + 9, keep=1, limit=0) == 0
        assert await remove(store, before=NOW + 2, keep=9, limit=1) == 1
        assert await remove(store, before=NOW + 2, keep=9, limit=9) == 1
        # What somebody has to decide about stays, however many have come since.
        assert await remove(store, before=NOW, keep=2, limit=2) == 2
        assert await remove(store, before=NOW, keep=2, limit=9) == 1
        kept = ids([runs[7], runs[6], held])
        assert ids(await store.find(measured_runs_in(series, after=None, limit=9))) == kept
        assert ids(await store.find(measured_runs_in(other.series, after=None, limit=9))) == [
            other.id
        ]
        # Nor does it go by its age.
        assert await remove(store, before=NOW + 99, keep=9, limit=9) == 3
        assert ids(await store.find(measured_runs_in(series, after=None, limit=9))) == [held.id]
        # What is gone is new again.
        await must(store, Change(rows=(runs[0],)))
