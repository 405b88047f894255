"""Work that is begun, watched and looked after with the dashboard."""

import json
import os
import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.browsing import (
    FLOW,
    PATIENCE_MS,
    SHELF,
    Ground,
    Window,
    scrapy_project,
    wide_flow,
)

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
    expect(main.get_by_text("Obey robots.txt", exact=True)).to_be_hidden()
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
    page.get_by_label("Minute, hour, day, month, weekday *").fill("30 16 * * *")
    page.get_by_label("Time zone", exact=True).fill("Asia/Shanghai")
    expect(main.get_by_text(re.compile(r"^\w{3} .* 16:30:00 CST$")).first).to_be_visible()
    page.get_by_label("Minute, hour, day, month, weekday *").fill("99 * * * *")
    expect(page.get_by_role("alert")).to_contain_text("cron")
    page.get_by_label("Minute, hour, day, month, weekday *").fill("30 16 * * *")
    page.get_by_label("What to do", exact=True).select_option("sleep")
    page.get_by_label("Time *", exact=True).fill("0.01")
    main.get_by_role("button", name="Make a schedule").click()
    expect(page.get_by_role("heading", name="tea")).to_be_visible()
    (made,) = fleet.api.schedules(name="tea")
    assert (made.cron, made.time_zone) == ("30 16 * * *", "Asia/Shanghai")

    main.get_by_role("button", name="Pause").click()
    expect(main.get_by_role("button", name="Resume")).to_be_visible()
    page.goto("/schedules?zone=Asia%2FShanghai")
    row = page.get_by_role("row", name=re.compile("tea"))
    row.get_by_role("button", name="Resume").click()
    expect(page.locator(".calendar").get_by_role("link", name="tea").first).to_be_visible()
    expect(page.locator(".calendar").get_by_text("16:30").first).to_be_visible()
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


def test_a_workflow_is_started_with_its_form_watched_and_run_again(
    page: Page, fleet: Ground
) -> None:
    fleet.api.save_workflow(FLOW)
    page.goto("/workflows")
    main = page.get_by_role("main")
    main.get_by_role("link", name="Start a run: stock").click()
    main.get_by_label("shelves", exact=True).fill('["lamps", "kites"]')
    main.get_by_label("function *", exact=True).fill("chatter:gone")
    main.get_by_role("button", name="Start a run").click()
    expect(page).to_have_url(re.compile(r"/runs/run-"))
    run_id = page.url.rpartition("/")[2]
    graph = main.get_by_role("group", name="Graph of stock")
    for told in (
        "shelves, Completed, 2 of 2 done",
        "photos, Failed, optional",
        "save, Skipped",
        "publish, Failed",
    ):
        expect(graph.get_by_role("button", name=told, exact=True)).to_be_visible()
    assert fleet.api.workflow_run(run_id).parameters == {
        "shelves": ["lamps", "kites"],
        "function": "chatter:gone",
    }

    # By the keys alone: from the first step to the one after it, whose panel opens.
    graph.get_by_role("button", name=re.compile("^shelves")).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("step=(count|photos)"))
    graph.get_by_role("button", name=re.compile("^publish")).click()
    panel = main.get_by_role("region", name="publish")
    expect(panel.get_by_role("list", name="Attempts")).to_contain_text("attempt 1")
    expect(panel.get_by_role("link", name="Log")).to_be_visible()
    graph.get_by_role("button", name=re.compile("^save")).click()
    expect(main.get_by_role("region", name="save")).to_contain_text("parameters.save")

    main.get_by_role("button", name="Run again from what failed").click()
    page.get_by_role("dialog").get_by_role("button", name="Run again").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert fleet.api.workflow_run(run_id, wait_s=30).attempt == 2
    page.goto(f"/runs/{run_id}?tab=steps&status=failed&step=publish")
    expect(main.get_by_role("table", name="Steps").get_by_role("row")).to_have_count(3)
    main.get_by_role("button", name="Run again from here").click()
    page.get_by_role("dialog").get_by_role("button", name="Run again").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert fleet.api.workflow_run(run_id, wait_s=30).attempt == 3
    page.goto("/workflows?tab=runs&status=failed")
    expect(main.get_by_role("table", name="Runs")).to_contain_text("stock")


