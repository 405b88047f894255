"""Every page is read within a limit of time and memory, and what exceeds it is an outcome."""

import asyncio
import functools
import gzip
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.core.pages.xpath import is_harmless, needs_care
from crawlfleet.crawl.extract import limited_reader
from crawlfleet.crawl.extract.limited_reader import LARGE, MODULE, LimitedReader
from crawlfleet.crawl.extract.page_reader import PageReader
from crawlfleet.errors import ReaderUnavailable
from crawlfleet.model.crawl.extraction import ExtractionPlan
from crawlfleet.model.crawl.parameters import Outcome

PAGE = b"""<html><body><h1>Shop</h1>
<div class="product" id="1"><h2>Tea</h2><a href="/tea">more</a></div>
<div class="product" id="2"><h2>Coffee</h2><a href="/coffee">more</a></div></body></html>"""
URL = "https://shop.example/"
GROUPS = {"products": {"xpath": "//div[@class='product']", "fields": {"title": ".//h2"}}}
DEAR = "//*[count(//*[count(//*[count(//*) > 1]) > 1]) > 1]"
FILLER = b"<p>tea and coffee</p>" * (LARGE // 20)
SLOW = PAGE + b"<select>" + b"<option>" * 150_000
"""The HTML parser takes a time that is quadratic in the number of options: about half a minute."""


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@asynccontextmanager
async def reader_of(plan: ExtractionPlan, **more: Any) -> AsyncIterator[LimitedReader]:
    reader = LimitedReader(plan, **more)
    try:
        yield reader
    finally:
        await reader.close()
    assert not reader_processes()


def reader_processes() -> list[psutil.Process]:
    return [each for each in psutil.Process().children() if is_reading(each)]


def is_reading(process: psutil.Process) -> bool:
    try:
        return MODULE in process.cmdline()
    except psutil.Error:
        return False


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_reader, "READ_S_PER_MB", 0.1)


@pytest.mark.parametrize(
    "expression",
    [
        "//h2",
        "/html/body/h1/text()",
        "//h2[@class='title']/text()",
        '//a[contains(@class, "next") and @rel="next"]/@href',
        "//ul/li[2]/a[last()]/@href",
        "//div[starts-with(@id,'p-')][1]/span",
        "//*[@itemprop = 'price']/@content",
        ".//td[position() > 1]",
    ],
)
def test_expressions_that_only_go_down_are_harmless(expression: str) -> None:
    assert is_harmless(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "//a//b",
        "//a[count(//b) > 1]",
        "//a[b//c]",
        "//a/following::b",
        "//*[contains(., 'x')]",
        "//a | //b",
        "string(//a)",
        "//a[. = //b]",
        "//a[@x = //b/@x]",
        "//a['x]' = //b]",
        "//a[@x='y'] [count(//*)]",
        "id('x')//a",
        "",
    ],
)
def test_what_is_not_known_to_be_harmless_needs_care(expression: str) -> None:
    assert not is_harmless(expression)


@pytest.mark.parametrize(
    ("selectors", "slow"),
    [
        ({"title": "h2"}, False),
        ({"title": {"xpath": "//h2"}}, False),
        ({"title": {"xpath": "//div//h2"}}, True),
        (GROUPS, True),
        ({"products": {"css": "div", "fields": {"title": "h2"}}}, False),
    ],
)
def test_small_pages_of_harmless_plans_are_read_at_once(selectors: dict, slow: bool) -> None:
    plan = make_plan(selectors)
    assert needs_care(plan) is slow
    reader = LimitedReader(plan)
    assert reader.reads_at_once(PAGE) is not slow
    assert not reader.reads_at_once(bytes(LARGE + 1))
    assert not reader.reads_at_once(gzip.compress(PAGE))


