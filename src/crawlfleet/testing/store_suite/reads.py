"""Tests of reads: the rows, their order, and the answer when there is nothing."""

from collections import Counter
from itertools import product

import msgspec
from msgspec.structs import replace

from crawlfleet.model.node import NodeStatus
from crawlfleet.model.task import (
    LIVE_EXECUTION,
    TERMINAL,
    ErrorClass,
    ExecutionStatus,
    Task,
    TaskError,
    TaskStatus,
)
from crawlfleet.ports.kernel_tables import CLUSTERS, KEYS, PROJECTS, configurations_of
from crawlfleet.ports.store import Change, Store, TaskFilter
from crawlfleet.testing.store_suite.harness import Harness, must, on_store
from crawlfleet.testing.store_suite.samples import (
    AWKWARD,
    FULL_EVENT,
    FULL_TASK,
    make_cluster,
    make_configuration,
    make_event,
    make_execution,
    make_key,
    make_node,
    make_project,
    make_session,
    make_task,
)

VARIED = [
    make_task(
        number,
        project_id=f"p{number % 2}",
        task_type=f"t{number % 3}",
        workflow_id=[None, "w1", "w2"][number % 3],
        assigned_node=[None, "node-1", None, "node-2"][number % 4],
        dead_reason=AWKWARD if number % 5 == 0 else None,
        cluster_id=f"c{number % 2}" if number % 7 else "c2",
        error=TaskError(error_class=list(ErrorClass)[number % 4], message='{"error_class":"lost"')
        if number % 3
        else None,
        status=list(TaskStatus)[number % len(TaskStatus)],
    )
    for number in range(1, 91)
]
"""Tasks in which every combination of filters finds something different."""


def chosen(task: Task, filter: TaskFilter) -> bool:
    """The meaning of a filter, field by field."""
    return (
        all(
            wanted is None or wanted == actual
            for wanted, actual in (
                (filter.project_id, task.project_id),
                (filter.task_type, task.task_type),
                (filter.workflow_id, task.workflow_id),
                (filter.assigned_node, task.assigned_node),
                (filter.dead, task.dead_reason is not None),
                (filter.cluster_id, task.cluster_id),
                (filter.error_class, task.error and task.error.error_class),
            )
        )
        and (task.status in filter.status if filter.status else True)
        and (filter.reason is None or filter.reason in (task.dead_reason or ""))
    )


