"""The figures as tables."""

from collections.abc import Callable

from bench.crawl.crawlers import OURS
from bench.crawl.figures import Measured, Report
from bench.sheets import Sheet


def sheets(report: Report) -> list[Sheet]:
    """Everything that was measured; a part that was left out has no sheet."""
    made = [_crawlers(report)] if report.crawlers else []
    if report.floor:
        made.append(_floor(report))
    if report.profile:
        made.append(_profile(report))
    return made


def _crawlers(report: Report) -> Sheet:
    ours = report.crawlers.get(OURS)

    def ratio(of: Callable[[Measured], float], each: Measured) -> str:
        return f" ({of(ours) / of(each):.2g}×)" if ours and each is not ours else ""

    rows = []
    for each in report.crawlers.values():
        low, high = each.per_cpu_range
        rate = ratio(lambda one: one.per_cpu_s, each)
        memory = ratio(lambda one: one.peak_mb, each)
        rows.append(
            [
                each.title,
                f"{each.pages:,}",
                f"{each.per_cpu_s:,.0f}{rate}",
                f"{low:,.0f} to {high:,.0f}",
                f"{each.start_cpu_s:.2f}",
                f"{each.per_s:,.0f}",
                f"{each.peak_mb:.0f}{memory}",
                f"{each.server_busy:.0%}",
            ]
        )
    head = ("crawler", "pages", "pages a CPU-second", "worst to best", "CPU-s of one page")
    head += ("pages a second", "peak MB", "server busy")
    return Sheet(f"one site, medians of {report.rounds} (in brackets: ours / theirs)", head, rows)


def _floor(report: Report) -> Sheet:
    floor = report.floor
    assert floor is not None
    head = ("bare httptools loop, every URL known", "pages a second", "a CPU-second")
    row = ["fetched, not read", f"{floor.per_s:,.0f}", f"{floor.per_cpu_s:,.0f}"]
    server = ["what the server's CPU allows", "", f"{floor.server_per_cpu_s:,.0f}"]
    return Sheet("the server is not what they wait for", head, [row, server])


def _profile(report: Report) -> Sheet:
    whole = sum(each.us_a_page for each in report.profile)
    rows = [
        [each.part, f"{each.us_a_page:.1f}", f"{each.us_a_page / whole:.0%}"]
        for each in report.profile
    ]
    rows.append(["sum", f"{whole:.1f}", "100%"])
    return Sheet("where crawlfleet's CPU goes, not compiled", ("part", "µs a page", "share"), rows)