@pytest.mark.slow
@in_a_loop
async def test_pages_are_read_as_without_a_limit() -> None:
    plan = make_plan(GROUPS, structured=True)
    usual = PageReader(plan, product="mybot")
    bodies = (
        PAGE,
        b"",
        b"\xff<not html",
        b'{"a": 1}',
        b"[" + b'{"a": [1.5, null]},' * 9000 + b"0]",
    )
    async with reader_of(plan, product="mybot") as reader:
        for body in (*bodies, PAGE + FILLER):
            for kind in ("text/html", "application/json", ""):
                more = {"content_type": kind, "robots_tags": ["nofollow", "mybot: noindex"]}
                reading = await reader.read_within_limit(body, URL, **more)
                assert reading == usual.read(body, URL, **more)
                assert reading.robots == (True, True)
        legacy = "<a href='?q=中'>".encode("gbk")
        kind = "text/html; charset=gbk"
        reading = await reader.read_within_limit(legacy, URL, content_type=kind)
        assert list(reading.links) == ["?q=%D6%D0"]


@pytest.mark.slow
@in_a_loop
async def test_large_pages_may_have_numbers_of_any_size() -> None:
    plan = make_plan({}, structured=True)
    data = b'<script type="application/ld+json">{"sku": 123456789012345678901234}</script>'
    async with reader_of(plan) as reader:
        reading = await reader.read_within_limit(PAGE + data + FILLER, URL)
    assert reading == PageReader(plan).read(PAGE + data + FILLER, URL)
    assert reading.items[0].fields["json_ld"] == [{"sku": 123456789012345678901234}]


