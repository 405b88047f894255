"""Versions, batches, atomic changes, order and epochs."""

import asyncio
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from crawlfleet.features.secrets.table import SECRETS
from crawlfleet.model.change import NEVER
from crawlfleet.model.task import EXECUTION_CHANGES, HELD, TASK_CHANGES, TaskStatus
from crawlfleet.ports.kernel_tables import BUNDLES, CLUSTERS, KEYS, PROJECTS, configurations_of
from crawlfleet.ports.store import Change, Leadership, RefusalKind, Store
from crawlfleet.testing.store_suite.harness import (
    Harness,
    commit_one,
    is_refused,
    must,
    on_store,
    take_lead,
)
from crawlfleet.testing.store_suite.samples import (
    AWKWARD,
    FULL_BUNDLE,
    FULL_CLUSTER,
    FULL_EXECUTION,
    FULL_KEY,
    FULL_NODE,
    FULL_PROJECT,
    FULL_SESSION,
    FULL_TASK,
    make_bundle,
    make_claim,
    make_cluster,
    make_configuration,
    make_event,
    make_execution,
    make_key,
    make_node,
    make_project,
    make_secret,
    make_session,
    make_task,
)

RESULT: Final = Raw(b'{"success":true}')


class CommitTests(Harness):
    @on_store
    async def test_default_project_and_cluster_exist_from_the_start(self, store: Store) -> None:
        project = await store.get(PROJECTS, "default")
        (cluster,) = await store.find(CLUSTERS.where())
        assert project is not None
        assert (project.id, project.version) == ("default", 1)
        assert (cluster.id, cluster.project_id, cluster.version) == ("default", "default", 1)

    @on_store
    async def test_opening_an_open_store_again_changes_nothing(self, store: Store) -> None:
        await must(store, Change(tasks=(make_task(),)))
        await store.open()
        assert len(await store.find(CLUSTERS.where())) == 1
        assert await store.tasks(["task-0001"]) == [make_task()]

    @on_store
    async def test_rows_of_every_kind_are_stored_whole(self, store: Store) -> None:
        change = Change(
            rows=(
                FULL_PROJECT,
                FULL_CLUSTER,
                FULL_KEY,
                make_configuration(cause=AWKWARD),
                FULL_BUNDLE,
                make_secret(sealed=AWKWARD, cause=AWKWARD),
            ),
            nodes=(FULL_NODE,),
            sessions=(FULL_SESSION,),
            tasks=(FULL_TASK,),
            executions=(FULL_EXECUTION,),
        )
        await must(store, change)
        assert await store.get(PROJECTS, "proj-0001") == FULL_PROJECT
        kept = await store.find(configurations_of("clus-0001", before=None, limit=9))
        assert kept == [make_configuration(cause=AWKWARD)]
        assert await store.get(BUNDLES, FULL_BUNDLE.id) == FULL_BUNDLE
        sealed = make_secret(sealed=AWKWARD, cause=AWKWARD)
        assert await store.get(SECRETS, sealed.id) == sealed
        assert FULL_CLUSTER in await store.find(CLUSTERS.where())
        assert await store.node("node-0001") == FULL_NODE
        assert await store.session("sess-0001") == FULL_SESSION
        assert await store.tasks(["task-0001"]) == [FULL_TASK]
        assert await store.executions("task-0001") == [FULL_EXECUTION]
        assert await store.find(KEYS.where()) == [FULL_KEY]

    @on_store
    async def test_rows_with_only_defaults_are_stored_whole(self, store: Store) -> None:
        change = Change(
            rows=(
                make_project(),
                make_cluster(),
                make_key(),
                make_bundle(2),
                make_bundle(1),
                make_secret(2),
                make_secret(1),
            ),
            nodes=(make_node(),),
            sessions=(make_session(),),
            tasks=(make_task(),),
            executions=(make_execution(),),
        )
        await must(store, change)
        assert await store.find(BUNDLES.where()) == [make_bundle(1), make_bundle(2)]
        assert await store.find(SECRETS.where()) == [make_secret(1), make_secret(2)]
        assert await store.get(PROJECTS, "proj-0001") == make_project()
        assert make_cluster() in await store.find(CLUSTERS.where())
        assert await store.node("node-0001") == make_node()
        assert await store.session("sess-0001") == make_session()
        assert await store.tasks(["task-0001"]) == [make_task()]
        assert await store.executions("task-0001") == [make_execution()]
        assert await store.find(KEYS.where()) == [make_key()]

    @on_store
    async def test_everything_that_has_a_life_can_change_and_change_back(
        self, store: Store
    ) -> None:
        bare = {name: getattr(make_task(), name) for name in TASK_CHANGES}
        task = replace(FULL_TASK, version=1)
        second = replace(task, **bare | {"version": 2})
        third = replace(task, version=3, updated_at=2.5)
        await must(store, Change(tasks=(task,)), Change(tasks=(second,)))
        assert await store.tasks([task.id]) == [second]
        await must(store, Change(tasks=(third,)))
        assert await store.tasks([task.id]) == [third]

    @on_store
    async def test_an_attempt_changes_in_all_that_it_goes_through(self, store: Store) -> None:
        bare = {name: getattr(make_execution(), name) for name in EXECUTION_CHANGES}
        attempt = replace(FULL_EXECUTION, **bare)
        await must(store, Change(executions=(attempt,)))
        await must(store, Change(executions=(replace(FULL_EXECUTION, version=2),)))
        assert await store.execution(attempt.id) == replace(FULL_EXECUTION, version=2)

    @on_store
    async def test_whatever_else_changes_on_the_usual_way_is_stored(self, store: Store) -> None:
        for number, name in enumerate(TASK_CHANGES):
            task = make_task(number)
            assigned = replace(task, version=2, status=TaskStatus.ASSIGNED, token=1)
            completed = replace(assigned, version=3, status=TaskStatus.COMPLETED, result=RESULT)
            if name not in {"status", "version"}:
                assigned = replace(assigned, **{name: getattr(FULL_TASK, name)})
                completed = replace(completed, **{name: getattr(FULL_TASK, name)})
            for each in (task, assigned, replace(completed, updated_at=9.5)):
                await must(store, Change(tasks=(each,)))
                assert await store.tasks([task.id]) == [each], name
            again = replace(task, version=4, status=TaskStatus.ASSIGNED)
            await must(store, Change(tasks=(again,)))
            assert await store.tasks([task.id]) == [again], name

    @on_store
    async def test_a_task_that_is_held_is_stored_so(self, store: Store) -> None:
        task = make_task()
        held = replace(task, not_before=HELD, version=task.version + 1)
        await must(store, Change(tasks=(task,)), Change(tasks=(held,)))
        assert await store.tasks([task.id]) == [held]

    @on_store
    async def test_new_row_with_a_known_id_is_refused(self, store: Store) -> None:
        await must(store, Change(tasks=(make_task(),)))
        refusal = await commit_one(store, Change(tasks=(make_task(priority=9),)))
        assert is_refused(refusal, RefusalKind.VERSION, "task-0001")
        assert await store.tasks(["task-0001"]) == [make_task()]

    @on_store
    async def test_row_that_is_not_new_is_told_before_the_claim_in_the_way(
        self, store: Store
    ) -> None:
        claim = make_claim("task-0001", expires_at=NEVER)
        await must(store, Change(tasks=(make_task(1),), claims=(claim,)))
        await must(store, Change(tasks=(make_task(2),)))
        late = Change(tasks=(make_task(2),), claims=(make_claim("task-0002"),))
        good = Change(tasks=(make_task(3),))
        refusal, made = (await store.commit([late, good])).refusals
        assert is_refused(refusal, RefusalKind.VERSION, "task-0002")
        assert made is None

    @on_store
    async def test_change_of_a_row_that_does_not_exist_is_refused(self, store: Store) -> None:
        refusal = await commit_one(store, Change(tasks=(make_task(version=2),)))
        assert is_refused(refusal, RefusalKind.VERSION, "task-0001")
        assert await store.tasks(["task-0001"]) == []

    @on_store
    async def test_only_the_next_version_is_accepted(self, store: Store) -> None:
        await must(store, Change(nodes=(make_node(),)), Change(nodes=(make_node(version=2),)))
        for version in (0, 1, 2, 4):
            refusal = await commit_one(store, Change(nodes=(make_node(version=version),)))
            assert is_refused(refusal, RefusalKind.VERSION, "node-0001")
        await must(store, Change(nodes=(make_node(version=3),)))

    @on_store
    async def test_repeating_a_commit_changes_nothing(self, store: Store) -> None:
        change = Change(tasks=(make_task(),), events=(make_event(),))
        await must(store, change)
        again = await store.commit([change])
        assert is_refused(again.refusals[0], RefusalKind.VERSION, "task-0001")
        assert len(await store.events(after=0, limit=10)) == 1
        assert again.last_seq == 1

    @on_store
    async def test_same_id_in_different_kinds_does_not_clash(self, store: Store) -> None:
        await must(
            store,
            Change(nodes=(make_node(id="x"),), tasks=(make_task(id="x"),)),
            Change(rows=(make_key(id="x"),)),
        )

    @on_store
    async def test_batch_is_accepted_in_part(self, store: Store) -> None:
        await must(store, Change(tasks=(make_task(2),)))
        committed = await store.commit([Change(tasks=(make_task(n),)) for n in (1, 2, 3)])
        first, second, third = committed.refusals
        assert first is None
        assert is_refused(second, RefusalKind.VERSION, "task-0002")
        assert third is None
        assert len(await store.tasks(["task-0001", "task-0003"])) == 2

    @on_store
    async def test_empty_batch_and_empty_change_are_fine(self, store: Store) -> None:
        assert (await store.commit([])).refusals == ()
        assert (await store.commit([Change(), Change()])).refusals == (None, None)

    @on_store
    async def test_refused_change_leaves_no_trace(self, store: Store) -> None:
        await must(store, Change(rows=(make_key(),)))
        change = Change(
            rows=(make_project(), make_key()),
            nodes=(make_node(),),
            sessions=(make_session(),),
            tasks=(make_task(),),
            executions=(make_execution(),),
            claims=(make_claim(),),
            events=(make_event(),),
        )
        committed = await store.commit([change])
        assert is_refused(committed.refusals[0], RefusalKind.VERSION, "key-0001")
        assert committed.last_seq == 0
        assert await store.get(PROJECTS, "proj-0001") is None
        assert await store.node("node-0001") is None
        assert await store.session("sess-0001") is None
        assert await store.tasks(["task-0001"]) == []
        assert await store.executions("task-0001") == []
        assert await store.events(after=0, limit=10) == []
        await must(store, Change(claims=(make_claim("another"),)))

    @on_store
    async def test_rows_of_a_refused_change_can_be_written_later_in_the_batch(
        self, store: Store
    ) -> None:
        bad = Change(tasks=(make_task(1), make_task(2, version=5)), claims=(make_claim("bad"),))
        good = Change(tasks=(make_task(1, priority=1),), claims=(make_claim("good"),))
        committed = await store.commit([bad, good])
        assert is_refused(committed.refusals[0], RefusalKind.VERSION, "task-0002")
        assert committed.refusals[1] is None
        assert await store.tasks(["task-0001"]) == [make_task(1, priority=1)]

    @on_store
    async def test_change_sees_the_changes_before_it_in_the_batch(self, store: Store) -> None:
        versions = [Change(tasks=(make_task(version=v, priority=v),)) for v in range(1, 6)]
        await must(store, *versions)
        assert await store.tasks(["task-0001"]) == [make_task(version=5, priority=5)]

    @on_store
    async def test_order_within_a_batch_counts(self, store: Store) -> None:
        committed = await store.commit(
            [Change(tasks=(make_task(version=2),)), Change(tasks=(make_task(),))]
        )
        assert is_refused(committed.refusals[0], RefusalKind.VERSION, "task-0001")
        assert committed.refusals[1] is None

    @on_store
    async def test_row_named_twice_in_a_change_follows_its_own_versions(self, store: Store) -> None:
        task = make_task()
        refusal = await commit_one(store, Change(tasks=(task, task)))
        assert is_refused(refusal, RefusalKind.VERSION, task.id)
        assert await store.tasks([task.id]) == []
        await must(store, Change(tasks=(task, replace(task, version=2, priority=1))))
        assert await store.tasks([task.id]) == [replace(task, version=2, priority=1)]

    @on_store
    async def test_large_batch_is_made_whole(self, store: Store) -> None:
        changes = [
            Change(tasks=(make_task(n),), events=(make_event(f"task-{n:04}"),))
            for n in range(1, 1236)
        ]
        committed = await store.commit(changes)
        assert committed.refusals == (None,) * 1235
        assert committed.last_seq == 1235
        assert (await store.count_tasks()) == {TaskStatus.PENDING: 1235}
        log = await store.events(after=0, limit=5000)
        assert [event.subject for event in log] == [f"task-{n:04}" for n in range(1, 1236)]

    @on_store
    async def test_concurrent_writers_of_one_row_lose_no_update(self, store: Store) -> None:
        await must(store, Change(tasks=(make_task(priority=0),)))

        async def increment() -> None:
            while True:
                (task,) = await store.tasks(["task-0001"])
                more = replace(task, version=task.version + 1, priority=task.priority + 1)
                if await commit_one(store, Change(tasks=(more,))) is None:
                    return

        async with asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(increment())
        assert await store.tasks(["task-0001"]) == [make_task(priority=50, version=51)]

    @on_store
    async def test_concurrent_commits_are_all_answered(self, store: Store) -> None:
        answers = await asyncio.gather(
            *(
                store.commit([Change(tasks=(make_task(n),), events=(make_event(),))])
                for n in range(200)
            )
        )
        assert all(answer.refusals == (None,) for answer in answers)
        assert max(answer.last_seq for answer in answers) == 200

    @on_store
    async def test_cancelled_commit_does_not_hurt_the_others(self, store: Store) -> None:
        waiting = [
            asyncio.ensure_future(store.commit([Change(tasks=(make_task(n),))])) for n in range(20)
        ]
        await asyncio.sleep(0)
        for task in waiting[::2]:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        others = [f"task-{n:04}" for n in range(1, 20, 2)]
        assert [task.id for task in await store.tasks(others)] == others
        await must(store, Change(tasks=(make_task(99),)))

    @on_store
    async def test_epoch_grows_with_each_leader(self, store: Store) -> None:
        epochs = [await take_lead(store, name) for name in ("a", "b", "a")]
        assert epochs == sorted(set(epochs))
        assert epochs[0] > 0

    @on_store
    async def test_the_store_names_who_leads(self, store: Store) -> None:
        assert await store.leadership() == Leadership(epoch=0, leader="")
        epoch = await take_lead(store, "a")
        assert await store.leadership() == Leadership(epoch=epoch, leader="a")

    @on_store
    async def test_who_resigns_may_lead_again(self, store: Store) -> None:
        lead = await store.lead("a")
        assert lead is not None
        await lead.resign()
        await lead.resign()
        assert await take_lead(store, "a") == lead.epoch + 1

    @on_store
    async def test_committing_nothing_tells_the_newest_event(self, store: Store) -> None:
        assert (await store.commit([])).last_seq == 0
        await must(store, Change(events=(make_event(), make_event())))
        assert (await store.commit([])).last_seq == 2
        assert (await store.commit([])).refusals == ()

    @on_store
    async def test_change_of_a_former_leader_is_refused(self, store: Store) -> None:
        old = await take_lead(store, "a")
        await must(store, Change(tasks=(make_task(1),), epoch=old))
        new = await take_lead(store, "b")
        refusal = await commit_one(store, Change(tasks=(make_task(2),), epoch=old))
        assert refusal is not None
        assert refusal.kind is RefusalKind.EPOCH
        assert await store.tasks(["task-0002"]) == []
        await must(store, Change(tasks=(make_task(2),), epoch=new))

    @on_store
    async def test_epoch_that_was_never_given_is_refused(self, store: Store) -> None:
        epoch = await take_lead(store, "a")
        for wrong in (0, epoch + 1):
            refusal = await commit_one(store, Change(epoch=wrong))
            assert refusal is not None
            assert refusal.kind is RefusalKind.EPOCH

    @on_store
    async def test_change_without_an_epoch_needs_no_leader(self, store: Store) -> None:
        await must(store, Change(tasks=(make_task(1),)))
        await take_lead(store, "a")
        await must(store, Change(tasks=(make_task(2),)))

    @on_store
    async def test_change_under_a_session_needs_it_open(self, store: Store) -> None:
        await must(store, Change(sessions=(make_session(),)))
        await must(store, Change(tasks=(make_task(1),), under="sess-0001"))
        await must(store, Change(sessions=(make_session(version=2, ended_at=1.0),)))
        for session in ("sess-0001", "never opened"):
            change = Change(
                tasks=(make_task(2),), events=(make_event(),), claims=(make_claim(),), under=session
            )
            refusal = await commit_one(store, change)
            assert is_refused(refusal, RefusalKind.SESSION, session)
        assert await store.tasks(["task-0002"]) == []
        assert await store.events(after=0, limit=9) == []
        await must(store, Change(claims=(make_claim("another"),)))

    @on_store
    async def test_session_can_open_and_end_within_a_batch(self, store: Store) -> None:
        work = [Change(tasks=(make_task(n),), under="sess-0001") for n in range(3)]
        opened = Change(sessions=(make_session(),))
        ended = Change(sessions=(make_session(version=2, ended_at=1.0),), under="sess-0001")
        committed = await store.commit([work[0], opened, work[1], ended, work[2]])
        made = [refusal is None for refusal in committed.refusals]
        assert made == [False, True, True, True, False]
        assert [task.id for task in await store.tasks(["task-0000", "task-0001", "task-0002"])] == [
            "task-0001"
        ]

    @on_store
    async def test_end_of_a_session_that_is_refused_does_not_end_it(self, store: Store) -> None:
        await must(store, Change(sessions=(make_session(),)))
        ended = make_session(version=2, ended_at=1.0)
        bad = Change(sessions=(ended,), tasks=(make_task(version=7),))
        committed = await store.commit([bad, Change(tasks=(make_task(),), under="sess-0001")])
        assert is_refused(committed.refusals[0], RefusalKind.VERSION, "task-0001")
        assert committed.refusals[1] is None

    @on_store
    async def test_epoch_is_checked_before_the_session_and_that_before_versions(
        self, store: Store
    ) -> None:
        epoch = await take_lead(store, "a")
        bad = Change(tasks=(make_task(version=9),), under="nope", epoch=epoch + 1)
        kinds = []
        for change in (bad, replace(bad, epoch=epoch), replace(bad, epoch=epoch, under=None)):
            refusal = await commit_one(store, change)
            assert refusal is not None
            kinds.append(refusal.kind)
        assert kinds == [RefusalKind.EPOCH, RefusalKind.SESSION, RefusalKind.VERSION]

    @on_store
    async def test_commits_at_once_each_know_the_numbers_of_their_own_events(
        self, store: Store
    ) -> None:
        async def commit(name: str) -> tuple[str, int]:
            made = Change(events=(make_event(subject=name), make_event(subject=f"{name}, too")))
            stale = Change(tasks=(make_task(version=7),), events=(make_event(subject="never"),))
            return name, (await store.commit([stale, made])).last_seq

        for name, last in await asyncio.gather(*(commit(f"batch {n}") for n in range(20))):
            numbered = await store.events(after=last - 2, limit=2)
            assert [(e.seq, e.subject) for e in numbered] == [
                (last - 1, name),
                (last, f"{name}, too"),
            ]
