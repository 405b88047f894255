"""What people do with the dashboard, done in a real browser on a fleet with a running crawl."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.dashboard.browsing import PATIENCE_MS, Ground, Window

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("dashboard"),
]
expect.set_options(timeout=PATIENCE_MS)


def open_page(page: Page, name: str) -> None:
    """Go there as people do."""
    page.get_by_role("navigation", name="Main").get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def row(page: Page, text: str) -> Locator:
    return page.get_by_role("row").filter(has_text=text)


def test_the_printed_link_signs_in_once_and_leaves_no_trace(
    window: Window, browser: Browser, fleet: Ground
) -> None:
    link = fleet.printed_link()
    page = window.sign_in(link)
    expect(page).to_have_url(f"{fleet.url}/")
    (cookie,) = window.context.cookies()
    assert cookie["name"] == "crawlfleet_session"
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("JSON.stringify({...localStorage}) + history.length").count("open") == 0

    other = Window(browser, fleet.url)
    other.page.goto(link)
    expect(other.page.get_by_role("button", name="Sign in")).to_be_visible()
    other.context.close()
    assert other.wrongs == []


def test_a_key_signs_in_and_a_wrong_one_is_told(window: Window, fleet: Ground) -> None:
    page = window.page
    page.goto("/nodes")
    page.get_by_label("API key").fill("0" * 64)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("This key is not good")).to_be_visible()
    page.get_by_label("API key").fill(fleet.fleet.key)
    page.get_by_role("button", name="Sign in").click()
    # Where they wanted to go in the first place.
    expect(page.get_by_role("heading", name="Nodes", level=1)).to_be_visible()
    expect(row(page, "ant-1")).to_be_visible()


def test_signing_out_and_a_revoked_key_end_the_session(
    window: Window, browser: Browser, fleet: Ground
) -> None:
    made = fleet.api.create_key("short-lived", "operator")
    page = window.page
    page.goto("/tasks")
    page.get_by_label("API key").fill(made.secret)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Tasks", level=1)).to_be_visible()
    fleet.api.revoke_key(made.key.id)
    expect(page.get_by_label("API key")).to_be_visible()

    page = window.sign_in(fleet.link)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    page.reload()
    expect(page.get_by_label("API key")).to_be_visible()


def test_numbers_change_by_themselves(page: Page, fleet: Ground) -> None:
    figures = page.locator(".figures")
    expect(figures).to_be_visible()
    before = figures.inner_text()
    fleet.api.submit_batch([{"task_type": "sleep", "parameters": {"seconds": 0.05}}] * 40)
    page.wait_for_function(
        "before => document.querySelector('.figures').innerText !== before", arg=before
    )
    expect(page.get_by_text("Live", exact=True).first).to_be_visible()
    page.goto(f"/tasks/{fleet.crawl}")
    meter = page.get_by_role("meter").or_(page.get_by_role("progressbar")).first
    expect(meter).to_be_visible()
    shown = page.locator("main").inner_text()
    page.wait_for_function("shown => document.querySelector('main').innerText !== shown", arg=shown)


def test_a_task_that_waits_is_explained(page: Page, fleet: Ground) -> None:
    task = fleet.api.submit("render_video", {"title": "nobody can"})
    page.goto(f"/tasks/{task.id}")
    tabs = page.get_by_role("navigation", name="Tasks")
    tabs.get_by_role("link", name="Explain").click()
    main = page.get_by_role("main")
    expect(main.get_by_text("without an executor for the task type").first).to_be_visible()
    for name in ("ant-1", "ant-2"):
        expect(main.get_by_text(name).first).to_be_visible()
    page.reload()
    expect(main.get_by_text("without an executor for the task type").first).to_be_visible()
    # It is also the first thing on the overview, with the way to it.
    page.goto("/")
    attention = page.get_by_role("listitem").filter(has_text="render_video")
    expect(attention).to_be_visible()
    attention.get_by_role("link").click()
    expect(page).to_have_url(re.compile(f"/tasks/{task.id}"))
    fleet.api.act(task.id, "cancel")


def test_a_node_is_drained_and_resumed(page: Page, fleet: Ground) -> None:
    node = fleet.node("ant-3")
    fleet.api.submit_batch(
        [{"task_type": "sleep", "parameters": {"seconds": 600}, "project_id": "naps"}] * 12
    )
    open_page(page, "Nodes")
    mine = row(page, "ant-3")
    mine.get_by_role("button", name="Drain").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("ant-3")
    dialog.get_by_role("button", name="Drain").click()
    expect(mine).to_contain_text("Draining")
    assert fleet.api.node(node.id).status == "draining"
    mine.get_by_role("button", name="Resume").click()
    expect(mine).to_contain_text("Online")
    assert fleet.api.node(node.id).status == "online"
    fleet.api.act_on("cancel", project_id="naps")


def test_tasks_are_cancelled_in_bulk_after_a_question(page: Page, fleet: Ground) -> None:
    fleet.api.submit_batch([{"task_type": "nobodys", "project_id": "bulk"}] * 7)
    page.goto("/tasks?project=bulk")
    expect(row(page, "nobodys")).to_have_count(7)
    page.get_by_role("checkbox", name="Choose all that are shown").check()
    orders = page.get_by_role("region", name="Orders for the chosen tasks")
    expect(orders).to_contain_text("7 chosen")
    orders.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Go back").click()
    assert {each.status for each in fleet.api.tasks(project_id="bulk")} == {"pending"}

    orders.get_by_role("button", name="Cancel").click()
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("7 changed, 0 refused")).to_be_visible()
    assert {each.status for each in fleet.api.tasks(project_id="bulk")} == {"cancelled"}
    expect(row(page, "nobodys").filter(has_text="Cancelled")).to_have_count(7)


def test_a_log_is_read_while_it_is_written(page: Page, fleet: Ground) -> None:
    task = fleet.api.submit("python", {"function": "chatter:talk", "args": [30]}, priority=10)
    page.goto(f"/tasks/{task.id}?tab=log")
    log = page.get_by_role("log")
    expect(log).to_contain_text("line 3 of 30")
    expect(log).not_to_contain_text("line 29 of 30", timeout=1)
    expect(log).to_contain_text("line 29 of 30")

    page.get_by_label("Search the log").fill("LINE 7 of")
    expect(page.get_by_role("main")).to_contain_text("1 line fits")
    expect(log.locator("mark")).to_have_text("line 7 of")
    page.get_by_role("button", name="regular expression").click()
    page.get_by_label("Search the log").fill("^line [12][0-9] of")
    expect(page.get_by_role("main")).to_contain_text("20 lines fit")
    expect(log).not_to_contain_text("line 7 of")
    page.get_by_label("Search the log").fill("line [")
    expect(page.get_by_role("alert")).to_contain_text("no regular expression")
    page.get_by_label("Search the log").fill("")
    page.get_by_role("button", name="Errors").click()
    expect(log).to_contain_text("No line fits.")


def test_language_and_theme_are_kept(page: Page) -> None:
    html = page.locator("html")
    page.get_by_label("Language").first.select_option(label="简体中文")
    expect(html).to_have_attribute("lang", re.compile("^zh"))
    nav = page.get_by_role("navigation").first
    expect(nav).to_contain_text("任务")
    before = html.get_attribute("data-theme")
    page.locator(".side-foot button").first.click()
    expect(html).not_to_have_attribute("data-theme", before or "")
    page.reload()
    expect(nav).to_contain_text("任务")
    expect(html).not_to_have_attribute("data-theme", before or "")


def test_a_reload_keeps_the_view_and_its_address_can_be_shared(
    page: Page, browser: Browser, fleet: Ground
) -> None:
    open_page(page, "Tasks")
    page.get_by_role("button", name=re.compile("^Completed")).click()
    expect(page).to_have_url(re.compile("status=completed"))
    page.reload()
    chosen = page.get_by_role("button", name=re.compile("^Completed"))
    expect(chosen).to_have_attribute("aria-pressed", "true")

    other = Window(browser, fleet.url)
    there = other.sign_in(fleet.link)
    there.goto(page.url)
    expect(there.get_by_role("button", name=re.compile("^Completed"))).to_have_attribute(
        "aria-pressed", "true"
    )
    other.context.close()


def test_a_viewer_is_offered_nothing_to_change(window: Window, fleet: Ground) -> None:
    made = fleet.api.create_key("looker", "viewer")
    page = window.page
    page.goto("/tasks")
    page.get_by_label("API key").fill(made.secret)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("row").nth(1)).to_be_visible()
    expect(page.get_by_role("checkbox")).to_have_count(0)
    page.goto("/nodes")
    expect(row(page, "ant-1")).to_be_visible()
    expect(page.get_by_role("button", name="Drain")).to_have_count(0)
    # And what the page hides, the master refuses.
    answer: Any = page.evaluate(
        """async (id) => {
            const session = await (await fetch('/api/v1/session')).json();
            const headers = {'X-Crawlfleet-Csrf': session.csrf};
            const asked = await fetch(`/api/v1/nodes/${id}:drain`, {method: 'POST', headers});
            return asked.status;
        }""",
        fleet.node("ant-1").id,
    )
    assert answer == 403


def test_everything_is_a_few_keys_away(page: Page) -> None:
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.type("nodes")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/nodes$"))
    page.keyboard.press("Tab")
    focus = "document.activeElement && document.activeElement !== document.body"
    assert page.evaluate(focus)


def test_a_text_filter_counts_with_enter_and_one_may_go_on_writing(page: Page) -> None:
    page.goto("/tasks")
    workflow = page.get_by_role("textbox", name="Workflow")
    workflow.fill(" a ")
    workflow.press("Enter")
    expect(page).to_have_url(re.compile("[?&]workflow=a$"))
    expect(workflow).to_be_focused()
    expect(workflow).to_have_value("a")
    page.keyboard.type("b")
    page.keyboard.press("Tab")
    expect(page).to_have_url(re.compile("[?&]workflow=ab$"))
    page.get_by_role("link", name="Clear the filters").first.click()
    expect(workflow).to_have_value("")


def test_it_fits_on_a_phone(browser: Browser, fleet: Ground) -> None:
    window = Window(browser, fleet.url, has_touch=True)
    page = window.page
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(fleet.link)
    nav = page.get_by_role("navigation", name="Short cuts")
    for name in ("Nodes", "Tasks", "Overview"):
        nav.get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        wide = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        assert not wide, f"{name} is wider than the phone"
    window.context.close()
    assert window.wrongs == []
