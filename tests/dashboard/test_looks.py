"""Every page in both themes: pictures to look at, and nothing that keeps people out."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.browsing import FLOW, PICTURES, SHELF, Ground, Window, scrapy_project
from tests.sampling import SOAK

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("dashboard"),
]
ROOT: Final = Path(__file__).parents[2]
AXE: Final = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS: Final = {
    "overview": "/",
    "nodes": "/nodes",
    "node": "/nodes/{node}",
    "tasks": "/tasks",
    "task": "/tasks/{crawl}",
    "explain": "/tasks/{waiting}?tab=explain",
    "log": "/tasks/{crawl}?tab=log",
    "crawls": "/crawls",
    "crawl": "/crawls/{crawl}",
    "work": "/crawls/{crawl}?tab=work",
    "items": "/crawls/{crawl}?tab=items",
    "look-up": "/crawls/{crawl}?tab=url",
    "schedules": "/schedules",
    "schedule": "/schedules/{schedule}",
    "schedule-new": "/schedules/new",
    "workflows": "/workflows",
    "workflow": "/workflows/{workflow}?tab=document&step=save",
    "workflow-start": "/workflows/{workflow}?tab=start",
    "runs": "/workflows?tab=runs",
    "run": "/runs/{run}?step=publish",
    "run-steps": "/runs/{run}?tab=steps",
    "quality": "/quality?series=shelf",
    "quotas": "/quotas",
    "usage": "/quotas?tab=usage&step=hour&what=completed",
    "webhooks": "/webhooks",
    "webhook": "/webhooks/{webhook}",
    "alerts": "/alerts",
    "bundles": "/bundles",
    "bundle": "/bundles/default/quotes",
    "submit": "/submit?type=web_crawl",
    "submit-spider": "/submit?type=scrapy_spider&bundle=quotes",
    "selectors": "/submit?tab=selectors",
    "dead-letters": "/dead-letters",
    "events": "/events",
    "audit": "/events?tab=audit",
    "keys": "/settings/keys",
    "join-tokens": "/settings/join-tokens",
    "clusters": "/settings/clusters",
    "projects": "/settings/projects",
    "master": "/settings/master",
    "device": "/settings/device",
}
SERIOUS: Final = {"serious", "critical"}
DARK_SAMPLE: Final = 1 if SOAK else 5
"""Of the same pages in dark colours: every one in the soak, else every fifth."""


@pytest.fixture(scope="module")
def axe() -> str:
    """The checker of accessibility, from the packages of the page."""
    assert shutil.which("npm"), "the dashboard is built with node and npm; install them"
    done = subprocess.run(
        ["make", "dashboard/node_modules/.ready"], cwd=ROOT, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    return AXE.read_text("utf-8")


@pytest.fixture(scope="module")
def places(fleet: Ground) -> dict[str, str]:
    """The addresses of all views."""
    waiting = fleet.api.submit("render_video", {"title": "nobody can"})
    for number in (1, 2):
        fleet.api.deploy("quotes", scrapy_project(number), note=f"number {number}")
    nap = {"task_type": "sleep", "parameters": {"seconds": 0.01}}
    schedule = fleet.api.create_schedule(
        "nightly", nap, cron="30 2 * * *", time_zone="Asia/Shanghai"
    )
    fleet.api.run_schedule(schedule.id)
    run = fleet.api.submit_workflow(FLOW, {"function": "chatter:gone"})
    fleet.api.set_quotas("default", running=8, waiting=500, cpu_cores=2)
    webhook = fleet.api.create_webhook(
        "failures", "http://127.0.0.1:9/in", kinds=["run."], description="to the pager"
    ).webhook
    fleet.api.submit_workflow(FLOW, {"function": "chatter:talk", "save": True})
    fleet.api.create_alert("done", "events", event="task.completed", above=0)
    shelf = {"html": SHELF, "selectors": {"product": "div", "title": "h2", "price": "b"}}
    expected = {"series": "shelf", "fields": {"fields.price": {"empty": 0.1}}}
    fleet.api.submit("extract", shelf, expectations=expected)
    names = {
        "workflow": run.workflow_id,
        "run": run.id,
        "webhook": webhook.id,
        "node": fleet.node("ant-1").id,
        "crawl": fleet.crawl,
        "waiting": waiting.id,
        "schedule": schedule.id,
    }
    return {view: path.format(**names) for view, path in VIEWS.items()}


def opened(browser: Browser, fleet: Ground, theme: str, **options: Any) -> Window:
    window = Window(browser, fleet.url, color_scheme=theme, reduced_motion="reduce", **options)
    window.sign_in(fleet.link)
    return window


def settle(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".skeleton")).to_have_count(0)
    page.wait_for_timeout(1000 if SOAK else 200)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_has_its_picture_and_keeps_nobody_out(
    theme: str, browser: Browser, fleet: Ground, places: dict[str, str], axe: str
) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    window = opened(browser, fleet, theme)
    page = window.page
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    found: dict[str, list[str]] = {}
    for view in [*places][:: DARK_SAMPLE if theme == "dark" else 1]:
        settle(page, places[view])
        page.screenshot(path=PICTURES / f"{view}-{theme}.png")
        assert (PICTURES / f"{view}-{theme}.png").stat().st_size > 10_000
        found |= violations(page, axe, view)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    page.screenshot(path=PICTURES / f"sign-in-{theme}.png")
    found |= violations(page, axe, "sign-in")
    window.context.close()
    assert found == {}
    assert window.wrongs == []


def violations(page: Page, axe: str, view: str) -> dict[str, list[str]]:
    """What axe finds on a page that is serious or worse."""
    page.evaluate(axe)
    answer = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return {
        f"{view}: {each['id']}": [json.dumps(node["target"]) for node in each["nodes"]][:5]
        for each in answer["violations"]
        if each["impact"] in SERIOUS
    }
