"""Work that is begun, watched and looked after with the dashboard."""

import json
import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.browsing import PATIENCE_MS, Ground, Window, scrapy_project

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("dashboard"),
]
expect.set_options(timeout=PATIENCE_MS)
HTML = "<div class=product><h2>Kite</h2><b>9</b></div><div class=product><h2>Lamp</h2></div>"


def choose_type(page: Page, name: str) -> None:
    page.goto(f"/submit?type={name}")
    expect(page.get_by_label("What to do", exact=True)).to_have_value(name)


def test_a_task_is_submitted_with_the_form_of_its_type(page: Page, fleet: Ground) -> None:
    choose_type(page, "sleep")
    page.get_by_label("Time *", exact=True).fill("0.25")
    page.get_by_role("main").get_by_role("button", name="Submit").click()
    expect(page).to_have_url(re.compile(r"/tasks/task-"))
    task = fleet.api.task(page.url.rpartition("/")[2].partition("?")[0])
    assert (task.task_type, task.parameters) == ("sleep", {"seconds": 0.25})
    expect(page.get_by_role("main").get_by_text("Completed").first).to_be_visible()


def test_what_the_master_refuses_is_told_beside_the_field(page: Page, fleet: Ground) -> None:
    choose_type(page, "http_fetch")
    page.get_by_label("Addresses *", exact=True).fill(fleet.shop)
    page.get_by_role("main").locator("summary", has_text="Limits").click()
    page.get_by_label("Time for the request", exact=True).fill("30")
    page.get_by_label("Time for the request", exact=True).evaluate("field => { field.min = ''; }")
    page.get_by_label("Time for the request", exact=True).fill("-5")
    page.get_by_role("main").get_by_role("button", name="Submit").click()
    expect(page.locator(".wrong").first).to_be_visible()
    expect(page).to_have_url(re.compile("/submit"))


def test_selectors_are_tried_before_a_crawl_is_made_of_them(page: Page) -> None:
    page.goto("/submit?tab=selectors")
    page.get_by_text("HTML", exact=True).first.click()
    page.get_by_role("textbox", name="HTML").fill(HTML)
    selectors = {"product": "div.product", "title": "h2", "price": "b"}
    for number, (name, selector) in enumerate(selectors.items(), start=1):
        if page.get_by_label(f"Name {number}", exact=True).count() == 0:
            page.get_by_role("button", name="Add a line").click()
        page.get_by_label(f"Name {number}", exact=True).fill(name)
        page.get_by_label(f"Selector {number}", exact=True).fill(selector)
    page.get_by_role("button", name="Try them").click()
    main = page.get_by_role("main")
    expect(main.get_by_text("2 items")).to_be_visible()
    for text in ("Kite", "Lamp"):
        expect(main.get_by_text(text, exact=True).first).to_be_visible()


def test_a_crawl_is_ordered_with_words_that_people_use(page: Page, fleet: Ground) -> None:
    choose_type(page, "web_crawl")
    main = page.get_by_role("main")
    page.get_by_label("Addresses to begin with *", exact=True).fill(f"{fleet.shop}category/kites/")
    page.get_by_label("Depth", exact=True).fill("1")
    page.get_by_label("Most pages", exact=True).fill("5")
    page.get_by_label("Name 1", exact=True).first.fill("title")
    page.get_by_label("Selector 1", exact=True).fill("h2.title")
    main.get_by_role("button", name="Try them").click()
    expect(main.get_by_text(re.compile(r"^title: \d+$"))).to_be_visible()
    expect(main.get_by_text("Obey robots.txt")).to_be_hidden()
    main.locator("summary", has_text="Politeness").click()
    page.get_by_label("Pause between requests", exact=True).fill("0")
    page.get_by_label("Obey robots.txt", exact=True).uncheck()
    main.locator("summary", has_text="Fetching").click()
    page.get_by_label("Visit private addresses", exact=True).check()
    main.get_by_role("button", name="Submit").click()
    expect(page).to_have_url(re.compile(r"/crawls/task-"))
    task = fleet.api.task(page.url.rpartition("/")[2].partition("?")[0])
    assert task.parameters == {
        "url": f"{fleet.shop}category/kites/",
        "depth": 1,
        "limits": {"max_pages": 5},
        "selectors": {"title": "h2.title"},
        "politeness": {"delay_s": 0, "obey_robots": False},
        "fetching": {"allow_private": True},
    }


