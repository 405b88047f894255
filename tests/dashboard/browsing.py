"""A real browser on a real fleet: what the tests of the dashboard look through."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, Request

from crawlfleet.client.blocking import BlockingClient
from crawlfleet.testing.demo_shop import ServedShop
from tests.code_archives import packed
from tests.support.local_fleet import LocalFleet

PATIENCE_MS: Final = 30_000
"""Longer than anything takes on a busy machine."""
PICTURES: Final = Path(os.environ.get("CRAWLFLEET_PICTURES", "build/pictures")).resolve()
"""Where the test run leaves its screenshots."""
CHATTER: Final = """
import time


def talk(lines, pause_s=0.3):
    for number in range(lines):
        print(f"line {number} of {lines}", flush=True)
        time.sleep(pause_s)
    return {"lines": lines}
"""
CRAWL: Final = {
    "selectors": {"product": "div.product", "title": "h2.title", "price": "span.price"},
    "scope": {"max_query_variants": 25},
    "politeness": {"delay_s": 2, "concurrency": 1, "retry_delay_s": 1},
    "fetching": {"allow_private": True},
}


def scrapy_project(number: int) -> bytes:
    """A project with two spiders, in an archive; another one for each number."""
    spiders = "".join(
        f"class {name.title()}Spider(scrapy.Spider):\n    name = '{name}'\n\n"
        for name in ("quotes", "authors")
    )
    return packed(
        {
            "scrapy.cfg": "[settings]\ndefault = shop.settings\n",
            "shop/settings.py": f"NUMBER = {number}\n",
            "shop/spiders/all.py": f"import scrapy\n\n{spiders}",
        }
    )


SHELF: Final = "<div><h2>Kite</h2><b>9</b></div><div><h2>Lamp</h2></div>"
"""A page on which one of two things has no price."""
NAP: Final = {"task_type": "sleep", "parameters": {"seconds": "${parameters.pause}"}}
FLOW: Final = {
    "name": "stock",
    "description": "Fetch the shelves, count what lies on them, tell the shop",
    "parameters": {
        "pause": {"type": "number", "default": 0.01, "description": "How long each task naps"},
        "shelves": {"type": "list", "default": ["lamps", "kites", "clocks"]},
        "save": {"type": "flag", "default": False},
        "function": {"type": "text"},
    },
    "steps": {
        "shelves": {**NAP, "for_each": "${parameters.shelves}"},
        "count": {**NAP, "depends_on": ["shelves"]},
        "photos": {
            "task_type": "python",
            "parameters": {"function": "chatter:missing"},
            "max_retries": 0,
            "depends_on": ["shelves"],
            "optional": True,
        },
        "save": {**NAP, "depends_on": ["count"], "when": "parameters.save"},
        "alarm": {**NAP, "depends_on": [{"step": "photos", "on": "failure"}]},
        "tidy": {
            **NAP,
            "depends_on": [{"step": "save", "on": "always"}, {"step": "alarm", "on": "always"}],
        },
        "publish": {
            "task_type": "python",
            "parameters": {"function": "${parameters.function}", "kwargs": {"lines": 1}},
            "max_retries": 0,
            "depends_on": ["tidy"],
        },
    },
}
"""A workflow with all that a graph can show; `function` decides how it ends."""


def wide_flow(name: str, branches: int) -> dict[str, Any]:
    """One step that nobody can do, many that wait for it, and one that waits for all of them."""
    first = {"task_type": "nobodys"}
    steps: dict[str, Any] = {"start": first}
    steps |= {f"branch_{n}": {**first, "depends_on": ["start"]} for n in range(branches)}
    steps["end"] = {**first, "depends_on": [f"branch_{n}" for n in range(branches)]}
    return {"name": name, "steps": steps}


MAIN: Final = re.compile("^(Main|主)")
"""The landmark with the links to all pages, in either language."""


class Ground:
    """A fleet with a running crawl, and the way to it."""

    def __init__(self, fleet: LocalFleet, api: BlockingClient, crawl: str, shop: str) -> None:
        self.fleet = fleet
        self.api = api
        self.crawl = crawl
        """The id of the crawl."""
        self.shop = shop
        self.url = fleet.url

    @property
    def link(self) -> str:
        """A fresh link that signs in as admin."""
        return self.url + str(self.api.create_session_link().path)

    def printed_link(self) -> str:
        """The link that `up` printed."""
        printed = (self.fleet.folder / "up.log").read_text("utf-8")
        found = re.search(r"crawlfleet is up: (\S+)", printed)
        assert found, printed
        return found[1]

    def node(self, name: str) -> Any:
        (node,) = [each for each in self.api.nodes() if each.name == name]
        return node


@contextmanager
def ground(folder: Path) -> Iterator[Ground]:
    """`crawlfleet up` with three workers, and a crawl of the demo shop that takes minutes."""
    modules = folder / "modules"
    modules.mkdir(parents=True)
    (modules / "chatter.py").write_text(CHATTER)
    path = os.pathsep.join(filter(None, [str(modules), os.environ.get("PYTHONPATH", "")]))
    fleet = LocalFleet(
        folder / "fleet",
        workers=3,
        CRAWLFLEET_WORKER_NAME="ant",
        CRAWLFLEET_WORKER_REGION="de",
        CRAWLFLEET_WORKER_ALLOW_PRIVATE="true",
        CRAWLFLEET_WORKER_PYTHON_ALLOW='["chatter:*"]',
        CRAWLFLEET_WORKER_SLOTS="4",
        PYTHONPATH=path,
        # Busy machines are slow to beat, and get no new work; no test here is about that.
        CRAWLFLEET_HEALTH_CPU_LIMIT="1",
        CRAWLFLEET_SESSION_TIMEOUT_S="30",
        CRAWLFLEET_SESSION_RECONNECT_S="30",
    )
    fleet.start()
    try:
        with BlockingClient(fleet.url, fleet.key, patience_s=60) as api, ServedShop() as shop:
            _until_online(api, 3)
            crawl = api.submit(
                "web_crawl", {"url": shop.url, **CRAWL}, priority=9, categories=["shop"]
            )
            yield Ground(fleet, api, crawl.id, shop.url)
    finally:
        fleet.kill("all")


def _until_online(api: BlockingClient, nodes: int) -> None:
    until = time.monotonic() + 120
    while api.status().totals.nodes.get("online", 0) < nodes:
        assert time.monotonic() < until, "the workers do not come"
        time.sleep(0.1)


class Window:
    """A tab, and all that should not happen in it."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url = url
        self.context: BrowserContext = browser.new_context(
            base_url=url, viewport={"width": 1440, "height": 900}, locale="en-GB", **options
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.wrongs: list[str] = []
        """Scripts that ran, errors, and requests to other hosts."""
        self.page.on("dialog", self._on_dialog)
        self.page.on("pageerror", lambda error: self.wrongs.append(f"error: {error}"))
        self.page.on("console", self._on_console)
        self.context.on("request", self._on_request)

    def sign_in(self, link: str) -> Page:
        """The page, signed in by a link."""
        self.page.goto(link)
        self.page.get_by_role("navigation", name=MAIN).wait_for()
        return self.page

    def _on_dialog(self, dialog: Any) -> None:
        self.wrongs.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _on_console(self, message: Any) -> None:
        text = message.text
        # What the master refuses on purpose is told to the console as well.
        if message.type == "error" and "Failed to load resource" not in text:
            self.wrongs.append(f"console: {text}")

    def _on_request(self, request: Request) -> None:
        asked = urlsplit(request.url)
        if asked.scheme not in {"data", "blob"} and asked.netloc != urlsplit(self.url).netloc:
            self.wrongs.append(f"request: {request.url}")
