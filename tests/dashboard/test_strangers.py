"""Whatever strangers write stays text, on every page: nothing of it runs, nothing is fetched.

A node, played by hand, brings each payload as its own name and label, as a task's address and
title, in log lines, results and errors; tasks bring it in parameters and keys. Then each page is
looked at in a real browser.
"""

import os
import time
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Page, expect

from crawlfleet.client.http.transport import Transport
from tests.dashboard.browsing import PATIENCE_MS, Ground, Window
from tests.dashboard.payloads import PAYLOADS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("dashboard"),
]
PROJECT: Final = "hostile"
LEVELS: Final = ("info", "warning", "error")
STRIDE: Final = 1 if os.environ.get("CRAWLFLEET_SOAK") else 14
"""So many payloads are looked at on one page, where a page can hold several."""


class Planted(NamedTuple):
    """What is there to be looked at."""

    nodes: list[str]
    tasks: list[str]
    done: list[str]
    """Tasks with a hostile result and log."""
    failed: list[str]


class Voice:
    """A node that says what the test wants."""

    def __init__(self, fleet: Ground, name: str, label: str, task_type: str) -> None:
        self._fleet = fleet
        token = fleet.api.create_join_token(uses=1).secret
        registered = self._say(
            "/api/v1/nodes:register",
            {
                "name": name,
                "description": name,
                "labels": {"said": label},
                "capabilities": {"said": [label]},
                "task_types": [task_type],
                "resources": {"slots": 200, "cpu": 4},
            },
            token,
        )
        self.id, self._token = registered["node_id"], registered["node_token"]
        self._session = registered["session_id"]

    def _say(self, path: str, body: Any, token: str) -> Any:
        async def said() -> Any:
            async with Transport(self._fleet.url) as transport:
                return await transport.call("POST", path, dict[str, Any], key=token, body=body)

        return self._fleet.api._run(said())

    def request(self, service: str, **body: Any) -> Any:
        path = f"/api/v1/nodes/{self.id}/services/{service}"
        return self._say(path, {"session_id": self._session, **body}, self._token)

    def say(self, verb: str, **body: Any) -> Any:
        path = f"/api/v1/nodes/{self.id}:{verb}"
        return self._say(path, {"session_id": self._session, **body}, self._token)

    def take(self, number: int) -> list[dict[str, Any]]:
        taken: list[dict[str, Any]] = []
        until = time.monotonic() + PATIENCE_MS / 1000
        while len(taken) < number and time.monotonic() < until:
            held = [each["execution_id"] for each in taken]
            taken += self.say("lease", held=held, wait_s=2).get("assignments", [])
        assert len(taken) == number
        return taken

    def end(self, assignment: dict[str, Any], texts: Sequence[str], *, good: bool) -> None:
        named = {name: assignment[name] for name in ("execution_id", "task_id", "token")}
        now = time.time()
        lines = [
            {"seq": at, "at": now, "message": text, "level": level, "fields": {"said": text}}
            for at, (text, level) in enumerate(zip(texts, cycle(LEVELS), strict=False), start=1)
        ]
        self.say("note", notes=[{"execution_id": named["execution_id"], "lines": lines}])
        items = [{"title": text, "url": text, text[:60]: text} for text in texts]
        outcome: dict[str, Any] = {"data": {"products": items}}
        if not good:
            error = {"error_class": "invalid", "message": texts[0], "details": "\n".join(texts)}
            outcome = {"error": error}
        kind = "succeeded" if good else "failed"
        self.say("report", reports=[{**named, "kind": kind, "at": now, **outcome}])


