"""XPath that could take for ever: told from what cannot, and ended where it does."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from crawlfleet.core.selectors import make_plan
from crawlfleet.core.xpath import is_harmless, needs_care
from crawlfleet.crawl.careful import CarefulReader, reader_of
from crawlfleet.crawl.reading import PageReader

PAGE = b"""<html><body><h1>Shop</h1>
<div class="product" id="1"><h2>Tea</h2><a href="/tea">more</a></div>
<div class="product" id="2"><h2>Coffee</h2><a href="/coffee">more</a></div></body></html>"""
URL = "https://shop.example/"
GROUPS = {"products": {"xpath": "//div[@class='product']", "fields": {"title": ".//h2"}}}
DEAR = "//*[count(//*[count(//*[count(//*) > 1]) > 1]) > 1]"


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
    ("selectors", "careful"),
    [
        ({"title": "h2"}, False),
        ({"title": {"xpath": "//h2"}}, False),
        ({"title": {"xpath": "//div//h2"}}, True),
        (GROUPS, True),
        ({"products": {"css": "div", "fields": {"title": "h2"}}}, False),
    ],
)
def test_only_plans_that_need_care_get_a_process(selectors: dict, careful: bool) -> None:
    plan = make_plan(selectors)
    assert needs_care(plan) is careful
    assert isinstance(reader_of(plan), CarefulReader) is careful


@pytest.mark.slow
def test_pages_are_read_as_without_care() -> None:
    plan = make_plan(GROUPS, structured=True)
    careful = CarefulReader(plan, product="mybot")
    usual = PageReader(plan, product="mybot")
    for body in (PAGE, b"", b"\xff<not html", b'{"a": 1}'):
        for kind in ("text/html", "application/json", ""):
            more = {"content_type": kind, "robots_tags": ["nofollow", "mybot: noindex"]}
            reading = careful.read(body, URL, **more)
            assert reading == usual.read(body, URL, **more)
            assert reading.robots == (True, True)


@pytest.mark.slow
def test_an_expression_that_takes_for_ever_is_ended_and_the_rest_is_read() -> None:
    selectors = {"all": {"xpath": DEAR}, "title": "h1", "first": {"xpath": "//h2"}}
    reader = CarefulReader(make_plan(selectors), within_s=1.0)
    assert reader.read(PAGE, URL).items[0].fields["first"] == "Tea"

    large = PAGE.replace(b"</body>", b"<p>x</p>" * 3000 + b"</body>")
    began = time.monotonic()
    reading = reader.read(large, URL)
    assert time.monotonic() - began < 30
    assert reading.note == "an XPath took more than 1 s, and all of them found nothing"
    (item,) = reading.items
    assert (item.fields["title"], item.fields["first"]) == ("Shop", None)
    assert list(reading.links) == ["/tea", "/coffee"]

    assert reader.read(PAGE, URL).items[0].fields["first"] == "Tea"


KILLED_WHILE_IT_READS = """
import os, sys, threading, time
import psutil
from crawlfleet.core.selectors import make_plan
from crawlfleet.crawl.careful import CarefulReader

page, large = sys.argv[2].encode(), sys.argv[2].encode() + b"<p>x</p>" * 3000
reader = CarefulReader(make_plan({"all": {"xpath": sys.argv[1]}}), within_s=0.5)
reader.read(page, "https://shop.example/")
[clerk] = psutil.Process().children()
print(clerk.pid, flush=True)
threading.Timer(0.2, os.kill, (os.getpid(), 9)).start()
reader.read(large, "https://shop.example/")
"""


@pytest.mark.slow
def test_what_reads_for_a_process_that_was_killed_ends_too() -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_IT_READS, DEAR, PAGE.decode()],
        stdout=subprocess.PIPE,  # which the other process holds until it ends, too
        check=False,
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(killed.stdout)).wait(60)


def children() -> set[psutil.Process]:
    """The processes that read for this one."""
    return {each for each in psutil.Process().children() if is_reading(each)}


def is_reading(process: psutil.Process) -> bool:
    try:
        return "crawlfleet.crawl.clerk" in process.cmdline()
    except psutil.Error:
        return False


@pytest.mark.slow
def test_a_process_that_dies_costs_one_page_and_none_is_left_behind() -> None:
    others = children()
    reader = CarefulReader(make_plan(GROUPS))
    assert len(reader.read(PAGE, URL).items) == 2
    (child,) = children() - others
    os.kill(child.pid, signal.SIGKILL)
    assert "broke off" in reader.read(PAGE, URL).note
    assert len(reader.read(PAGE, URL).items) == 2
    assert len(children() - others) == 1
    del reader
    gc.collect()
    assert children() <= others