def test_the_form_speaks_chinese(page: Page) -> None:
    page.get_by_label("Language").first.select_option("zh-CN")
    page.goto("/submit?type=web_crawl")
    expect(page.get_by_label("起始地址 *", exact=True)).to_be_visible()
    expect(page.get_by_text("0 只取起始地址", exact=False)).to_be_visible()
    expect(page.get_by_text("遵守 robots.txt")).to_be_hidden()


def test_a_crawl_is_watched_and_steered(page: Page, fleet: Ground) -> None:
    page.goto(f"/crawls/{fleet.crawl}")
    main = page.get_by_role("main")
    expect(main.get_by_text("Pages per second")).to_be_visible()
    figures = page.locator(".figures")
    before = figures.inner_text()
    page.wait_for_function(
        "before => document.querySelector('.figures').innerText !== before", arg=before
    )
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(main.get_by_role("button", name="Resume", exact=True)).to_be_visible()
    main.get_by_role("button", name="Resume", exact=True).click()
    expect(main.get_by_role("button", name="Pause", exact=True)).to_be_visible()

    page.goto(f"/crawls/{fleet.crawl}?tab=url")
    page.get_by_label("Address").fill(f"{fleet.shop}category/kites/")
    page.get_by_role("button", name="Look up").click()
    expect(main.get_by_text("category/kites").first).to_be_visible()


def test_the_items_of_a_crawl_are_shown_and_downloaded(page: Page, fleet: Ground) -> None:
    kites = ("1100-willow-kite", "1101-dusky-box-kite", "1102-walnut-windsock")
    parameters = {
        "urls": [f"{fleet.shop}product/{kite}" for kite in kites],
        "depth": 0,
        "selectors": {"product": "div.product", "title": "h2.title", "price": "span.price"},
        "politeness": {"delay_s": 0, "concurrency": 4},
        "fetching": {"allow_private": True},
    }
    task = fleet.api.submit("web_crawl", parameters, priority=10)
    until = time.monotonic() + PATIENCE_MS / 1000 * 4
    while fleet.api.task(task.id).status != "completed":
        assert time.monotonic() < until, fleet.api.task(task.id)
        time.sleep(0.2)
    page.goto(f"/crawls/{task.id}?tab=items")
    expect(page.get_by_role("columnheader", name="title")).to_be_visible()
    with page.expect_download() as started:
        page.get_by_role("link", name="JSONL").click()
    lines = started.value.path().read_text("utf-8").splitlines()
    assert len(lines) >= 3
    assert all(isinstance(json.loads(line), dict) for line in lines)


def test_a_join_token_comes_with_the_line_to_paste(page: Page, fleet: Ground) -> None:
    page.goto("/settings/join-tokens")
    page.get_by_role("button", name="Make a join token").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Make a join token").click()
    expect(page.get_by_text("Paste this on the new machine")).to_be_visible()
    line = page.get_by_role("dialog").inner_text()
    found = re.search(r"JOIN_TOKEN=([0-9a-f]{64}) crawlfleet worker --master (\S+)", line)
    assert found, line
    assert found[2] == fleet.url
    assert any(each.status == "live" for each in fleet.api.join_tokens())


def test_dead_letters_are_sent_back(page: Page, fleet: Ground) -> None:
    task = fleet.api.submit("http_fetch", {"url": "http://192.0.2.1:9/"}, max_retries=0, timeout=1)
    until = time.monotonic() + PATIENCE_MS / 1000
    while fleet.api.task(task.id).status not in {"failed", "timeout"}:
        assert time.monotonic() < until
        time.sleep(0.2)
    page.goto("/dead-letters")
    expect(page.get_by_role("row").nth(1)).to_be_visible()
    page.get_by_role("button", name="Send all back").click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile("^Send")).last.click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    requeued = [each.cause for each in fleet.api.events(task.id) if each.to_state == "pending"]
    assert len(requeued) == 2


def test_events_come_live_and_can_be_searched(page: Page, fleet: Ground) -> None:
    page.goto("/events")
    log = page.get_by_role("log", name="Events")
    expect(log).to_be_visible()
    task = fleet.api.submit("sleep", {"seconds": 0.01})
    page.get_by_label("Search events").fill(task.id)
    expect(log.get_by_text("task.completed").first).to_be_visible()