@pytest.fixture(scope="module")
def planted(fleet: Ground) -> Iterator[Planted]:
    request = {"task_type": "hostile", "project_id": PROJECT, "max_retries": 0}
    tasks = [
        {
            **request,
            "parameters": {"url": text, "title": text, text[:60]: [*PAYLOADS[at : at + STRIDE]]},
            "dedup_key": f"{text.strip()} {number}",
        }
        for at, text in enumerate(PAYLOADS)
        for number in range(2)
    ]
    submitted = [each.id for each in fleet.api.submit_batch(tasks).items]
    assert all(submitted)
    voices = [
        Voice(fleet, text.strip(), text.strip(), "hostile" if at == 0 else "none")
        for at, text in enumerate(PAYLOADS)
    ]
    taken = {each["task_id"]: each for each in voices[0].take(len(tasks))}
    done, failed = [], []
    for at in range(len(PAYLOADS)):
        first, second = submitted[2 * at], submitted[2 * at + 1]
        texts = PAYLOADS[at : at + STRIDE]
        voices[0].end(taken[first], texts, good=True)
        voices[0].end(taken[second], texts, good=False)
        done.append(first)
        failed.append(second)
    waiting = [
        each.id
        for each in fleet.api.submit_batch(
            [{**request, "task_type": "nobodys", "parameters": {"url": text}} for text in PAYLOADS]
        ).items
    ]
    yield Planted([voice.id for voice in voices], waiting, done, failed)
    for voice in voices:
        fleet.api.order(voice.id, "unregister")


@pytest.fixture
def inert(window: Window, fleet: Ground) -> Iterator[Page]:
    """A page on which nothing that strangers wrote may do anything."""
    page = window.sign_in(fleet.link)
    yield page
    check(page)


def check(page: Page) -> None:
    """Nothing ran, and nothing became an element."""
    assert page.evaluate("window.pwned") is None, page.url
    strange = page.evaluate(
        """() => [...document.querySelectorAll('*')].filter(each =>
            ['IFRAME', 'OBJECT', 'EMBED', 'BASE', 'MARQUEE', 'MATH', 'AUDIO', 'VIDEO', 'STYLE']
                .includes(each.tagName.toUpperCase())
            || each.getAttributeNames().some(name => name.startsWith('on'))
            || (each.tagName === 'SCRIPT' && !each.src.startsWith(location.origin + '/assets/'))
            || (each.tagName === 'IMG' && !each.src.startsWith(location.origin + '/assets/'))
            || ['href', 'src', 'action', 'xlink:href'].some(name => {
                const to = each.getAttribute(name);
                return to && !/^(\\/(?!\\/)|#|https?:\\/\\/|data:image\\/)/.test(to);
            })
        ).map(each => each.outerHTML.slice(0, 200))"""
    )
    assert strange == [], page.url


def look(page: Page, path: str, text: str | None = None) -> None:
    """Open a page, wait until it shows what it has, and check it."""
    page.goto(path)
    page.get_by_role("main").wait_for()
    if text is not None:
        expect(page.get_by_role("main").get_by_text(text).first).to_be_visible()
    page.wait_for_timeout(150)
    check(page)


def test_there_are_enough_of_them() -> None:
    assert len(set(PAYLOADS)) >= 40


def test_what_had_become_an_element_would_be_seen(window: Window, fleet: Ground) -> None:
    page = window.sign_in(fleet.link)
    for made in (
        "document.createElement('iframe')",
        "Object.assign(document.createElement('a'), {href: 'javascript:0'})",
        "Object.assign(document.createElement('img'), {src: '/x'})",
    ):
        check(page)
        page.evaluate(f"() => {{ window.made = {made}; document.body.append(window.made) }}")
        with pytest.raises(AssertionError):
            check(page)
        page.evaluate("() => window.made.remove()")


def test_the_policy_lets_no_text_become_mark_up(window: Window, fleet: Ground) -> None:
    page = window.sign_in(fleet.link)
    tried = """async (text) => {
        const seen = new Promise(done => document.addEventListener(
            'securitypolicyviolation', event => done(event.effectiveDirective), {once: true}));
        try { document.body.innerHTML = text; } catch (error) { return `${await seen}`; }
        return 'it was let through';
    }"""
    assert page.evaluate(tried, PAYLOADS[4]) == "require-trusted-types-for"
    assert page.evaluate("window.pwned") is None
    window.wrongs.clear()


