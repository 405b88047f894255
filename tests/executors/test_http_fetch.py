"""`http_fetch` against a real server on the loopback."""

import asyncio
import base64
import gzip
from collections.abc import Iterator
from threading import Event, Thread
from typing import ClassVar

import msgspec
import pytest
from aiohttp import web

from crawlfleet import __version__
from crawlfleet.crawl.fetch.dial import AddressRefused, NetworkTrouble
from crawlfleet.executors.fetch_list import FetchedPage
from crawlfleet.executors.http_fetch import (
    BadRequest,
    HttpFetch,
    HttpFetchParameters,
    _is_of_site,
)
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.testing.executor_suite import ExecutorSuite
from crawlfleet.worker.pool.protocol import MAX_RESULT_BYTES

pytestmark = pytest.mark.slow


class Quiet:
    task_id, attempt = "task-1", 1
    secrets: ClassVar = {"SHOP_TOKEN": "t0ken-of-the-shop"}

    async def log(self, message: str, **fields: object) -> None: ...

    async def progress(self, done: float, total: float | None = None) -> None: ...


ANSWERS = {
    "/page": {"text": "<p>Grüße</p>", "content_type": "text/html"},
    "/binary": {"body": b"\x89PNG\0\xff" * 10},
    "/large-text": {"text": '"\n' * 3_000_000},
    "/large-binary": {"body": b"\0\xff" * 1_500_000},
    "/bomb": {
        "body": gzip.compress(b"x" * 50_000_000),
        "headers": {"Content-Encoding": "gzip"},
    },
    "/latin": {
        "body": "né".encode("latin-1"),
        "headers": {"Content-Type": "text/plain; charset=latin-1"},
    },
    "/odd-charset": {"body": b"ok", "headers": {"Content-Type": "text/plain; charset=zlib"}},
    "/missing": {"status": 404},
    "/loop": {"status": 302, "headers": {"Location": "/loop"}},
}


async def answer(request: web.Request) -> web.StreamResponse:
    match request.path:
        case path if path in ANSWERS:
            return web.Response(**ANSWERS[path])
        case "/headers":
            return web.json_response(dict(request.headers))
        case "/redirect":
            raise web.HTTPFound(request.query["to"])
        case "/breaks-off":
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b"begin")
            request.transport.abort()
            return response
        case _:
            await asyncio.sleep(120)
            return web.Response()


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    address: list[str] = []
    ready, done = Event(), Event()

    async def serve() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        ready.set()
        await asyncio.to_thread(done.wait)
        await runner.cleanup()

    thread = Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    yield address[0]
    done.set()
    thread.join()


def fetch(url: str, *, allow_private: bool = True, **parameters: object) -> FetchedPage:
    wanted = msgspec.convert({"url": url, **parameters}, HttpFetchParameters)
    return asyncio.run(HttpFetch(allow_private=allow_private).run(wanted, Quiet()))


def test_a_page_comes_as_text_with_its_status_and_headers(site: str) -> None:
    page = fetch(f"{site}/page")

    assert (page.status, page.body, page.url) == (200, "<p>Grüße</p>", f"{site}/page")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.bytes == len("<p>Grüße</p>".encode())
    assert not page.truncated
    assert page.elapsed_s > 0


def test_an_answer_of_refusal_is_a_result(site: str) -> None:
    assert fetch(f"{site}/missing").status == 404


def test_what_is_no_text_comes_as_base64(site: str) -> None:
    page = fetch(f"{site}/binary")

    assert page.body is None
    assert base64.b64decode(page.body_base64) == b"\x89PNG\0\xff" * 10


def test_declared_charsets_are_believed_and_nonsense_is_not(site: str) -> None:
    assert fetch(f"{site}/latin").body == "né"
    assert fetch(f"{site}/odd-charset").body_base64 == base64.b64encode(b"ok").decode()


@pytest.mark.parametrize("path", ["large-text", "large-binary", "bomb"])
def test_a_large_body_is_cut_so_that_the_result_fits(site: str, path: str) -> None:
    page = fetch(f"{site}/{path}", max_bytes=2_000_000)

    assert page.truncated
    assert page.bytes > 400_000
    assert len(msgspec.json.encode(page)) < MAX_RESULT_BYTES


def test_the_limit_cuts_between_characters(site: str) -> None:
    page = fetch(f"{site}/page", max_bytes=len(b"<p>Gr") + 1)

    assert page.truncated
    assert page.body in {"<p>Gr", "<p>Gr�"}


def test_head_brings_no_body(site: str) -> None:
    page = fetch(f"{site}/page", method="HEAD")

    assert (page.status, page.body, page.bytes) == (200, "", 0)