@pytest.mark.slow
@in_a_loop
async def test_files_where_a_crawl_is_started_are_no_modules_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "selectors.py").write_text("raise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    async with reader_of(make_plan({"title": "h1"})) as reader:
        reading = await reader.read_within_limit(PAGE, URL)
    assert reading.items[0].fields["title"] == "Shop"


@pytest.mark.slow
@in_a_loop
async def test_an_expression_that_takes_for_ever_is_ended_and_the_rest_is_read() -> None:
    selectors = {"all": {"xpath": DEAR}, "title": "h1", "first": {"xpath": "//h2"}}
    async with reader_of(make_plan(selectors), read_s=0.4) as reader:
        reading = await reader.read_within_limit(PAGE, URL)
        assert reading.items[0].fields["first"] == "Tea"
        for page in (PAGE + b"<p>x</p>" * 3000, PAGE + FILLER):
            reading = await reader.read_within_limit(page, URL)
            assert reading.note.startswith("XPath found nothing: reading it took more than 0.")
            (item,) = reading.items
            assert (item.fields["title"], item.fields["first"]) == ("Shop", None)
            assert list(reading.links) == ["/tea", "/coffee"]
        reading = await reader.read_within_limit(PAGE, URL)
        assert reading.items[0].fields["first"] == "Tea"


@pytest.mark.slow
@in_a_loop
async def test_a_page_that_takes_too_long_is_unreadable_and_nothing_waits_for_it(
    short_limits: None,
) -> None:
    async with reader_of(make_plan({"title": "h1"}), read_s=0.5) as reader:
        began = time.monotonic()
        slow = asyncio.create_task(reader.read_within_limit(SLOW, URL))
        turns = 0
        while not slow.done():
            turns += 1
            await asyncio.sleep(0.01)
        reading = slow.result()
        assert reading.outcome is Outcome.UNREADABLE
        assert reading.note.startswith("reading it took more than 0.6 s of CPU")
        assert not reading.items
        assert not reading.links
        # The loop goes round while the page is read; and the wait is not the parser's half minute.
        assert turns > 10
        assert time.monotonic() - began < 20
        assert (await reader.read_within_limit(PAGE, URL)).items[0].fields["title"] == "Shop"


@pytest.mark.slow
@in_a_loop
async def test_a_page_that_needs_too_much_memory_is_unreadable_and_the_next_one_is_read() -> None:
    # Without a table each row is ignored, and the parser joins its text to that of all before.
    rows = b"<tr class=odd><td class=name>tea pot<td>19.99</tr>" * 40_000
    async with reader_of(make_plan({"title": "h1"})) as reader:
        assert (await reader.read_within_limit(PAGE, URL)).items
        (process,) = reader_processes()
        for _ in range(2):
            reading = await reader.read_within_limit(rows, URL)
            assert reading.outcome is Outcome.UNREADABLE
            assert reading.note == (
                "the HTML parser gave up: it needs more memory than the 1,000 MB that a page of "
                "2.0 MB may have; the page's mark-up is probably broken"
            )
            assert (await reader.read_within_limit(PAGE + FILLER, URL)).items
        assert reader_processes() == [process]
        assert (await reader.read_within_limit(b"<table>" + rows, URL)).outcome is Outcome.OK


@pytest.mark.slow
@in_a_loop
async def test_the_reader_process_keeps_a_memory_limit_that_was_set_for_its_crawl() -> None:
    given = 2_000_000_000
    program = f"""
import asyncio
import resource
from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.crawl.extract.limited_reader import LimitedReader
from tests.crawl.extract.test_limited_reader import FILLER, PAGE, reader_processes

async def main():
    reader = LimitedReader(make_plan({{"title": "h1"}}))
    reading = await reader.read_within_limit(PAGE + FILLER, "{URL}")
    print(reading.outcome.value, reader_processes()[0].rlimit(resource.RLIMIT_DATA)[1])
    await reader.close()

resource.setrlimit(resource.RLIMIT_DATA, ({given}, {given}))
asyncio.run(main())
"""
    crawl = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await crawl.communicate()
    assert output.decode().split() == ["ok", str(given)]


@pytest.mark.slow
@in_a_loop
async def test_a_reader_process_that_dies_costs_one_page() -> None:
    async with reader_of(make_plan({"title": "h1"})) as reader:
        assert (await reader.read_within_limit(PAGE, URL)).items
        (process,) = reader_processes()
        os.kill(process.pid, signal.SIGKILL)
        reading = await reader.read_within_limit(PAGE, URL)
        assert reading.outcome is Outcome.UNREADABLE
        assert reading.note == "the process that read it ended (exit code -9)"
        assert (await reader.read_within_limit(PAGE, URL)).items
        assert len(reader_processes()) == 1


@pytest.mark.slow
@in_a_loop
async def test_nobody_who_is_cancelled_leaves_his_answer_to_the_next() -> None:
    async with reader_of(make_plan({"title": "h1"})) as reader:
        slow = asyncio.create_task(reader.read_within_limit(SLOW, URL))
        while not reader_processes():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert (await reader.read_within_limit(PAGE, URL)).items[0].fields["title"] == "Shop"


@pytest.mark.slow
@in_a_loop
async def test_a_reader_process_ends_by_itself_when_its_crawl_is_killed() -> None:
    """Even while it reads a page for ever: the limit is the kernel's."""
    program = f"""
import asyncio
from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.crawl.extract.limited_reader import LimitedReader
from tests.crawl.extract.test_limited_reader import SLOW, reader_processes

async def main():
    reader = LimitedReader(make_plan({{}}), read_s=0.5)
    task = asyncio.create_task(reader.read_within_limit(SLOW, "{URL}"))
    await asyncio.sleep(0)
    while not reader_processes():
        await asyncio.sleep(0.01)
    print(reader_processes()[0].pid, flush=True)
    await task

asyncio.run(main())
"""
    crawl = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert crawl.stdout is not None
    pid = int(await crawl.stdout.readline())
    process = psutil.Process(pid)
    crawl.kill()
    await crawl.wait()
    async with asyncio.timeout(60):
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            await asyncio.sleep(0.05)


@pytest.mark.slow
@in_a_loop
async def test_a_machine_that_cannot_start_the_process_is_no_fault_of_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    async with reader_of(make_plan({"title": "h1"})) as reader:
        with pytest.raises(ReaderUnavailable, match="No such file or directory"):
            await reader.read_within_limit(PAGE, URL)
        monkeypatch.undo()
        assert (await reader.read_within_limit(PAGE, URL)).items
