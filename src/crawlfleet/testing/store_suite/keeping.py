"""Logs of executions and samples of nodes: kept, read in order, thinned and removed."""

import msgspec

from crawlfleet.model.log import Gap, LogLevel, LogLine, LogPart, LogSize
from crawlfleet.model.node_sample import NodeSample, Resolution
from crawlfleet.ports.history import LINE_BYTES
from crawlfleet.ports.store import Change, Store
from crawlfleet.testing.store_suite.harness import Harness, must, on_store
from crawlfleet.testing.store_suite.samples import (
    AWKWARD,
    FULL_EXECUTION,
    NOW,
    make_execution,
    make_node,
)

LONG = 2.0**53


def make_line(seq: int, **fields: object) -> LogLine:
    return msgspec.convert(
        {"seq": seq, "at": NOW + seq / 8, "message": f"line {seq}", **fields}, LogLine
    )


def part(execution: str, *lines: LogLine, left_out: tuple[int, int] | None = None) -> LogPart:
    gap = None if left_out is None else Gap(first=left_out[0], last=left_out[1])
    return LogPart(execution_id=execution, lines=lines, left_out=gap)


def sample(number: float, node: str = "node-0001", **fields: object) -> NodeSample:
    return NodeSample(node_id=node, at=NOW + number, **fields)  # type: ignore[arg-type]


async def all_lines(store: Store, execution: str) -> list[LogLine]:
    return await store.logs(execution, after=0, limit=10_000)


async def all_samples(
    store: Store, node: str = "node-0001", resolution: Resolution = Resolution.RAW
) -> list[NodeSample]:
    return await store.samples(node, resolution, since=0.0, until=LONG, limit=10_000)