class ReadTests(Harness):
    @on_store
    async def test_empty_store_gives_empty_answers(self, store: Store) -> None:
        assert await store.get(PROJECTS, "nope") is None
        assert [project.id for project in await store.find(PROJECTS.where())] == ["default"]
        assert await store.find(configurations_of("default", before=None, limit=10)) == []
        assert await store.count_tasks_by_project() == {}
        assert await store.count_unfinished("default") == {}
        assert await store.node("nope") is None
        assert await store.nodes() == []
        assert await store.nodes([NodeStatus.ONLINE]) == []
        assert await store.session("nope") is None
        assert await store.live_sessions() == []
        assert await store.tasks([]) == []
        assert await store.tasks(["nope"]) == []
        assert await store.find_tasks(TaskFilter(), after=None, limit=10) == []
        assert await store.count_tasks() == {}
        assert await store.count_tasks("default") == {}
        assert [portion async for portion in store.unfinished_tasks()] == []
        assert await store.executions("nope") == []
        assert await store.live_executions() == []
        assert await store.find(KEYS.where()) == []
        assert await store.events(after=0, limit=10) == []
        assert await store.events(after=0, limit=10, subject="nope") == []
        assert await store.cursor("nope") == 0
        assert await store.remove_finished(before=1e12, limit=10) == 0
        assert await store.remove_events(before=1e12, limit=10) == 0
        assert await store.remove_sessions(before=1e12, limit=10) == 0

    @on_store
    async def test_raw_json_comes_back_byte_for_byte(self, store: Store) -> None:
        texts = [
            b"{}",
            b'{"a": 1,  "b":[ 1.0, 1e2, 12345678901234567890, 0.1000 ] }',
            '{"爬虫":"😀 \\u00e9 é \\ud83d\\ude00"}'.encode(),
            b'{"same":1,"same":2}',
            b"[null,true]",
            b'"text"',
        ]
        tasks = [
            make_task(n, parameters=msgspec.Raw(text), result=msgspec.Raw(text))
            for n, text in enumerate(texts)
        ]
        await must(store, Change(tasks=tuple(tasks)))
        found = await store.tasks([task.id for task in tasks])
        assert [bytes(task.parameters) for task in found] == texts
        assert [bytes(task.result or b"") for task in found] == texts

    @on_store
    async def test_large_parameters_come_back(self, store: Store) -> None:
        text = b'"' + "爬".encode() * 350_000 + b'"'
        await must(store, Change(tasks=(make_task(parameters=msgspec.Raw(text)),)))
        (found,) = await store.tasks(["task-0001"])
        assert bytes(found.parameters) == text

    @on_store
    async def test_raw_json_inside_of_a_larger_buffer_is_stored_alone(self, store: Store) -> None:
        buffer = b'{"parameters":{"a":1},"other":2}'
        fields = msgspec.json.decode(buffer, type=dict[str, msgspec.Raw])
        await must(store, Change(tasks=(make_task(parameters=fields["parameters"]),)))
        (found,) = await store.tasks(["task-0001"])
        assert bytes(found.parameters) == b'{"a":1}'

    @on_store
    async def test_what_callers_change_afterwards_does_not_reach_the_store(
        self, store: Store
    ) -> None:
        capabilities = {"proxies": ["a"]}
        details = {"list": [1]}
        await must(
            store,
            Change(
                tasks=(make_task(capabilities=capabilities),),
                events=(make_event(details=details),),
            ),
        )
        capabilities["proxies"].append("b")
        details["list"].append(2)
        for _ in range(2):
            (task,) = await store.tasks(["task-0001"])
            (event,) = await store.events(after=0, limit=1)
            assert task.capabilities == {"proxies": ["a"]}
            assert event.details == {"list": [1]}
            task.capabilities["proxies"].append("c")
            task.min_resources["cpu_cores"] = 1.0
            event.details["list"].append(3)
        assert await store.tasks(["task-0001"]) == [make_task(capabilities={"proxies": ["a"]})]

    @on_store
    async def test_tasks_come_in_the_order_asked_for(self, store: Store) -> None:
        await must(store, Change(tasks=tuple(make_task(n) for n in range(5))))
        ids = ["task-0003", "nope", "task-0000", "task-0004"]
        found = await store.tasks(ids)
        assert [task.id for task in found] == ["task-0003", "task-0000", "task-0004"]

    @on_store
    async def test_many_tasks_can_be_asked_for_at_once(self, store: Store) -> None:
        await must(store, Change(tasks=tuple(make_task(n) for n in range(3000))))
        ids = [f"task-{n:04}" for n in range(2999, -1, -1)]
        assert [task.id for task in await store.tasks(ids)] == ids

    @on_store
    async def test_lists_are_in_order_of_id(self, store: Store) -> None:
        numbers = (3, 1, 2)
        await must(
            store,
            *(
                Change(
                    nodes=(make_node(n),),
                    sessions=(make_session(n),),
                    rows=(make_cluster(n), make_key(n)),
                    executions=(make_execution(n),),
                )
                for n in numbers
            ),
        )
        lists = (
            await store.nodes(),
            await store.nodes([NodeStatus.PENDING]),
            await store.live_sessions(),
            await store.find(CLUSTERS.where()),
            await store.live_executions(),
            await store.find(KEYS.where()),
        )
        for rows in lists:
            ids = [row.id for row in rows]
            assert ids == sorted(ids)
            assert len(ids) >= 3

    @on_store
    async def test_nodes_are_found_by_state(self, store: Store) -> None:
        states = list(NodeStatus)
        nodes = [make_node(n, status=status) for n, status in enumerate(states)]
        await must(store, Change(nodes=tuple(nodes)))
        assert await store.nodes() == nodes
        for status in states:
            assert [node.status for node in await store.nodes([status])] == [status]
        assert await store.nodes(states[1:3]) == nodes[1:3]

    @on_store
    async def test_session_is_live_until_it_has_ended(self, store: Store) -> None:
        late = make_session(1, deadline=0.0)
        await must(store, Change(sessions=(late, make_session(2))))
        assert await store.live_sessions() == [late, make_session(2)]
        ended = make_session(2, version=2, ended_at=1.0)
        await must(store, Change(sessions=(ended,)))
        assert await store.live_sessions() == [late]
        assert await store.session("sess-0002") == ended

    @on_store
    async def test_execution_is_live_while_it_holds_resources(self, store: Store) -> None:
        states = list(ExecutionStatus)
        rows = [make_execution(n, status=status) for n, status in enumerate(states)]
        await must(store, Change(executions=tuple(rows)))
        live = [row for row in rows if row.status in LIVE_EXECUTION]
        assert await store.live_executions() == live
        gone = replace(live[0], version=2, status=ExecutionStatus.LOST)
        await must(store, Change(executions=(gone,)))
        assert await store.live_executions() == live[1:]

    @on_store
    async def test_live_executions_of_some_tasks_are_found(self, store: Store) -> None:
        rows = [
            make_execution(1, task_id="a", status=ExecutionStatus.STOPPING),
            make_execution(2, task_id="a"),
            make_execution(3, task_id="a", status=ExecutionStatus.LOST),
            make_execution(4, task_id="b"),
        ]
        await must(store, Change(executions=tuple(rows)))
        assert await store.live_executions(["a"]) == rows[:2]
        assert await store.live_executions(["b", "a", "none", "a"]) == [*rows[:2], rows[3]]
        assert await store.live_executions([]) == []

    @on_store
    async def test_nodes_and_sessions_are_found_by_id(self, store: Store) -> None:
        nodes = [make_node(number) for number in range(4)]
        ended = make_session(2, ended_at=1.0)
        sessions = [make_session(1), ended, make_session(3)]
        await must(store, Change(nodes=tuple(nodes), sessions=tuple(sessions)))
        wanted = [nodes[3].id, "none", nodes[1].id, nodes[3].id]
        assert await store.nodes_among(wanted) == [nodes[1], nodes[3]]
        assert await store.sessions_among([ended.id, sessions[0].id, "none"]) == sessions[:2]
        assert await store.nodes_among([]) == []
        assert await store.sessions_among([]) == []

    @on_store
    async def test_attempts_are_listed_oldest_first_even_within_one_instant(
        self, store: Store
    ) -> None:
        """Executions are in order of token; ids of the same millisecond are in no order."""
        rows = [
            make_execution(3, token=1),
            make_execution(1, token=2),
            make_execution(2, token=3),
        ]
        other = make_execution(4, task_id="another")
        await must(store, Change(executions=(*reversed(rows), other)))
        assert await store.executions("task-0001") == rows

    @on_store
    async def test_unfinished_tasks_come_once_each_oldest_first(self, store: Store) -> None:
        states = list(TaskStatus)
        tasks = [make_task(n, status=states[n % len(states)]) for n in range(4000)]
        await must(store, Change(tasks=tuple(reversed(tasks))))
        portions = [portion async for portion in store.unfinished_tasks()]
        assert all(portions)
        found = [task for portion in portions for task in portion]
        assert found == [task for task in tasks if task.status not in TERMINAL]

    @on_store
    async def test_every_filter_finds_what_it_says(self, store: Store) -> None:
        await must(store, Change(tasks=tuple(VARIED)))
        choices = product(
            [(), (TaskStatus.PENDING,), (TaskStatus.FAILED, TaskStatus.WAITING), tuple(TaskStatus)],
            [None, "p0", "nope"],
            [None, "t1"],
            [None, "w1"],
            [None, "node-1"],
            [None, True, False],
        )
        for status, project, kind, workflow, node, dead in choices:
            wanted = TaskFilter(
                status=status,
                project_id=project,
                task_type=kind,
                workflow_id=workflow,
                assigned_node=node,
                dead=dead,
            )
            expected = [task for task in VARIED if chosen(task, wanted)]
            for newest_first in (True, False):
                found = await store.find_tasks(
                    wanted, after=None, limit=100, newest_first=newest_first
                )
                assert found == expected[:: -1 if newest_first else 1], wanted

    @on_store
    async def test_dead_letters_are_found_by_cluster_error_and_reason(self, store: Store) -> None:
        await must(store, Change(tasks=tuple(VARIED)))
        choices = product(
            [None, True, False],
            [(), (TaskStatus.FAILED, TaskStatus.TIMEOUT)],
            [None, "p0"],
            [None, "c2", "nope"],
            [None, *ErrorClass],
            [None, "爬虫 😀 '\"", "%", "nope"],
        )
        for dead, status, project, cluster, error_class, reason in choices:
            wanted = TaskFilter(
                dead=dead,
                status=status,
                project_id=project,
                cluster_id=cluster,
                error_class=error_class,
                reason=reason,
            )
            found = await store.find_tasks(wanted, after=None, limit=100, newest_first=False)
            assert found == [task for task in VARIED if chosen(task, wanted)], wanted

    @on_store
    async def test_pages_join_without_gap_or_overlap(self, store: Store) -> None:
        await must(store, Change(tasks=tuple(VARIED)))
        filters = [
            TaskFilter(),
            TaskFilter(project_id="p1"),
            TaskFilter(dead=True),
            TaskFilter(workflow_id="w1"),
            TaskFilter(assigned_node="node-2"),
            TaskFilter(task_type="t0", dead=False),
            TaskFilter(status=(TaskStatus.PENDING, TaskStatus.FAILED, TaskStatus.PENDING)),
        ]
        for wanted, newest_first, limit in product(filters, (True, False), (1, 7, 90)):
            expected = [task for task in VARIED if chosen(task, wanted)]
            found: list[Task] = []
            while page := await store.find_tasks(
                wanted,
                after=found[-1].id if found else None,
                limit=limit,
                newest_first=newest_first,
            ):
                assert len(page) <= limit
                found += page
            assert found == expected[:: -1 if newest_first else 1]

    @on_store
    async def test_page_may_begin_after_an_id_that_is_gone(self, store: Store) -> None:
        await must(store, Change(tasks=(make_task(1), make_task(3))))
        newer = await store.find_tasks(TaskFilter(), after="task-0002", limit=9, newest_first=False)
        older = await store.find_tasks(TaskFilter(), after="task-0002", limit=9)
        assert [task.id for task in newer] == ["task-0003"]
        assert [task.id for task in older] == ["task-0001"]
        assert await store.find_tasks(TaskFilter(), after=None, limit=0) == []

    @on_store
    async def test_lists_follow_a_change_of_state(self, store: Store) -> None:
        task = replace(FULL_TASK, status=TaskStatus.PENDING, dead_reason=None)
        await must(store, Change(tasks=(task,)))
        await must(store, Change(tasks=(replace(FULL_TASK, version=2),)))
        pending = TaskFilter(status=(TaskStatus.PENDING,))
        failed = TaskFilter(status=(TaskStatus.FAILED,), dead=True, workflow_id="wf-1")
        assert await store.find_tasks(pending, after=None, limit=9) == []
        assert len(await store.find_tasks(failed, after=None, limit=9)) == 1

    @on_store
    async def test_counts_name_only_states_that_occur(self, store: Store) -> None:
        tasks = (
            make_task(1),
            make_task(2),
            make_task(3, project_id="p", status=TaskStatus.FAILED),
        )
        await must(store, Change(tasks=tasks))
        assert await store.count_tasks() == {TaskStatus.PENDING: 2, TaskStatus.FAILED: 1}
        assert await store.count_tasks("p") == {TaskStatus.FAILED: 1}
        assert await store.count_tasks("nope") == {}
        assert await store.count_tasks_by_project() == {
            "default": {TaskStatus.PENDING: 2},
            "p": {TaskStatus.FAILED: 1},
        }

    @on_store
    async def test_unfinished_tasks_of_a_cluster_are_counted(self, store: Store) -> None:
        await must(store, Change(tasks=tuple(VARIED)))
        for cluster in ("c0", "c1", "c2", "nope"):
            counted = Counter(task.status for task in VARIED if task.cluster_id == cluster)
            expected = {state: n for state, n in counted.items() if state not in TERMINAL}
            assert await store.count_unfinished(cluster) == expected

    @on_store
    async def test_projects_are_listed_in_order_of_id(self, store: Store) -> None:
        await must(store, *(Change(rows=(make_project(n),)) for n in (3, 1, 2)))
        found = [project.id for project in await store.find(PROJECTS.where())]
        assert found == ["default", "proj-0001", "proj-0002", "proj-0003"]

    @on_store
    async def test_configurations_of_a_cluster_come_newest_first(self, store: Store) -> None:
        mine = [make_configuration(number) for number in range(1, 13)]
        other = make_configuration(99, "clus-0002")
        await must(store, Change(rows=(*mine, other)))
        listed = await store.find(configurations_of("clus-0001", before=None, limit=100))
        assert listed == mine[::-1]
        assert await store.find(configurations_of("clus-0001", before=11, limit=2)) == mine[9:7:-1]
        assert await store.find(configurations_of("clus-0001", before=1, limit=2)) == []
        assert await store.find(configurations_of("clus-0002", before=None, limit=2)) == [other]

    @on_store
    async def test_events_are_numbered_in_the_order_of_commit(self, store: Store) -> None:
        changes = [
            Change(events=(make_event(f"s{n}", kind="a"), make_event(f"s{n}", kind="b")))
            for n in range(3)
        ]
        committed = await store.commit(changes)
        log = await store.events(after=0, limit=10)
        assert [event.seq for event in log] == sorted({event.seq for event in log})
        assert log[-1].seq == committed.last_seq
        assert [(event.subject, event.kind) for event in log] == [
            (f"s{n}", kind) for n in range(3) for kind in "ab"
        ]

    @on_store
    async def test_event_comes_back_whole_but_for_its_number(self, store: Store) -> None:
        await must(store, Change(events=(replace(FULL_EVENT, seq=77), make_event())))
        full, bare = await store.events(after=0, limit=10)
        assert replace(full, seq=0) == FULL_EVENT
        assert replace(bare, seq=0) == make_event()
        assert 0 < full.seq < bare.seq

    @on_store
    async def test_events_are_read_in_pages_and_by_subject(self, store: Store) -> None:
        await must(store, *(Change(events=(make_event(f"s{n % 2}"),)) for n in range(10)))
        log = await store.events(after=0, limit=100)
        assert await store.events(after=0, limit=3) == log[:3]
        assert await store.events(after=log[2].seq, limit=3) == log[3:6]
        assert await store.events(after=log[-1].seq, limit=3) == []
        assert await store.events(after=0, limit=0) == []
        assert await store.events(after=log[1].seq, limit=2, subject="s0") == [log[2], log[4]]