def test_it_says_who_it_is_and_sends_the_headers_asked_for(site: str) -> None:
    seen = msgspec.json.decode(fetch(f"{site}/headers", headers={"X-Reason": "test"}).body)

    assert seen["User-Agent"] == f"crawlfleet/{__version__}"
    assert seen["X-Reason"] == "test"


def test_redirects_are_followed_to_their_end(site: str) -> None:
    assert fetch(f"{site}/redirect?to=/page").url == f"{site}/page"


def test_credentials_do_not_follow_a_redirect_to_another_site(site: str) -> None:
    headers = {
        "Authorization": "Bearer ${secret:SHOP_TOKEN}",
        "X-Api-Key": "${secret:SHOP_TOKEN}",
        "Cookie": "session=1",
        "X-Reason": "test",
    }
    own = msgspec.json.decode(fetch(f"{site}/redirect?to=/headers", headers=headers).body)
    assert own["Authorization"] == "Bearer t0ken-of-the-shop"
    assert (own["X-Api-Key"], own["Cookie"]) == ("t0ken-of-the-shop", "session=1")

    elsewhere = site.replace("127.0.0.1", "localhost")
    there = f"{elsewhere}/redirect?to={site}/headers"
    for url in (f"{site}/redirect?to={elsewhere}/headers", f"{site}/redirect?to={there}"):
        seen = fetch(url, headers=headers).body
        assert seen is not None
        assert "t0ken" not in seen
        assert "session" not in seen
        assert msgspec.json.decode(seen)["X-Reason"] == "test"


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("https://shop.example/a", "https://shop.example/b", True),
        ("http://shop.example/a", "https://shop.example/a", True),
        ("https://shop.example/a", "http://shop.example/a", False),
        ("http://shop.example:8080/a", "https://shop.example/a", False),
        ("https://shop.example/a", "https://shop.example:8443/a", False),
        ("https://shop.example/a", "https://www.shop.example/a", False),
        ("https://shop.example/a", "https://shop.example.evil.example/a", False),
        ("https://shop.example/a", "https://shop.example@evil.example/a", False),
    ],
)
def test_a_site_is_a_host_that_may_have_changed_to_tls(
    first: str, second: str, is_same: bool
) -> None:
    assert _is_of_site(second, first) is is_same


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/loop", "more than 10 redirects"),
        ("/redirect?to=ftp://example.org/", "no web address"),
        ("/breaks-off", "."),
        ("/slow", "no answer within 0.3 s"),
    ],
)
def test_trouble_on_the_way_is_network_trouble(site: str, path: str, words: str) -> None:
    with pytest.raises(NetworkTrouble, match=words):
        fetch(f"{site}{path}", timeout_s=0.3 if path == "/slow" else 10)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://no-such-host.invalid/"])
def test_what_cannot_be_reached_is_network_trouble(url: str) -> None:
    with pytest.raises(NetworkTrouble):
        fetch(url)


@pytest.mark.parametrize(
    "url", ["ftp://example.org/", "file:///etc/passwd", "example.org", "http://", "http://[/", ""]
)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(BadRequest, match="url"):
        fetch(url)


def test_headers_with_line_breaks_are_refused(site: str) -> None:
    with pytest.raises(BadRequest, match="headers"):
        fetch(f"{site}/page", headers={"X-A": "b\r\nX-C: d"})


def test_private_addresses_are_refused_with_the_remedy(site: str) -> None:
    with pytest.raises(AddressRefused, match=r"worker\.allow_private"):
        fetch(f"{site}/page", allow_private=False)


def test_metadata_is_refused_behind_a_redirect(site: str) -> None:
    with pytest.raises(AddressRefused, match=r"metadata.*and no others"):
        fetch(f"{site}/redirect?to=http://169.254.169.254/latest/meta-data/")


def test_a_list_comes_back_with_an_outcome_for_each(site: str) -> None:
    urls = [f"{site}/page", f"{site}/missing", "http://127.0.0.1:1/", f"{site}/redirect?to=/page"]
    wanted = msgspec.convert({"urls": urls, "delay_s": 0.01}, HttpFetchParameters)
    measured = asyncio.run(HttpFetch(allow_private=True).run(wanted, Quiet()))
    data = measured.data
    assert [(page.url, page.status) for page in data.pages] == [
        (urls[0], 200),
        (urls[1], 404),
        (urls[3], 200),
    ]
    assert data.pages[0].body == "<p>Grüße</p>"
    assert data.pages[2].ended_at == urls[0]
    assert [each.url for each in data.errors] == ["http://127.0.0.1:1/"]


class TestInItsProcess(ExecutorSuite):
    task_type = "http_fetch"
    settings = WorkerSettings(allow_private=True)
    bad: ClassVar = {"url": "ftp://example.org/"}

    @pytest.fixture(autouse=True)
    def set_up(self, site: str) -> None:
        self.good = {"url": f"{site}/page"}
        self.endless = {"url": f"{site}/slow", "timeout_s": 90}
