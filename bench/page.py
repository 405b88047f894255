"""The dashboard in a browser: how large it is, how soon it is there, how it scrolls, what it costs.

Debian's Chromium without a window, on the same machine as the master that it looks at, drawn by
the processor. A frame is what lies between two calls of `requestAnimationFrame`, at 60 a second
if nothing is in the way; beside it the work of the page's own thread, which other programs on the
machine disturb less.
"""

import argparse
import gzip
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil  # type: ignore[import-untyped]
from playwright.sync_api import Browser, CDPSession, Page
from rich.console import Console
from tests.support.browser import chromium
from tests.support.local_fleet import LocalFleet

import crawlfleet
from bench.machine import Machine, machine
from bench.sheets import Sheet, show
from crawlfleet.client.blocking import BlockingClient

BUILT: Final = Path(crawlfleet.__file__).parent / "dashboard" / "dist"
TASKS: Final = 100_000
BATCH: Final = 10_000
FAST_PX: Final = 1_200
"""A frame: as fast as a finger can throw the list."""
SLOW_FRAME_MS: Final = 33.4
UPDATES_PER_S: Final = 50
EVENTS_OF_A_TASK: Final = 4
"""Submitted, assigned, begun, completed."""
SCROLL: Final = """
async ({pixels, rows, most}) => {
  const body = document.querySelector('.vbody');
  const height = body.querySelector('.vrow').getBoundingClientRect().height;
  const seen = body.clientHeight;
  const frames = [];
  let before = null, stood = 0, last = -1;
  await new Promise((done) => {
    const step = (now) => {
      if (before !== null) frames.push(now - before);
      before = now;
      // Read once in a frame and before anything is written, so that this lays nothing out.
      const top = body.scrollTop;
      body.scrollTop = top + pixels;
      // At the end of what is loaded it waits for more; those frames count as well.
      stood = top === last ? stood + 1 : 0;
      last = top;
      const end = Math.round((top + seen) / height) >= rows;
      if (end || stood > 600 || frames.length >= most) done();
      else requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  return {frames, rows: Math.round((body.scrollTop + body.clientHeight) / height)};
}
"""


class Scrolling(msgspec.Struct, frozen=True, kw_only=True):
    """From the first row down, without a stop."""

    rows: int
    frames: int
    p50_ms: float
    p95_ms: float
    worst_ms: float
    slow_share: float
    """Of frames that took longer than two should."""
    work_ms: float
    """CPU time of the page's thread for a frame, on average; script, layout and all."""
    script_ms: float
    layout_ms: float
    """With the computing of styles."""


class Watching(msgspec.Struct, frozen=True, kw_only=True):
    """The overview, while events come."""

    updates_per_s: float
    thread_share: float
    """Of one core, by the page's thread."""
    browser_share: float
    """Of one core, by all processes of the browser, which draw with the processor."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    script_kb: float
    """All scripts, packed."""
    first_kb: float
    """Those that the overview needs."""
    first_paint_ms: float
    scrolling: Scrolling
    idle: Watching
    busy: Watching


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.page", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10,000 tasks, a few seconds each")
    parser.add_argument("--tasks", type=int, default=0, help=f"to scroll over; {TASKS:,}")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args(arguments)
    tasks = options.tasks or (10_000 if options.quick else TASKS)
    seconds = 5.0 if options.quick else 20.0
    console = Console()
    about = machine(0.0)
    with (
        tempfile.TemporaryDirectory(prefix="bench-page-") as folder,
        _fleet(Path(folder)) as fleet,
        BlockingClient(fleet.url, fleet.key, patience_s=60) as api,
        chromium() as browser,
    ):
        found = measure(fleet, api, browser, tasks=tasks, seconds=seconds, about=about)
    show(_sheets(found), console)
    console.print(about.load)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")


def measure(
    fleet: LocalFleet,
    api: BlockingClient,
    browser: Browser,
    *,
    tasks: int,
    seconds: float,
    about: Machine,
) -> Figures:
    """All of it, on a fleet that is up."""
    paints = [_first_paint(browser, fleet, api) for _ in range(5)]
    page, first_kb = _signed_in(browser, fleet, api)
    idle = _watch(page, seconds, lambda: 0)
    with _updates(fleet, UPDATES_PER_S / EVENTS_OF_A_TASK) as updates:
        time.sleep(2.0)
        busy = _watch(page, seconds, updates)
    for begin in range(0, tasks, BATCH):
        count = min(BATCH, tasks - begin)
        api.submit_batch(
            [
                {"task_type": "nobodys", "parameters": {"url": f"https://shop.example/{number}"}}
                for number in range(begin, begin + count)
            ]
        )
    page.goto(f"{fleet.url}/tasks?type=nobodys")
    page.locator(".vrow").first.wait_for()
    return Figures(
        machine=about,
        script_kb=sum(map(_packed, BUILT.rglob("*.js"))) / 1000,
        first_kb=first_kb,
        first_paint_ms=statistics.median(paints),
        scrolling=_scroll(page, tasks),
        idle=idle,
        busy=busy,
    )


def _packed(file: Path) -> int:
    return len(gzip.compress(file.read_bytes(), 9, mtime=0))


def _first_paint(browser: Browser, fleet: LocalFleet, api: BlockingClient) -> float:
    """Milliseconds from the address to the first text, with nothing kept from before."""
    page, _ = _signed_in(browser, fleet, api)
    session = page.context.new_cdp_session(page)
    session.send("Network.clearBrowserCache")
    page.goto(fleet.url)
    page.locator(".figures, .cards, h1").first.wait_for()
    painted: float = page.evaluate(
        "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
    )
    page.context.close()
    return painted


def _signed_in(browser: Browser, fleet: LocalFleet, api: BlockingClient) -> tuple[Page, float]:
    """The overview, and the thousands of bytes of its scripts as they came."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB")
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.goto(fleet.url + str(api.create_session_link().path))
    page.get_by_role("navigation").first.wait_for()
    time.sleep(1.0)
    script = """() => performance.getEntriesByType('resource')
        .filter((each) => each.name.endsWith('.js'))
        .reduce((sum, each) => sum + each.encodedBodySize, 0) / 1000"""
    return page, page.evaluate(script)


