"""Schedules in a running control plane, on a simulated clock."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.errors import Conflict, InvalidRequest, NotFound, PreconditionFailed
from crawlfleet.features.schedules import runner
from crawlfleet.features.schedules.model import Firing, Outcome, Overlap, Schedule, ScheduleStatus
from crawlfleet.features.schedules.service import Schedules
from crawlfleet.features.schedules.table import SCHEDULES, firings_of
from crawlfleet.features.schedules.views import SchedulePatch, ScheduleRequest
from crawlfleet.model.project import ProjectStatus
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.settings import RetentionSettings
from crawlfleet.model.task import TaskStatus
from crawlfleet.model.wire.node_protocol import ReportKind
from crawlfleet.testing.simulation.clock import EPOCH, run_simulated
from crawlfleet.testing.simulation.shared import SharedMemory
from tests.control.stage import Stage, stage

DONE = (ReportKind.STARTED, ReportKind.SUCCEEDED)
HOUR_S = 3_600.0
NOW = datetime.fromtimestamp(EPOCH, UTC)


def request(name: str = "pulse", **fields: Any) -> ScheduleRequest:
    task = TaskRequest(task_type="work", **fields.pop("task", {}))
    if "cron" not in fields:
        fields.setdefault("every_s", 60.0)
    return ScheduleRequest(name=name, task=task, **fields)


async def create(on: Stage, name: str = "pulse", **fields: Any) -> Schedule:
    schedule, created = await on.control.service(Schedules).create(
        request(name, **fields), by="ann"
    )
    assert created
    return schedule


async def history(on: Stage, schedule: Schedule) -> list[Firing]:
    """What became of it, oldest first."""
    found = await on.control.service(Schedules).history(schedule.id, after=None, limit=1000)
    return found[::-1]


async def outcomes(on: Stage, schedule: Schedule) -> list[Outcome]:
    return [each.outcome for each in await history(on, schedule)]


async def codes(on: Stage, schedule: Schedule) -> list[str]:
    _, _, reasons = await on.control.service(Schedules).explain(schedule.id)
    return [each.code for each in reasons]


def test_a_task_is_submitted_at_every_due_instant() -> None:
    async def scene() -> None:
        async with stage() as on:
            schedule = await create(on, task={"priority": 7})
            for number in range(3):
                await asyncio.sleep(60)
                node = await on.node(f"node {number}")
                work = await node.take()
                assert (await node.report(work, *DONE)) == ["recorded", "recorded"]
            fired = await history(on, schedule)
            assert [each.due_at for each in fired] == [EPOCH + 60 * n for n in (1, 2, 3)]
            assert all(0 <= each.at - each.due_at < 1 for each in fired)
            task = await on.control.tasks.get(fired[0].task_id or "")
            assert (task.priority, task.status) == (7, TaskStatus.COMPLETED)
            kinds = [event.kind for event in on.heard.events if event.subject == schedule.id]
            assert kinds == ["schedule.created", *["schedule.started"] * 3]
            assert on.control.service(Schedules).firings[Outcome.STARTED] == 3

    run_simulated(scene())


def test_a_schedule_that_changes_wakes_the_timer() -> None:
    async def scene() -> None:
        async with stage() as on:
            schedule = await create(on, every_s=1e6)
            await asyncio.sleep(5)
            await on.control.service(Schedules).change(
                schedule.id, SchedulePatch(every_s=10.0), by="ann"
            )
            await asyncio.sleep(6)
            assert await outcomes(on, schedule) == [Outcome.STARTED]

    run_simulated(scene())


def test_after_a_long_stop_one_task_is_started_for_all_that_was_due() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            schedule = await create(on)
        await asyncio.sleep(3630)
        async with stage(store) as on:
            await asyncio.sleep(1)
            (fired,) = await history(on, schedule)
            assert (fired.outcome, fired.count) == (Outcome.STARTED, 60)
            assert fired.due_at == EPOCH + 3600
            assert fired.first_due_at == EPOCH + 60

    run_simulated(scene())


def test_after_a_long_stop_what_is_beyond_its_grace_is_missed() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            schedule = await create(on, misfire_grace_s=10.0)
        await asyncio.sleep(3630)
        async with stage(store) as on:
            await asyncio.sleep(1)
            (missed,) = await history(on, schedule)
            assert (missed.outcome, missed.count, missed.task_id) == (Outcome.MISSED, 60, None)
            assert await codes(on, schedule) == ["missed"]
            await asyncio.sleep(60)
            assert await outcomes(on, schedule) == [Outcome.MISSED, Outcome.STARTED]

    run_simulated(scene())


def test_what_has_no_room_is_skipped_until_the_task_has_ended() -> None:
    async def scene() -> None:
        async with stage() as on:
            schedule = await create(on)
            await asyncio.sleep(60)
            node = await on.node()
            work = await node.take()
            for _ in range(12):
                await asyncio.sleep(10)
                await node.beat(work.task_id)
            assert await codes(on, schedule) == ["no_room", "skipped"]
            await node.report(work, *DONE)
            await asyncio.sleep(61)
            fired = await history(on, schedule)
            skipped = [Outcome.SKIPPED, Outcome.SKIPPED]
            assert [each.outcome for each in fired] == [Outcome.STARTED, *skipped, Outcome.STARTED]
            assert work.task_id in fired[1].reason

    run_simulated(scene())


def test_one_waits_for_room_and_starts_as_soon_as_there_is() -> None:
    async def scene() -> None:
        async with stage() as on:
            schedule = await create(on, overlap=Overlap.QUEUE)
            await asyncio.sleep(60)
            node = await on.node()
            work = await node.take()
            for _ in range(13):
                await asyncio.sleep(10)
                await node.beat(work.task_id)
            assert await codes(on, schedule) == ["waiting", "skipped"]
            await node.report(work, *DONE)
            # At once, not at the next due instant.
            await asyncio.sleep(0.1)
            next_work = await node.take()
            fired = await history(on, schedule)
            assert [each.outcome for each in fired] == [
                Outcome.STARTED,
                Outcome.STARTED,
                Outcome.SKIPPED,
            ]
            assert fired[1].task_id == next_work.task_id
            assert fired[1].version == 2

    run_simulated(scene())


def test_a_pause_is_not_made_up_for() -> None:
    async def scene() -> None:
        async with stage() as on:
            schedule = await create(on)
            await on.control.service(Schedules).move(schedule.id, ScheduleStatus.PAUSED, by="ann")
            await asyncio.sleep(600)
            assert await history(on, schedule) == []
            assert await codes(on, schedule) == ["paused"]
            same = await on.control.service(Schedules).move(
                schedule.id, ScheduleStatus.PAUSED, by="bob"
            )
            assert same.cause == "paused by ann"
            await on.control.service(Schedules).move(schedule.id, ScheduleStatus.ACTIVE, by="ann")
            await asyncio.sleep(1)
            assert await history(on, schedule) == []
            await asyncio.sleep(60)
            assert await outcomes(on, schedule) == [Outcome.STARTED]

    run_simulated(scene())


def test_nothing_is_due_before_the_start_or_from_the_end_on() -> None:
    async def scene() -> None:
        async with stage() as on:
            begin = datetime.fromtimestamp(EPOCH, UTC)
            schedule = await create(
                on,
                start_at=begin + timedelta(seconds=600),
                end_at=begin + timedelta(seconds=720),
                max_instances=9,
            )
            assert await codes(on, schedule) == ["not_begun"]
            await asyncio.sleep(1000)
            fired = await history(on, schedule)
            assert [each.due_at for each in fired] == [EPOCH + 600, EPOCH + 660]
            assert await codes(on, schedule) == ["over"]
            assert on.control.service(Schedules).next_at(schedule) is not None
            present = await on.control.service(Schedules).find(schedule.id)
            assert on.control.service(Schedules).next_at(present) is None

    run_simulated(scene())


def test_a_closed_project_refuses_and_the_history_says_why() -> None:
    async def scene() -> None:
        async with stage() as on:
            schedule = await create(on, task={"project_id": "shop"})
            await on.control.projects.move("shop", ProjectStatus.CLOSED, by="ann")
            await asyncio.sleep(61)
            (refused,) = await history(on, schedule)
            assert refused.outcome is Outcome.REFUSED
            assert "'shop' is closed" in refused.reason
            assert await codes(on, schedule) == ["refused"]
            with pytest.raises(Conflict, match="is closed"):
                await on.control.service(Schedules).run(schedule.id, force=False, by="ann")
            await on.control.projects.move("shop", ProjectStatus.ACTIVE, by="ann")
            await asyncio.sleep(60)
            assert await outcomes(on, schedule) == [Outcome.REFUSED, Outcome.STARTED]

    run_simulated(scene())


def test_work_that_is_under_way_elsewhere_is_refused_by_its_dedup_key() -> None:
    async def scene() -> None:
        async with stage() as on:
            await on.submit(dedup_key="shop")
            schedule = await create(on, task={"dedup_key": "shop"}, max_instances=5, coalesce=False)
            await asyncio.sleep(61)
            (refused,) = await history(on, schedule)
            assert refused.outcome is Outcome.REFUSED
            assert "dedup_key 'shop'" in refused.reason
            with pytest.raises(Conflict, match="dedup_key"):
                await on.control.service(Schedules).run(schedule.id, force=False, by="ann")

    run_simulated(scene())


def test_of_several_late_ones_with_one_dedup_key_the_first_is_started() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            schedule = await create(on, task={"dedup_key": "shop"}, max_instances=5, coalesce=False)
        await asyncio.sleep(185)
        async with stage(store) as on:
            await asyncio.sleep(1)
            refused = [Outcome.REFUSED, Outcome.REFUSED]
            assert await outcomes(on, schedule) == [Outcome.STARTED, *refused]

    run_simulated(scene())


def test_run_now_starts_one_beside_the_rule_also_in_a_pause() -> None:
    async def scene() -> None:
        async with stage() as on:
            schedule = await create(on, paused=True)
            await asyncio.sleep(100)
            fired = await on.control.service(Schedules).run(schedule.id, force=False, by="ann")
            assert (fired.outcome, fired.reason) == (Outcome.STARTED, "run by ann")
            with pytest.raises(Conflict, match=f"max_instances.*{fired.task_id}"):
                await on.control.service(Schedules).run(schedule.id, force=False, by="ann")
            await asyncio.sleep(1)
            await on.control.service(Schedules).run(schedule.id, force=True, by="ann")
            assert len(await history(on, schedule)) == 2

    run_simulated(scene())


def test_a_backfill_starts_each_instant_once_however_often_it_is_asked_for() -> None:
    async def scene() -> None:
        async with stage() as on:
            schedule = await create(on, cron="0 * * * *", max_instances=9)
            await asyncio.sleep(2 * HOUR_S)
            full_hour = EPOCH // HOUR_S * HOUR_S
            since, until = full_hour - 2 * HOUR_S, full_hour + 3 * HOUR_S
            await asyncio.sleep(HOUR_S)
            fill = on.control.service(Schedules).fill_back
            planned, already = await fill(schedule.id, since, until, dry_run=True, by="ann")
            assert (len(planned), already) == (3, 2)
            assert len(await history(on, schedule)) == 3
            made, already = await fill(schedule.id, since, until, dry_run=False, by="ann")
            assert (len(made), already) == (3, 2)
            assert all(each.task_id for each in made)
            again, already = await fill(schedule.id, since, until, dry_run=False, by="ann")
            assert (again, already) == ([], 5)
            assert len(await history(on, schedule)) == 6
            with pytest.raises(InvalidRequest, match="until: is in the future"):
                await fill(schedule.id, since, until + 9 * HOUR_S, dry_run=True, by="ann")
            with pytest.raises(InvalidRequest, match="since: is not before"):
                await fill(schedule.id, until, since, dry_run=True, by="ann")
            with pytest.raises(InvalidRequest, match="until: has more than 1000"):
                await fill(schedule.id, since - 2e7, until, dry_run=True, by="ann")

    run_simulated(scene())


def test_a_removed_schedule_is_gone_and_its_name_is_free() -> None:
    async def scene() -> None:
        async with stage() as on:
            schedule = await create(on)
            await on.control.service(Schedules).remove(schedule.id, by="ann")
            with pytest.raises(NotFound):
                await on.control.service(Schedules).find(schedule.id)
            with pytest.raises(NotFound):
                await on.control.service(Schedules).remove(schedule.id, by="ann")
            await asyncio.sleep(120)
            assert await on.store.find(firings_of(schedule.id, after=None, limit=9)) == []
            other = await create(on)
            assert other.id != schedule.id
            assert [
                each.id for each in on.control.service(Schedules).page(after=None, limit=9)
            ] == [other.id]

    run_simulated(scene())


def test_the_same_request_again_is_the_same_schedule_and_another_is_refused() -> None:
    async def scene() -> None:
        async with stage() as on:
            schedule = await create(on)
            again, created = await on.control.service(Schedules).create(request(), by="ann")
            assert (again.id, created) == (schedule.id, False)
            with pytest.raises(Conflict, match="already"):
                await on.control.service(Schedules).create(request(every_s=61.0), by="ann")
            elsewhere = await create(on, task={"project_id": "another"})
            assert elsewhere.name == schedule.name

    run_simulated(scene())


def test_a_change_is_a_new_edition_and_may_be_tied_to_a_version() -> None:
    async def scene() -> None:
        async with stage() as on:
            schedule = await create(on)
            change = on.control.service(Schedules).change
            described = await change(schedule.id, SchedulePatch(description="x"), by="ann")
            assert (described.edition, described.version) == (1, 2)
            same = await change(schedule.id, SchedulePatch(every_s=60.0), by="ann")
            assert same == described
            by_cron = await change(schedule.id, SchedulePatch(cron="0 0 * * *"), by="ann")
            assert (by_cron.edition, by_cron.rule.every_s) == (2, None)
            patch = SchedulePatch(jitter_s=5.0)
            with pytest.raises(PreconditionFailed):
                await change(schedule.id, patch, by="ann", if_version=1)
            patch = SchedulePatch(task=TaskRequest(task_type="work", project_id="other"))
            with pytest.raises(InvalidRequest, match=r"task\.project_id"):
                await change(schedule.id, patch, by="ann")

    run_simulated(scene())


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"cron": "0 25 * * *"}, "cron: its 2nd field, hour"),
        ({"cron": "0 2 * * *", "every_s": 5.0}, "cron: is set beside every_s"),
        ({"every_s": 0.5}, "every_s: is out of range"),
        ({"time_zone": "berlin"}, "time_zone: is not a time zone"),
        ({"time_zone": "../../etc/passwd"}, "time_zone: is not a time zone"),
        ({"max_instances": 0}, "max_instances: is out of range"),
        ({"jitter_s": 61.0}, "jitter_s: is out of range"),
        ({"misfire_grace_s": 0.0}, "misfire_grace_s: is out of range"),
        ({"name": "a name"}, "name: is not a valid name"),
        ({"name": ""}, "name: is empty"),
        ({"task": {"idempotency_key": "k"}}, "task.idempotency_key: would make one task"),
        ({"task": {"priority": 11}}, "task.priority: is out of range"),
        ({"task": {"cluster_id": "nowhere"}}, "task.cluster_id: is not a cluster that the project"),
        (
            {"start_at": NOW, "end_at": NOW - timedelta(days=1)},
            "end_at: is not after",
        ),
        ({"end_at": NOW - timedelta(days=365 * 60)}, "end_at: is out of range"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field(fields: dict[str, Any], wrong: str) -> None:
    async def scene() -> None:
        async with stage() as on:
            with pytest.raises(InvalidRequest) as caught:
                await create(on, **fields)
            assert wrong in str(caught.value)
            assert all(each.remedy for each in caught.value.problems)
            assert on.control.service(Schedules).page(after=None, limit=9) == []

    run_simulated(scene())


def test_a_zone_that_was_meant_is_named() -> None:
    async def scene() -> None:
        async with stage() as on:
            for wrong in ("berlin", "europe/berlin", "Europe/Berln"):
                with pytest.raises(InvalidRequest) as caught:
                    await create(on, cron="0 2 * * *", time_zone=wrong)
                assert "'Europe/Berlin'" in caught.value.problems[0].remedy

    run_simulated(scene())


def test_what_is_kept_long_enough_is_cleared_up() -> None:
    async def scene() -> None:
        retention = RetentionSettings(tasks_days=0, events_days=0, schedules_days=1 / 12)
        async with stage(retention=retention) as on:
            schedule = await create(on, every_s=1800.0, max_instances=100)
            gone = await create(on, "gone")
            await on.control.service(Schedules).remove(gone.id, by="ann")
            await asyncio.sleep(5.2 * HOUR_S)
            assert 4 <= len(await history(on, schedule)) <= 6
            assert await on.store.get_many(SCHEDULES, [gone.id]) == []

    run_simulated(scene())


def test_somebody_else_who_leads_meanwhile_fires_and_the_deposed_one_does_not() -> None:
    async def scene() -> None:
        shared = SharedMemory(MemoryStore(), delay_s=lambda: 0.2)
        async with (
            stage(shared.seat(), name="one") as one,
            stage(shared.seat(), name="other") as other,
        ):
            schedule = await create(other)
            await asyncio.sleep(59.95)
            assert shared.leader is not None
            # It lives on, and does not know yet.
            shared.leave(shared.leader)
            await asyncio.sleep(3)
            assert [one.control.leads, other.control.leads].count(True) == 1
            await asyncio.sleep(58)
            fired = await history(one, schedule)
            assert [each.due_at for each in fired] == [EPOCH + 60, EPOCH + 120]
            assert await history(other, schedule) == fired

    run_simulated(scene())


def test_every_master_takes_orders_and_the_leader_follows_them() -> None:
    async def scene() -> None:
        shared = SharedMemory(MemoryStore(), delay_s=lambda: 0.01)
        async with (
            stage(shared.seat(), name="one") as one,
            stage(shared.seat(), name="other") as other,
        ):
            schedule = await create(other)
            await asyncio.sleep(1)
            await other.control.service(Schedules).move(
                schedule.id, ScheduleStatus.PAUSED, by="ann"
            )
            await asyncio.sleep(120)
            assert await history(one, schedule) == []
            await other.control.service(Schedules).run(schedule.id, force=False, by="ann")
            await other.control.service(Schedules).move(
                schedule.id, ScheduleStatus.ACTIVE, by="ann"
            )
            await asyncio.sleep(61)
            assert await outcomes(one, schedule) == [Outcome.STARTED, Outcome.SKIPPED]

    run_simulated(scene())


def test_it_sleeps_until_something_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        looks = 0
        do_due = runner.ScheduleRunner.do_due

        async def counted(self: runner.ScheduleRunner) -> None:
            nonlocal looks
            looks += 1
            await do_due(self)

        monkeypatch.setattr(runner.ScheduleRunner, "do_due", counted)
        async with stage() as on:
            await asyncio.sleep(HOUR_S)
            idle = looks
            await create(on, every_s=360.0, max_instances=100)
            await asyncio.sleep(HOUR_S)
            assert idle <= 2
            # At each of 10 instants, once more for what that changed, and now and then the clock.
            assert looks - idle <= 10 * 2 + HOUR_S / runner.LOOK_AGAIN_S + 2

    run_simulated(scene())


def _set_clock(on: Stage, by_s: float) -> None:
    on.control.system.set_by_s += by_s  # type: ignore[attr-defined]


@pytest.mark.parametrize("coalesce", [True, False])
def test_clock_that_is_set_ahead_makes_one_firing_of_the_hour_it_jumped_over(
    coalesce: bool,
) -> None:
    async def scene() -> None:
        async with stage() as on:
            schedule = await create(on, every_s=2.0, coalesce=coalesce, max_instances=1_000)
            await asyncio.sleep(5)
            assert len(await history(on, schedule)) == 2
            _set_clock(on, HOUR_S)
            await asyncio.sleep(2)
            (*_, jumped) = await history(on, schedule)
            assert jumped.count == 1801
            assert len(await history(on, schedule)) == 3
            await asyncio.sleep(60)
            after = (await history(on, schedule))[3:]
            assert 29 <= len(after) <= 31
            assert {each.count for each in after} == {1}
            kinds = {each.kind for each in await on.control.attention.find()}
            assert "clock_set" in kinds

    run_simulated(scene())


@pytest.mark.parametrize("rule", [{"every_s": 60.0}, {"cron": "* * * * *"}])
def test_clock_that_is_set_back_lets_even_schedules_go_on_from_now(rule: dict[str, Any]) -> None:
    async def scene() -> None:
        async with stage() as on:
            schedule = await create(on, max_instances=1_000, **rule)
            await asyncio.sleep(3 * 60 + 5)
            assert len(await history(on, schedule)) == 3
            _set_clock(on, -HOUR_S)
            await asyncio.sleep(60)  # until it would have looked anyway
            now = EPOCH + 4 * 60 + 5 - HOUR_S
            found = await on.control.service(Schedules).upcoming(schedule.id, after=None, count=1)
            ((_, begins_at),) = found.items
            assert now < begins_at <= now + 60
            await asyncio.sleep(10 * 60)
            fired = await history(on, schedule)
            again = [each for each in fired if each.due_at < EPOCH]
            assert 9 <= len(again) <= 11
            assert {each.count for each in fired} == {1}
            assert begins_at == again[0].due_at

    run_simulated(scene())


def test_clock_that_is_set_back_repeats_no_time_of_the_day() -> None:
    async def scene() -> None:
        async with stage() as on:
            at = NOW + timedelta(minutes=2)
            schedule = await create(on, cron=f"{at.minute} {at.hour} * * *")
            await asyncio.sleep(10 * 60)
            assert len(await history(on, schedule)) == 1
            _set_clock(on, -HOUR_S)
            found = await on.control.service(Schedules).upcoming(schedule.id, after=None, count=1)
            ((due, _),) = found.items
            assert due > EPOCH + 20 * HOUR_S, "what was dealt with is not promised again"
            await asyncio.sleep(2 * HOUR_S)
            assert len(await history(on, schedule)) == 1

    run_simulated(scene())


def test_clocks_of_two_masters_that_differ_a_little_repeat_nothing() -> None:
    async def scene() -> None:
        async with stage() as on:
            schedule = await create(on, every_s=10.0, max_instances=50)
            await asyncio.sleep(31)
            _set_clock(on, -30.0)
            await asyncio.sleep(20)
            assert len(await history(on, schedule)) == 3
            await asyncio.sleep(30)
            fired = await history(on, schedule)
            assert len({each.due_at for each in fired}) == len(fired) > 3

    run_simulated(scene())
