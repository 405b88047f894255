"""A crawl that several nodes share, as its page shows it: who does what, and who may ask whom."""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from crawlfleet.testing.known_site import ServedSite, SiteSpec
from tests.dashboard.browsing import PATIENCE_MS, PICTURES, Ground, Window
from tests.dashboard.payloads import PAYLOADS
from tests.dashboard.test_strangers import Voice, check

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("dashboard"),
]
expect.set_options(timeout=PATIENCE_MS)
SITE = SiteSpec(pages=4000, hosts=5, links=12, page_bytes=1500, latency_ms=20)
POLITE = {"delay_s": 1.0, "obey_robots": False, "per_domain": None, "per_address": None}


def submitted(fleet: Ground, site: ServedSite, **parameters: Any) -> str:
    request = {
        "url": site.spec.url(0),
        "scope": {"within": "any"},
        "politeness": POLITE,
        "fetching": {"allow_private": True},
        **parameters,
    }
    return str(fleet.api.submit("web_crawl", request, priority=9).id)


@pytest.fixture(scope="module", autouse=True)
def small(fleet: Ground) -> str:
    """A crawl of one page, which is over when all else here has been looked at."""
    parameters = {
        "url": fleet.shop,
        "depth": 0,
        "politeness": {"delay_s": 0},
        "fetching": {"allow_private": True},
    }
    return str(fleet.api.submit("web_crawl", parameters, priority=10).id)


@pytest.fixture(scope="module")
def crawls(fleet: Ground) -> Iterator[tuple[str, str]]:
    """One that is shared by three, and another that visits the same hosts."""
    with ServedSite(SITE) as site:
        shared = submitted(fleet, site, workers=3)
        other = submitted(fleet, site)
        until = time.monotonic() + PATIENCE_MS / 1000 * 2
        while True:
            work = fleet.api.crawl_work(shared)
            held = [each for each in work.shards if each.hosts]
            contested = [each for each in work.keys if each.visitors_total > 1]
            if len(held) >= 2 and contested:
                break
            assert time.monotonic() < until, work
            time.sleep(0.2)
        yield shared, other
        for id in (shared, other):
            fleet.api.act(id, "cancel")


def table(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name=name).get_by_role("table")


def test_what_nodes_say_of_hosts_is_text(window: Window, fleet: Ground) -> None:
    voice = Voice(fleet, "ledger", "ledger", "web_crawl")
    request = {"url": "https://shop.example/"}
    pinned = {"said": ["ledger"]}
    task = fleet.api.submit("web_crawl", request, capabilities=pinned, priority=10)
    (taken,) = voice.take(1)
    named = {name: taken[name] for name in ("execution_id", "token")}
    started = {**named, "task_id": taken["task_id"], "kind": "started", "at": time.time()}
    voice.say("report", reports=[started])
    wants = [
        {"host": text, "keys": [{"key": f"host:{text}", "delay_s": 1.0, "concurrency": 1}]}
        for text in PAYLOADS
    ]
    pauses = [{"key": f"host:{text}", "for_s": 600.0, "why": text} for text in PAYLOADS]
    asked = voice.request("ledger", **named, payload={"wants": wants, "pauses": pauses})
    assert not asked.get("refusal"), asked
    work = fleet.api.crawl_work(task.id)
    assert {each.pause for each in work.keys} == {*PAYLOADS}

    page = window.sign_in(fleet.link)
    page.goto(f"/crawls/{task.id}?tab=work")
    rows = table(page, "What the fleet allows, by host").locator("tbody tr")
    expect(rows).to_have_count(len({*PAYLOADS}))
    expect(rows.filter(has_text="<script>window.pwned=1</script>").first).to_be_visible()
    check(page)
    fleet.api.act(task.id, "cancel")
    fleet.api.order(voice.id, "unregister")


def test_shards_partitions_and_the_ledger_are_shown(
    page: Page, fleet: Ground, crawls: tuple[str, str]
) -> None:
    shared, other = crawls
    page.goto(f"/crawls/{shared}")
    page.get_by_role("link", name="Who does what").click()
    shards = table(page, "Shards").locator("tbody tr")
    expect(shards).to_have_count(3)
    for number in range(3):
        row = shards.nth(number)
        expect(row).to_contain_text(f"Shard {number}")
        expect(row).to_contain_text("Running")
        expect(row.get_by_role("link", name=re.compile("^ant-"))).to_be_visible()
    partitions = table(page, "Partitions of the frontier").locator("tbody tr")
    expect(partitions).to_have_count(1)
    expect(partitions.first).to_contain_text(re.compile(r"Shard \d · \d hosts?"))
    hosts = table(page, "Hosts with the longest queues").locator("tbody tr")
    expect(hosts).to_have_count(SITE.hosts)
    expect(hosts.filter(has_text="Shard").first).to_be_visible()
    ledger = table(page, "What the fleet allows, by host")
    expect(ledger.locator("tbody tr").filter(has_text="127.0.0.").first).to_contain_text("1 s")
    ledger.get_by_role("link").first.click()
    expect(page).to_have_url(re.compile(f"/crawls/{other}"))
    expect(page.get_by_role("main").get_by_text("Pages per second").first).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_has_its_picture_in_both_languages(
    theme: str, browser: Browser, fleet: Ground, crawls: tuple[str, str]
) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    window = Window(browser, fleet.url, color_scheme=theme, reduced_motion="reduce")
    page = window.sign_in(fleet.link)
    for language, words in (("en", "Shards"), ("zh-CN", "分片")):
        page.get_by_label(re.compile("Language|语言")).first.select_option(language)
        page.goto(f"/crawls/{crawls[0]}?tab=work")
        expect(page.get_by_role("heading", name=words, exact=True)).to_be_visible()
        expect(page.locator(".skeleton")).to_have_count(0)
        page.wait_for_timeout(300)
        page.screenshot(path=PICTURES / f"shared-{language}-{theme}.png", full_page=True)
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    window.context.close()
    assert window.wrongs == []


def test_a_crawl_that_is_over_says_so(page: Page, fleet: Ground, small: str) -> None:
    until = time.monotonic() + 120
    while fleet.api.crawl(small).state != "completed" or fleet.api.crawl_work(small).hosts:
        assert time.monotonic() < until, (fleet.api.crawl(small), fleet.api.hosts())
        time.sleep(0.2)
    page.goto(f"/crawls/{small}?tab=work")
    expect(page.get_by_text("Nobody works with its frontier now").first).to_be_visible()
    expect(table(page, "Shards").locator("tbody tr")).to_have_count(1)