class KeepingTests(Harness):
    @on_store
    async def test_execution_is_found_by_its_id(self, store: Store) -> None:
        await must(store, Change(executions=(FULL_EXECUTION, make_execution(2))))
        assert await store.execution("exec-0001") == FULL_EXECUTION
        assert await store.execution("exec-0002") == make_execution(2)
        assert await store.execution("exec-0003") is None
        assert await store.execution(AWKWARD) is None

    @on_store
    async def test_lines_come_back_whole_and_in_order(self, store: Store) -> None:
        full = make_line(2, message=AWKWARD, level="error", fields={"a": [1, None], AWKWARD: "x"})
        await store.append_logs([part("e1", make_line(3), full), part("e2", make_line(1))])
        await store.append_logs([part("e1", make_line(1))])
        assert await all_lines(store, "e1") == [make_line(1), full, make_line(3)]
        assert await all_lines(store, "e2") == [make_line(1)]
        assert await all_lines(store, "e3") == []

    @on_store
    async def test_the_same_part_again_changes_nothing(self, store: Store) -> None:
        once = part("e1", *(make_line(n) for n in range(1, 6)))
        await store.append_logs([once, once])
        await store.append_logs([once])
        assert await all_lines(store, "e1") == [*once.lines]

    @on_store
    async def test_lines_are_read_page_by_page_and_by_level(self, store: Store) -> None:
        levels = [*LogLevel]
        lines = [make_line(n, level=levels[n % 4]) for n in range(1, 2001)]
        await store.append_logs([part("e1", *lines)])
        assert await store.logs("e1", after=0, limit=3) == lines[:3]
        assert await store.logs("e1", after=1998, limit=5) == lines[1998:]
        assert await store.logs("e1", after=0, limit=0) == []
        assert await store.logs("e1", after=10, limit=2, levels=[LogLevel.ERROR]) == [
            lines[10],
            lines[14],
        ]
        both = await store.logs("e1", after=0, limit=4, levels=[LogLevel.WARNING, LogLevel.ERROR])
        assert [line.seq for line in both] == [2, 3, 6, 7]

    @on_store
    async def test_lines_that_are_left_out_are_gone_and_a_line_may_take_their_place(
        self, store: Store
    ) -> None:
        await store.append_logs([part("e1", *(make_line(n) for n in range(1, 9)))])
        await store.append_logs([part("e2", *(make_line(n) for n in range(1, 9)))])
        marker = make_line(3, message="4 lines were left out")
        await store.append_logs([part("e1", marker, make_line(9), left_out=(3, 6))])
        assert [line.seq for line in await all_lines(store, "e1")] == [1, 2, 3, 7, 8, 9]
        assert (await all_lines(store, "e1"))[2] == marker
        assert len(await all_lines(store, "e2")) == 8

    @on_store
    async def test_parts_of_one_call_follow_one_another(self, store: Store) -> None:
        await store.append_logs(
            [
                part("e1", *(make_line(n) for n in range(1, 6))),
                part("e2", make_line(3)),
                part("e1", make_line(6), left_out=(2, 4)),
            ]
        )
        assert [line.seq for line in await all_lines(store, "e1")] == [1, 5, 6]
        assert [line.seq for line in await all_lines(store, "e2")] == [3]

    @on_store
    async def test_old_lines_go_first_and_within_the_limit(self, store: Store) -> None:
        await store.append_logs([part("e2", *(make_line(n) for n in range(1, 6)))])
        await store.append_logs([part("e1", *(make_line(n) for n in range(6, 11)))])
        assert await store.remove_logs(before=NOW + 8 / 8, limit=0) == 0
        assert await store.remove_logs(before=NOW + 8 / 8, limit=6) == 6
        assert await all_lines(store, "e2") == []
        assert [line.seq for line in await all_lines(store, "e1")] == [7, 8, 9, 10]
        assert await store.remove_logs(before=NOW + 8 / 8, limit=6) == 1
        assert await store.remove_logs(before=NOW + 8 / 8, limit=6) == 0

    @on_store
    async def test_how_large_logs_are_is_told_by_time(self, store: Store) -> None:
        assert await store.oldest_log(since=0.0) is None
        assert await store.log_size(since=0.0, until=LONG) == LogSize(lines=0, bytes=0)
        wide = make_line(3, message="日志", fields={"名": "值"})
        await store.append_logs([part("e1", make_line(2), wide), part("e2", make_line(1))])
        assert await store.oldest_log(since=0.0) == make_line(1).at
        assert await store.oldest_log(since=make_line(2).at) == make_line(2).at
        assert await store.oldest_log(since=make_line(4).at) is None
        plain = LINE_BYTES + len("line 1")
        both = await store.log_size(since=make_line(1).at, until=make_line(3).at)
        assert both == LogSize(lines=2, bytes=2 * plain)
        size = LINE_BYTES + 6 + len('{"名":"值"}'.encode())
        assert await store.log_size(since=wide.at, until=LONG) == LogSize(lines=1, bytes=size)

    @on_store
    async def test_samples_come_back_whole_and_in_order(self, store: Store) -> None:
        full = sample(
            2.123456,
            count=20,
            cpu_usage=0.1,
            memory_usage=1 / 3,
            gpu_usage=0.0,
            network_io=1e9,
            disk_io=3.5,
            load=0.7,
            active_tasks=2.5,
            ended=3,
            errors=1,
            latency_s=0.25,
            disk_usage=0.5,
            wait_s=0.125,
        )
        await store.append_samples([sample(3), full, sample(1), sample(1, "node-0002")])
        await store.append_samples([sample(3, cpu_usage=0.5)])
        assert await all_samples(store) == [sample(1), full, sample(3, cpu_usage=0.5)]
        assert await all_samples(store, "node-0002") == [sample(1, "node-0002")]
        assert await all_samples(store, "node-0003") == []

    @on_store
    async def test_samples_are_read_by_time_and_resolution(self, store: Store) -> None:
        minutes = [sample(n, resolution=Resolution.MINUTE) for n in range(10)]
        await store.append_samples([sample(4), *minutes])
        found = await store.samples(
            "node-0001", Resolution.MINUTE, since=NOW + 3, until=NOW + 7, limit=10
        )
        assert found == minutes[3:7]
        few = await store.samples(
            "node-0001", Resolution.MINUTE, since=NOW + 3, until=NOW + 7, limit=2
        )
        assert few == minutes[3:5]

    @on_store
    async def test_samples_are_replaced_by_others_in_one_step(self, store: Store) -> None:
        await store.append_samples([sample(n) for n in range(6)] + [sample(2, "node-0002")])
        mean = sample(0, resolution=Resolution.MINUTE, count=4)
        await store.replace_samples(
            "node-0001", Resolution.RAW, since=0.0, until=NOW + 4, by=[mean]
        )
        assert await all_samples(store) == [sample(4), sample(5)]
        assert await all_samples(store, resolution=Resolution.MINUTE) == [mean]
        assert len(await all_samples(store, "node-0002")) == 1
        await store.replace_samples("node-0001", Resolution.MINUTE, since=0.0, until=LONG, by=())
        assert await all_samples(store, resolution=Resolution.MINUTE) == []

    @on_store
    async def test_what_operators_say_of_a_node_is_kept(self, store: Store) -> None:
        node = make_node(
            labels={"rack": "8"},
            label_overrides={"rack": "8", AWKWARD: None},
            description_override="",
        )
        await must(store, Change(nodes=(node,)))
        assert await store.node("node-0001") == node
