"""The figures as tables."""

from collections.abc import Sequence
from typing import Final

from bench.sheets import Sheet
from bench.spread.figures import Alone, Report, Spread

OURS: Final = frozenset({"master", "redis"})
"""Contenders that are the program of those that share nothing."""


def sheets(report: Report) -> list[Sheet]:
    """Everything that was measured; a part that was left out has no sheet."""
    made = []
    for spreads, title in (
        (report.latency, "as many hosts for each worker"),
        (report.host, "one host, which allows as many requests for each worker"),
    ):
        if spreads:
            made.append(_waiting(spreads, f"{title}, medians of {report.rounds}"))
    if report.cpu:
        made += [_cpu(report), _costs(report)]
    if report.anywhere:
        made.append(_anywhere(report))
    if report.killed:
        made.append(_killed(report))
    return made


def of_linear(each: Spread, among: Sequence[Spread]) -> float | None:
    """The pages a second of each process, as a share of those of one alone."""
    one = single(each, among)
    return None if one is None else each.per_s / each.processes / one.per_s


def single(each: Spread, among: Sequence[Spread]) -> Spread | None:
    """The same contender with one process."""
    return next((one for one in among if one.name == each.name and one.processes == 1), None)


def _waiting(spreads: Sequence[Spread], title: str) -> Sheet:
    rows = []
    for each in spreads:
        share = of_linear(each, spreads)
        rows.append(
            [
                each.title,
                str(each.processes),
                f"{each.pages:,}",
                f"{each.per_s:,.0f}",
                "" if share is None else f"{share:.2f}",
                f"{each.per_s / each.ideal_per_s:.2f}",
                f"{sum(each.cpu_ms.values()):.2f}",
            ]
        )
    head = ("answers after 50 to 200 ms", "workers", "pages", "pages a second", "of linear")
    head += ("of what the hosts allow", "CPU-ms a page")
    return Sheet(title, head, rows)


def _cpu(report: Report) -> Sheet:
    rows = [
        [
            "as many crawls that share nothing",
            str(each.processes),
            f"{each.pages:,} each",
            f"{each.per_cpu_s:,.0f}",
            "",
            f"{each.per_cpu_s / report.alone[0].per_cpu_s:.2f}",
            *("", "", ""),
        ]
        for each in report.alone
    ]
    for each in report.cpu:
        one = single(each, report.cpu)
        low, high = each.per_cpu_range
        rows.append(
            [
                each.title,
                str(each.processes),
                f"{each.pages:,}",
                f"{each.per_cpu_s:,.0f}",
                f"{low:,.0f} to {high:,.0f}",
                "" if one is None else f"{each.per_cpu_s / one.per_cpu_s:.2f}",
                _of_alone(each, one, report.alone),
                _ratio(each, report.cpu),
                f"{each.per_s:,.0f}",
            ]
        )
    head = ("crawler", "processes", "pages", "pages a CPU-second", "worst to best")
    head += ("of one process", "beside those that share nothing", "ours / theirs")
    head += ("pages a second",)
    return Sheet(f"one site, all CPU of all processes, medians of {report.rounds}", head, rows)


def _of_alone(each: Spread, one: Spread | None, alone: Sequence[Alone]) -> str:
    """What is kept of the rate of one process, beside what as many keep that share nothing."""
    rates = {those.processes: those.per_cpu_s for those in alone}
    if one is None or each.name not in OURS or not {1, each.processes} <= rates.keys():
        return ""
    kept = each.per_cpu_s / one.per_cpu_s
    return f"{kept / (rates[each.processes] / rates[1]):.2f}"


def _anywhere(report: Report) -> Sheet:
    rows = []
    for each in report.anywhere:
        one = single(each, report.anywhere)
        share = "" if one is None else f"{each.per_cpu_s / one.per_cpu_s:.2f}"
        rate = f"{each.per_cpu_s:,.0f}"
        rows.append([each.title, str(each.processes), f"{each.pages:,}", rate, share])
    head = ("crawler", "processes", "pages", "pages a CPU-second", "of one process")
    return Sheet("the same where links lead to any host", head, rows)


def _ratio(each: Spread, among: Sequence[Spread]) -> str:
    """Ours, of the first of us, against theirs with as many processes."""
    ours = among[0]
    mine = [one for one in among if one.name == ours.name and one.processes == each.processes]
    if each.name == ours.name or not mine:
        return ""
    return f"{mine[0].per_cpu_s / each.per_cpu_s:.1f}×"


def _costs(report: Report) -> Sheet:
    kinds = [*dict.fromkeys(kind for each in report.cpu for kind in each.cpu_ms)]
    rows = [
        [
            each.title,
            str(each.processes),
            *(f"{each.cpu_ms[kind]:.3f}" if kind in each.cpu_ms else "" for kind in kinds),
        ]
        for each in report.cpu
    ]
    return Sheet("whose CPU it is, ms a page", ("crawler", "processes", *kinds), rows)


def _killed(report: Report) -> Sheet:
    rows = [
        [
            each.title,
            f"{each.pages:,}",
            _each(each.lost),
            _each(each.again),
            f"{each.items:,}",
            _each(each.items_lost),
            _each(each.items_again),
        ]
        for each in report.killed
    ]
    head = ("one of two processes killed with -9", "pages", "lost", "asked for again")
    head += ("items", "lost", "there twice")
    return Sheet("what a death costs, each time", head, rows)


def _each(numbers: Sequence[int]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)