def test_a_run_is_seen_at_work_and_cancelled(page: Page, fleet: Ground) -> None:
    given = {"pause": 300, "shelves": ["lamps", "kites"], "function": "chatter:talk"}
    run = fleet.api.submit_workflow(FLOW, given)
    page.goto(f"/runs/{run.id}")
    main = page.get_by_role("main")
    running = main.get_by_role("button", name="shelves, Running, 0 of 2 done")
    expect(running).to_be_visible()
    main.get_by_role("button", name="Cancel the run").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the run").click()
    expect(main.get_by_role("button", name=re.compile("^shelves, Cancelled"))).to_be_visible()
    expect(main.get_by_role("button", name=re.compile("^publish, Cancelled"))).to_be_visible()


def test_a_graph_of_many_steps_is_folded_and_one_of_too_many_is_a_list(
    page: Page, fleet: Ground
) -> None:
    many = fleet.api.submit_workflow(wide_flow("many", 300))
    page.goto(f"/runs/{many.id}")
    graph = page.get_by_role("group", name="Graph of many")
    expect(graph.get_by_role("button")).to_have_count(3)
    folded = graph.get_by_role("button", name=re.compile("^branch_0 and 299 like it"))
    expect(folded).to_be_visible()
    page.get_by_label("Equal steps as one").uncheck()
    expect(graph.get_by_role("button")).to_have_count(302)
    page.get_by_role("button", name="Show all").click()
    graph.get_by_role("button", name=re.compile("^branch_299,")).click()
    expect(page.get_by_role("region", name="branch_299")).to_contain_text("Waiting")
    fleet.api.cancel_run(many.id)

    most = 10_000 if os.environ.get("CRAWLFLEET_SOAK") else 600
    endless = fleet.api.submit_workflow(wide_flow("endless", most - 2))
    page.goto(f"/runs/{endless.id}")
    table = page.get_by_role("table", name="Steps")
    expect(table.get_by_role("row")).to_have_count(201)
    page.get_by_role("button", name="Show more steps").click()
    expect(table.get_by_role("row")).to_have_count(401)
    page.get_by_label("State", exact=True).select_option("running")
    expect(table.get_by_role("row")).to_have_count(2)
    table.get_by_role("button", name="start").click()
    expect(page.get_by_role("region", name="start")).to_contain_text("nobodys")
    fleet.api.cancel_run(endless.id)


def test_a_webhook_is_made_and_what_was_given_up_is_sent_again(page: Page, fleet: Ground) -> None:
    page.goto("/webhooks")
    main = page.get_by_role("main")
    main.get_by_role("button", name="Make a webhook").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("failures")
    dialog.get_by_label("Address", exact=True).fill("http://127.0.0.1:9/in")
    dialog.get_by_label("Kinds of events").fill("task.completed")
    dialog.get_by_role("button", name="Make a webhook").click()
    secret = dialog.locator(".command code")
    expect(secret).to_have_text(re.compile("^[0-9a-f]{64}$"))
    dialog.get_by_role("button", name="I have copied it").click()
    expect(page).to_have_url(re.compile("/webhooks/hook-"))

    fleet.api.submit("sleep", {"seconds": 0.01})
    table = main.get_by_role("table", name="Deliveries")
    # Loopback is refused by the guard, and so it is given up at once.
    expect(table.get_by_text("Given up").first).to_be_visible()
    main.get_by_role("button", name="Pause: failures").click()
    expect(main.get_by_role("button", name="Resume: failures")).to_be_visible()
    table.get_by_role("button", name=re.compile("^Send again")).last.click()
    expect(table.get_by_text("Waiting").first).to_be_visible()
    main.get_by_role("button", name="Resume: failures").click()
    expect(table.get_by_text("Waiting")).to_have_count(0)
    table.get_by_role("button", name="task.completed").first.click()
    expect(dialog.get_by_role("group", name="What is sent")).to_contain_text('"failures"')
    dialog.get_by_role("button", name="Close").click()
    main.get_by_role("button", name="Remove").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(page).to_have_url(re.compile("/webhooks$"))