def test_lists_show_it_as_text(inert: Page, planted: Planted) -> None:
    for path in (
        "/",
        "/nodes",
        f"/tasks?project={PROJECT}",
        f"/tasks?project={PROJECT}&status=failed",
        f"/dead-letters?project={PROJECT}",
        "/events",
        "/events?tab=audit",
        "/crawls",
        "/workflows",
        "/workflows?tab=runs",
        "/alerts",
        "/webhooks",
        "/quotas",
        "/settings/keys",
        "/settings/join-tokens",
        "/settings/projects",
        "/settings/clusters",
    ):
        look(inert, path)
        inert.mouse.wheel(0, 3000)
        inert.wait_for_timeout(150)
        check(inert)


def test_names_of_nodes_are_text(inert: Page, planted: Planted) -> None:
    look(inert, "/nodes", "<script>window.pwned=1</script>")
    for node_id in planted.nodes[::STRIDE]:
        look(inert, f"/nodes/{node_id}")
    # In a question before an order, too.
    inert.goto(f"/nodes/{planted.nodes[0]}")
    inert.get_by_role("button", name="Revoke").click()
    expect(inert.get_by_role("dialog")).to_contain_text(PAYLOADS[0])


def test_results_logs_and_errors_are_text(inert: Page, planted: Planted) -> None:
    for at in range(0, len(PAYLOADS), STRIDE):
        for task_id in (planted.done[at], planted.failed[at]):
            look(inert, f"/tasks/{task_id}")
            look(inert, f"/tasks/{task_id}?tab=log")
            for text in PAYLOADS[at : at + STRIDE]:
                expect(inert.get_by_role("log")).to_contain_text(text.strip())
            check(inert)
        look(inert, f"/tasks/{planted.tasks[at]}?tab=explain")


def test_words_about_work_are_text(inert: Page, fleet: Ground) -> None:
    said = " ".join(PAYLOADS[at] for at in (0, 4, 10, 16))
    steps = {
        "a": {"task_type": "nobodys", "description": said, "for_each": [*PAYLOADS[:8]]},
        "b": {"task_type": "nobodys", "depends_on": ["a"], "when": f"parameters.said == {said!r}"},
    }
    parameters = {"said": {"type": "text", "default": said, "description": said}}
    document = {"name": "said", "description": said, "parameters": parameters, "steps": steps}
    run = fleet.api.submit_workflow(document, {"said": said})
    hook = fleet.api.create_webhook("said", "https://hooks.example/in", description=said).webhook
    rule = fleet.api.create_alert("said", "events", event="none.", above=0, description=said)
    fleet.api.silence_alert(rule.id, 3600, reason=said)
    for path in (
        "/workflows",
        f"/workflows/{run.workflow_id}?tab=document&step=a",
        f"/workflows/{run.workflow_id}?tab=start",
        f"/runs/{run.id}?step=b",
        f"/webhooks/{hook.id}",
        "/alerts",
    ):
        look(inert, path, "<script>window.pwned=1</script>")
    inert.goto(f"/runs/{quote(PAYLOADS[4], safe='')}?{urlencode({'step': said, 'tab': said})}")
    inert.get_by_role("main").wait_for()
    fleet.api.cancel_run(run.id)


def test_the_address_bar_is_text(inert: Page) -> None:
    for text in PAYLOADS[:: (STRIDE + 2) // 3]:
        names = ("q", "type", "project", "workflow", "sort", "tab")
        inert.goto(f"/tasks?{urlencode(dict.fromkeys(names, text))}")
        inert.get_by_role("main").wait_for()
        check(inert)
        inert.goto(f"/nodes/{quote(text, safe='')}")
        inert.get_by_role("main").wait_for()
        check(inert)


def test_the_search_for_everything_is_text(inert: Page, planted: Planted) -> None:
    inert.keyboard.press("Control+k")
    dialog = inert.get_by_role("dialog")
    for text in PAYLOADS[:12]:
        dialog.get_by_role("combobox").or_(dialog.get_by_role("textbox")).first.fill(text.strip())
        inert.wait_for_timeout(50)
        check(inert)


def test_answers_that_are_opened_by_themselves_run_nothing(
    window: Window, fleet: Ground, planted: Planted
) -> None:
    page = window.sign_in(fleet.link)
    for task_id in planted.done[:10]:
        page.goto(f"/api/v1/tasks/{task_id}")
        assert page.evaluate("window.pwned") is None
        assert page.evaluate("document.contentType") == "application/json"