def test_an_operator_sees_no_settings_that_are_not_theirs(window: Window, fleet: Ground) -> None:
    made = fleet.api.create_key("worker-bee", "operator", project_id="naps")
    page = window.page
    page.goto("/")
    page.get_by_label("API key").fill(made.secret)
    page.get_by_role("button", name="Sign in").click()
    nav = page.get_by_role("navigation", name="Main")
    expect(nav.get_by_role("link", name="Tasks")).to_be_visible()
    expect(nav.get_by_role("link", name="Nodes")).to_have_count(0)
    page.goto("/settings/keys")
    expect(page.get_by_role("main")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Make"))).to_have_count(0)


def test_code_is_dropped_on_the_page_rolled_back_and_chosen_for_a_task(
    page: Page, fleet: Ground
) -> None:
    page.goto("/bundles")
    main = page.get_by_role("main")
    for number in (1, 2):
        archive = {
            "name": "quotes.zip",
            "mimeType": "application/zip",
            "buffer": scrapy_project(number),
        }
        page.locator("input[type=file]").set_input_files(archive)  # type: ignore[arg-type]
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_label("Name", exact=True)).to_have_value("quotes")
        dialog.get_by_label("What is new").fill(f"number {number}")
        dialog.get_by_role("button", name="Deploy").click()
        expect(main.get_by_text(f"number {number}")).to_be_visible()
    expect(page).to_have_url(re.compile("/bundles/default/quotes$"))
    main.get_by_role("button", name="Roll back @1").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(main.get_by_role("button", name="Go forward @2")).to_be_visible()
    assert fleet.api.bundle("quotes").current == 1

    main.get_by_role("link", name="Run it").click()
    expect(page.get_by_label("Bundle *", exact=True)).to_have_value("quotes")
    page.get_by_label("Version", exact=True).select_option("2")
    spider = page.get_by_label("Spider *", exact=True)
    names = spider.evaluate("field => [...field.list.options].map(each => each.value)")
    assert names == ["authors", "quotes"]
    spider.fill("authors")
    main.get_by_role("button", name="Submit").click()
    expect(page).to_have_url(re.compile(r"/tasks/task-"))
    task = fleet.api.task(page.url.rpartition("/")[2].partition("?")[0])
    assert (task.bundle, task.parameters) == ("quotes@2", {"spider": "authors"})


def test_a_schedule_is_made_with_a_preview_and_looked_after(page: Page, fleet: Ground) -> None:
    page.goto("/schedules/new")
    main = page.get_by_role("main")
    page.get_by_label("Name *", exact=True).fill("tea")
    page.get_by_label("Minute, hour, day, month, weekday *").fill("30 16 * * mon")
    page.get_by_label("Time zone", exact=True).fill("Asia/Shanghai")
    expect(main.get_by_text(re.compile(r"^Mon .* 16:30:00 CST$")).first).to_be_visible()
    page.get_by_label("Minute, hour, day, month, weekday *").fill("99 * * * *")
    expect(page.get_by_role("alert")).to_contain_text("cron")
    page.get_by_label("Minute, hour, day, month, weekday *").fill("30 16 * * mon")
    page.get_by_label("What to do", exact=True).select_option("sleep")
    page.get_by_label("Time *", exact=True).fill("0.01")
    main.get_by_role("button", name="Make a schedule").click()
    expect(page.get_by_role("heading", name="tea")).to_be_visible()
    (made,) = fleet.api.schedules(name="tea")
    assert (made.cron, made.time_zone) == ("30 16 * * mon", "Asia/Shanghai")

    main.get_by_role("button", name="Pause").click()
    expect(main.get_by_role("button", name="Resume")).to_be_visible()
    page.goto("/schedules?zone=Asia%2FShanghai")
    row = page.get_by_role("row", name=re.compile("tea"))
    row.get_by_role("button", name="Resume").click()
    expect(page.locator(".calendar").get_by_role("link", name="tea")).to_be_visible()
    expect(page.locator(".calendar").get_by_text("16:30")).to_be_visible()
    row.get_by_role("button", name="Run now").click()
    expect(row).to_contain_text("Started")
    page.goto(f"/schedules/{made.id}")
    expect(main.get_by_role("table", name="History")).to_contain_text("hand")


def test_the_isolation_of_nodes_is_told(page: Page, fleet: Ground) -> None:
    level = f"L{fleet.node('ant-1').capabilities['isolation']:.0f}"
    page.goto("/nodes")
    row = page.get_by_role("row", name=re.compile("ant-1"))
    expect(row.get_by_text(level, exact=True)).to_be_visible()
    page.goto(f"/nodes/{fleet.node('ant-1').id}")
    card = page.get_by_role("region", name="Isolation")
    expect(card.get_by_text(level, exact=True)).to_be_visible()
    expect(card.get_by_text("limits of each process")).to_be_visible()
    expect(card.get_by_text("What is missing, and why")).to_be_visible()