def test_rules_for_alerts_are_made_changed_and_silenced(page: Page, fleet: Ground) -> None:
    page.goto("/alerts")
    main = page.get_by_role("main")
    dialog = page.get_by_role("dialog")
    main.get_by_role("button", name="Make a rule").click()
    dialog.get_by_label("Name", exact=True).fill("done")
    dialog.get_by_label("What is watched").select_option("events")
    dialog.get_by_label("Kind of events").fill("task.completed")
    dialog.get_by_label("Limit", exact=True).fill("0")
    dialog.get_by_role("button", name="Make a rule").click()
    expect(main.get_by_role("row", name=re.compile("done"))).to_contain_text("more than 0")
    fleet.api.submit("sleep", {"seconds": 0.01})
    expect(main.get_by_role("list", name="Firing")).to_contain_text("done")

    main.get_by_role("button", name="Silence: done").click()
    dialog.get_by_label("Why").fill("it is meant to")
    dialog.get_by_role("button", name="Silence").click()
    row = main.get_by_role("row", name=re.compile("done"))
    expect(row).to_contain_text("it is meant to")
    main.get_by_role("button", name="Lift the silence: done").click()
    expect(row).not_to_contain_text("it is meant to")

    main.get_by_role("button", name="Change: queue-age").click()
    dialog.get_by_label("Limit", exact=True).fill("1800")
    dialog.get_by_role("button", name="Save").click()
    changed = main.get_by_role("row", name=re.compile("queue-age"))
    expect(changed).to_contain_text("more than 30 m")
    main.get_by_role("button", name="Remove: done").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(main.get_by_role("row", name=re.compile("done"))).to_have_count(0)


def test_what_was_measured_is_looked_at_and_accepted(page: Page, fleet: Ground) -> None:
    shelf = {"html": SHELF, "selectors": {"product": "div", "title": "h2", "price": "b"}}
    expected = {"series": "shelf", "on_drift": "hold", "fields": {"fields.price": {"empty": 0.1}}}
    task = fleet.api.submit("extract", shelf, expectations=expected)
    page.goto("/quality")
    main = page.get_by_role("main")
    main.get_by_role("link", name="shelf").click()
    row = main.get_by_role("table", name="Measured runs").get_by_role("row").nth(1)
    expect(row).to_contain_text("price")
    expect(
        main.get_by_role("img", name="Share of items without a value: fields.price")
    ).to_be_visible()
    row.get_by_role("button", name=re.compile("^Accept")).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Why").fill("lamps have none")
    dialog.get_by_role("button", name="Accept").click()
    expect(row).to_contain_text("accepted")
    page.goto(f"/tasks/{task.id}")
    expect(main.get_by_role("region", name="Quality")).to_contain_text("price")


def test_quotas_are_shown_and_changed(page: Page, fleet: Ground) -> None:
    fleet.api.create_project("tight")
    page.goto("/quotas")
    card = page.get_by_role("region", name="tight")
    expect(card).to_contain_text("no limit")
    card.get_by_role("button", name="Change the quotas of tight").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Executions at work").fill("4")
    dialog.get_by_label("Weight").fill("2.5")
    dialog.get_by_label("Nodes for this project alone").fill("pool=tight")
    dialog.get_by_role("button", name="Save").click()
    expect(card).to_contain_text("0 / 4")
    expect(card).to_contain_text("weight 2.5")
    expect(card.get_by_role("meter", name="Executions at work")).to_be_visible()
    view = fleet.api.project_quotas("tight")
    assert (view.weight, view.nodes) == (2.5, {"pool": "tight"})


def test_a_viewer_sees_the_same_and_can_order_nothing(window: Window, fleet: Ground) -> None:
    run = fleet.api.submit_workflow(FLOW, {"function": "chatter:talk"})
    fleet.api.create_webhook("seen", "https://hooks.example/in", kinds=["none."])
    made = fleet.api.create_key("onlooker", "viewer")
    page = window.page
    page.goto("/")
    page.get_by_label("API key").fill(made.secret)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("navigation", name="Main").wait_for()
    verbs = re.compile("^(Start|Cancel the|Run again|Make|Change|Silence|Switch|Pause|Remove|Send)")
    main = page.get_by_role("main")
    for path, seen in (
        ("/workflows", "stock"),
        (f"/workflows/{run.workflow_id}?tab=start", "stock"),
        (f"/runs/{run.id}?step=publish", "All tasks of the run"),
        ("/workflows?tab=runs", "Took"),
        ("/webhooks", "seen"),
        ("/alerts", "node-lost"),
        ("/quotas", "default"),
    ):
        page.goto(path)
        expect(main.get_by_text(seen).first).to_be_visible()
        expect(main.get_by_role("button", name=verbs)).to_have_count(0)
        expect(main.get_by_role("link", name=verbs)).to_have_count(0)
