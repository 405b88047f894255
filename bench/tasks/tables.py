"""The figures as tables."""

from collections.abc import Callable
from typing import Final

from bench.sheets import Sheet
from bench.tasks.figures import Measured, Report
from bench.tasks.measures import Killed, Queued

OURS: Final = "crawlfleet"


def sheets(report: Report) -> list[Sheet]:
    """Everything that was measured; a part that was left out has no sheet."""
    made = [_rates(report), _spread(report), _costs(report)] if _has_rounds(report) else []
    systems = report.systems.values()
    if any(each.latency for each in systems):
        made.append(_latencies(report))
    if any(each.queued for each in systems):
        made.append(_memory(report))
    if any(each.killed for each in systems):
        made.append(_kills(report))
    if report.floors:
        made.append(_floors(report))
    return made


def _rates(report: Report) -> Sheet:
    ours = report.systems.get(OURS)

    def rate(of: Callable[[Measured], float], each: Measured) -> str:
        return f"{of(each):,.0f}{_ratio(ours, each, of)}"

    rows = [
        [
            each.title,
            rate(lambda one: one.single_per_s, each),
            rate(lambda one: one.batch_per_s, each),
            rate(lambda one: one.drain_per_s[1], each),
            rate(lambda one: one.drain_per_s[2], each),
        ]
        for each in report.systems.values()
        if each.drain_per_s
    ]
    head = ("tasks a second", "submitted singly", "in bulk", "drained, 1 process", "2 processes")
    return Sheet(f"rates, medians of {report.rounds} (in brackets: ours / theirs)", head, rows)


def _spread(report: Report) -> Sheet:
    rows = [
        [each.title, *(f"{low:,.0f} to {high:,.0f}" for low, high in each.drain_range.values())]
        for each in report.systems.values()
        if each.drain_range
    ]
    head = ("drained a second", "1 process", "2 processes")
    return Sheet("slowest and fastest round", head, rows)


def _costs(report: Report) -> Sheet:
    ours = report.systems.get(OURS)
    rows = []
    for each in report.systems.values():
        if not each.drain_per_s:
            continue
        server = sum(_servers(each.enqueue_cpu_ms).values())
        rows.append(
            [
                each.title,
                f"{each.enqueue_cpu_ms.get('client', 0.0):.3f}",
                f"{server:.3f}",
                _split(each.drain_cpu_ms),
                f"{each.cpu_ms:.3f}{_ratio(ours, each, lambda one: one.cpu_ms)}",
            ]
        )
    head = ("CPU-ms a task", "client (bulk)", "server, submitting", "doing", "sum")
    return Sheet("CPU of a task's whole life, all processes, one worker process", head, rows)


def _latencies(report: Report) -> Sheet:
    rows = [
        [each.title, f"{each.latency.p50:.1f}", f"{each.latency.p99:.1f}"]
        for each in report.systems.values()
        if each.latency
    ]
    return Sheet("latency at low load, ms", ("submit → running", "p50", "p99"), rows)


def _memory(report: Report) -> Sheet:
    rows = [
        [each.title, f"{each.queued.tasks:,}", _bytes(each.queued)]
        for each in report.systems.values()
        if each.queued
    ]
    return Sheet("a long queue", ("bytes a queued task", "queued", "bytes each"), rows)


def _kills(report: Report) -> Sheet:
    rows = [
        [each.title, _back(each.killed), _lost(each.killed), f"{each.killed.ran_twice}"]
        for each in report.systems.values()
        if each.killed
    ]
    head = ("one of two workers killed with -9", "all done after", "not done", "ran twice")
    return Sheet("tasks in flight at a worker's death", head, rows)


def _floors(report: Report) -> Sheet:
    batches = [floor.batch for floor in next(iter(report.floors.values()))]
    rows = [
        [name, *(f"{floor.per_s:,.0f}" for floor in floors)]
        for name, floors in report.floors.items()
    ]
    head = ("claim + complete, tasks a second", *(f"batches of {batch}" for batch in batches))
    return Sheet("the databases alone", head, rows)


def _has_rounds(report: Report) -> bool:
    return any(each.drain_per_s for each in report.systems.values())


def _ratio(ours: Measured | None, each: Measured, of: Callable[[Measured], float]) -> str:
    if ours is None or each.title.startswith(OURS) or not ours.drain_per_s or not of(each):
        return ""
    return f" ({of(ours) / of(each):.3g}×)"


def _servers(cost: dict[str, float]) -> dict[str, float]:
    return {name: spent for name, spent in cost.items() if name != "client"}


def _split(cost: dict[str, float]) -> str:
    return " + ".join(f"{spent:.3f} {name}" for name, spent in cost.items())


def _bytes(queued: Queued) -> str:
    return " + ".join(f"{each:,.0f} {name}" for name, each in queued.bytes_each.items())


def _back(killed: Killed) -> str:
    if killed.seconds is not None:
        return f"{killed.seconds:.1f} s"
    return f"not within {killed.waited_s:g} s"


def _lost(killed: Killed) -> str:
    if not killed.missing:
        return "0"
    fate = "still held by the system" if killed.still_known else "lost for good"
    return f"{killed.missing} of {killed.tasks}, {fate}"