def _watch(page: Page, seconds: float, updates: Callable[[], int]) -> Watching:
    """How much the page works while it is looked at; `updates` counts those that were caused."""
    session = _measured(page)
    before, cpu, seen, began = _metrics(session), _browser_cpu(), updates(), time.monotonic()
    time.sleep(seconds)
    after, spent, took = _metrics(session), _browser_cpu() - cpu, time.monotonic() - began
    return Watching(
        updates_per_s=(updates() - seen) / took,
        thread_share=(after["TaskDuration"] - before["TaskDuration"]) / took,
        browser_share=spent / took,
    )


def _scroll(page: Page, rows: int) -> Scrolling:
    session = _measured(page)
    before = _metrics(session)
    most = rows * 60 // FAST_PX * 20
    seen = page.evaluate(SCROLL, {"pixels": FAST_PX, "rows": rows, "most": max(most, 3_000)})
    after = _metrics(session)
    frames: list[float] = sorted(seen["frames"])
    used = {name: 1000 * (after[name] - before[name]) / len(frames) for name in before}
    return Scrolling(
        rows=seen["rows"],
        frames=len(frames),
        p50_ms=statistics.median(frames),
        p95_ms=frames[int(len(frames) * 0.95)],
        worst_ms=frames[-1],
        slow_share=sum(each > SLOW_FRAME_MS for each in frames) / len(frames),
        work_ms=used["TaskDuration"],
        script_ms=used["ScriptDuration"],
        layout_ms=used["LayoutDuration"] + used["RecalcStyleDuration"],
    )


def _measured(page: Page) -> CDPSession:
    session = page.context.new_cdp_session(page)
    # Time on the processor, not on the clock: others may want the machine as well.
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return session


def _metrics(session: CDPSession) -> dict[str, float]:
    wanted = ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
    told: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
    return {each["name"]: each["value"] for each in told if each["name"] in wanted}


def _browser_cpu() -> float:
    """Seconds that all processes of the browser have used."""
    total = 0.0
    for each in psutil.Process().children(recursive=True):
        try:
            if "chrom" in each.name():
                times = each.cpu_times()
                total += times.user + times.system
        except psutil.Error:
            continue
    return total


@contextmanager
def _updates(fleet: LocalFleet, per_s: float) -> Iterator[Callable[[], int]]:
    """Short tasks at a rate, from a thread of their own; says how many events they made."""
    over = threading.Event()
    submitted: list[float] = []

    def submit() -> None:
        with BlockingClient(fleet.url, fleet.key, patience_s=60) as api:
            due = time.monotonic()
            while not over.is_set():
                api.submit("sleep", {"seconds": 0})
                submitted.append(time.monotonic())
                due += 1 / per_s
                over.wait(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=submit, daemon=True)
    thread.start()
    try:
        yield lambda: len(submitted) * EVENTS_OF_A_TASK
    finally:
        over.set()
        thread.join(30)


@contextmanager
def _fleet(folder: Path) -> Iterator[LocalFleet]:
    fleet = LocalFleet(folder / "fleet", workers=1, CRAWLFLEET_SESSION_TIMEOUT_S="30")
    fleet.start()
    try:
        with BlockingClient(fleet.url, fleet.key, patience_s=60) as api:
            while not api.status().totals.nodes.get("online"):
                time.sleep(0.1)
        yield fleet
    finally:
        fleet.kill("all")


def _sheets(found: Figures) -> list[Sheet]:
    scrolling = found.scrolling
    work = (scrolling.work_ms, scrolling.script_ms, scrolling.layout_ms)
    return [
        Sheet(
            "The dashboard",
            ("", "measured"),
            (
                ("scripts in all, packed", f"{found.script_kb:.0f} kB"),
                ("scripts of the overview, as sent", f"{found.first_kb:.0f} kB"),
                ("first paint on the loopback", f"{found.first_paint_ms:.0f} ms"),
                ("page's thread, nothing happens", f"{found.idle.thread_share:.1%} of a core"),
                (
                    f"page's thread at {found.busy.updates_per_s:.0f} updates/s",
                    f"{found.busy.thread_share:.1%} of a core",
                ),
                (
                    f"whole browser at {found.busy.updates_per_s:.0f} updates/s",
                    f"{found.busy.browser_share:.1%} of a core",
                ),
            ),
        ),
        Sheet(
            f"Scrolling over {scrolling.rows:,} tasks, {FAST_PX:,} pixels a frame",
            ("", "measured"),
            (
                ("frames", f"{scrolling.frames:,}"),
                ("frame, p50 / p95", f"{scrolling.p50_ms:.1f} / {scrolling.p95_ms:.1f} ms"),
                ("longest frame", f"{scrolling.worst_ms:.0f} ms"),
                ("frames beyond 33 ms", f"{scrolling.slow_share:.2%}"),
                (
                    "work a frame: all / script / layout",
                    f"{' / '.join(f'{each:.1f}' for each in work)} ms",
                ),
            ),
        ),
    ]


if __name__ == "__main__":
    main()
