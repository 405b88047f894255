"""The built page as it is sent: what a browser gets, may keep, and may run."""

import asyncio
import gzip
import re
from pathlib import Path
from typing import Any

import brotli
import pytest
from starlette.requests import Request
from starlette.responses import Response

from crawlfleet.dashboard import Dashboard
from crawlfleet.dashboard.serving import BUILT, POLICY

HTML = "text/html,application/xhtml+xml"
SCRIPT = b"export const fleet = 1;\n" * 200


@pytest.fixture
def dashboard(tmp_path: Path) -> Dashboard:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>the page</title>")
    (tmp_path / "favicon.svg").write_text("<svg/>")
    (tmp_path / "assets" / "index-4f2a.js").write_bytes(SCRIPT)
    (tmp_path / "notes.secret").write_text("not part of the page")
    return Dashboard(tmp_path)


def ask(
    dashboard: Dashboard, path: str, *, method: str = "GET", accept: str = "*/*", **headers: str
) -> Response | None:
    sent = {"accept": accept, **{name.replace("_", "-"): text for name, text in headers.items()}}
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), text.encode()) for name, text in sent.items()],
    }
    return asyncio.run(dashboard(Request(scope)))


def test_every_path_of_the_page_is_the_page(dashboard: Dashboard) -> None:
    for path in ("/", "/nodes", "/tasks/task-1", "/settings/keys", "/open", "/no/such/view"):
        answer = ask(dashboard, path, accept=HTML)
        assert answer is not None
        assert b"the page" in answer.body
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_what_is_the_apis_is_not_the_pages(dashboard: Dashboard) -> None:
    for path in ("/api", "/api/v1/nothing", "/metrics", "/healthz/x", "/readyz"):
        assert ask(dashboard, path, accept=HTML) is None
    assert ask(dashboard, "/nodes", method="POST", accept=HTML) is None
    assert ask(dashboard, "/nodes", accept="application/json") is None
    assert ask(dashboard, "/assets/gone-1234.js") is None


def test_files_are_found_by_their_names_alone(dashboard: Dashboard) -> None:
    for path in (
        "/../test_serving.py",
        "/assets/../../etc/passwd",
        "//etc/passwd",
        "/notes.secret",
    ):
        assert ask(dashboard, path) is None


def test_named_by_their_content_files_are_kept_for_ever(dashboard: Dashboard) -> None:
    asset, icon = ask(dashboard, "/assets/index-4f2a.js"), ask(dashboard, "/favicon.svg")
    assert asset is not None
    assert icon is not None
    assert asset.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert icon.headers["cache-control"] == "no-cache"
    again = ask(dashboard, "/favicon.svg", if_none_match=icon.headers["etag"])
    assert again is not None
    assert (again.status_code, again.body) == (304, b"")


def test_files_are_packed_as_the_browser_takes_them(dashboard: Dashboard) -> None:
    path = "/assets/index-4f2a.js"
    plain = ask(dashboard, path)
    zipped = ask(dashboard, path, accept_encoding="gzip, deflate")
    small = ask(dashboard, path, accept_encoding="gzip, deflate, br, zstd")
    assert plain
    assert zipped
    assert small
    assert plain.body == gzip.decompress(zipped.body) == brotli.decompress(small.body) == SCRIPT
    assert [each.headers.get("content-encoding") for each in (plain, zipped, small)] == [
        None,
        "gzip",
        "br",
    ]
    assert {each.headers["vary"] for each in (plain, zipped, small)} == {"Accept-Encoding"}
    head = ask(dashboard, path, method="HEAD", accept_encoding="br")
    assert head is not None
    assert (head.body, head.headers["content-length"]) == (b"", str(len(small.body)))


def test_the_page_may_run_only_what_is_ours(dashboard: Dashboard) -> None:
    answer = ask(dashboard, "/", accept=HTML)
    assert answer is not None
    assert answer.headers["content-security-policy"] == POLICY
    assert POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in POLICY
    assert "http" not in POLICY.replace("https", "http").replace("http-equiv", "")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_the_page_that_is_shipped_names_no_other_host_and_nothing_inline() -> None:
    index = (BUILT / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)", index)
    assert "<style" not in index
    assert not re.search(r"\sstyle=|\son\w+=", index)
    assert not re.search(r"(src|href)=\"(https?:)?//", index)
