"""Whole crawls of small sites with one peculiarity each."""

import asyncio
import errno
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.frontier.sqlite import SqliteFrontier
from crawlfleet.core.crawls.shared_crawl import rules_of
from crawlfleet.crawl.engine import build
from crawlfleet.crawl.engine.build import checked
from crawlfleet.crawl.engine.crawl import CrawlRun
from crawlfleet.crawl.engine.local import local_crawl
from crawlfleet.crawl.extract.limited_reader import LimitedReader
from crawlfleet.crawl.output.sinks import open_sink
from crawlfleet.crawl.politeness import robots_gate
from crawlfleet.errors import SinkUnusable
from crawlfleet.model.crawl.parameters import CrawlParameters, Fetching, Limits, Outcome, Scope
from crawlfleet.model.crawl.reading import Reading
from crawlfleet.ports.sink import PageRecord, Sink
from crawlfleet.testing.zoo.animal import reply
from tests.crawl.crawling import HASTY, POLITE, OddSite, crawl, odd_site, parameters_for, records

pytestmark = pytest.mark.slow

IMPATIENT = msgspec.structs.replace(POLITE, retries=0)


@pytest.fixture
def site() -> Iterator[OddSite]:
    with odd_site() as site:
        yield site


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_where_a_seed_leads_belongs_to_the_crawl(
    site: OddSite, tmp_path: Path, workers: int
) -> None:
    moved = reply(b"", f"Location: {site.url('/home', 2)}", status="301 Moved Permanently")
    site.answers["/"] = moved
    site.page("/home", "/a", site.url("/elsewhere", 3))
    site.page("/a", "/b")
    site.page("/b")
    crawled = crawl(tmp_path, site.url("/"), scope=Scope(), workers=workers)

    assert crawled.summary.pages == 3
    assert {item["title"] for item in crawled.items} == {"/home", "/a", "/b"}
    assert "/elsewhere" not in site.paths()


@pytest.mark.parametrize("workers", [1, 2])
def test_numbers_of_any_size_reach_the_output(
    site: OddSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Nor do files that lie where the crawl is started stand in the way of its processes."""
    (tmp_path / "selectors.py").write_text("raise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    data = b'{"sku": 123456789012345678901234}'
    site.answers["/"] = reply(b'<script type="application/ld+json">%s</script>' % data)
    crawled = crawl(tmp_path, site.url("/"), structured=True, workers=workers)

    (item,) = [each for each in crawled.items if "json_ld" in each]
    assert item["json_ld"] == [{"sku": 123456789012345678901234}]


def test_where_a_seed_led_is_known_to_a_later_life(site: OddSite, tmp_path: Path) -> None:
    site.answers["/"] = reply(
        b"", f"Location: {site.url('/home', 2)}", status="301 Moved Permanently"
    )
    site.page("/home")
    far = reply(f"<a href='{site.url('/late', 2)}'>".encode())
    answers = [far, reply(b"", "Retry-After: 2", status="503 Busy")]
    site.answers["/slow"] = lambda asked: answers.pop()
    site.page("/late")
    parameters = parameters_for(tmp_path, site.url("/"), site.url("/slow"), scope=Scope())

    async def two_lives() -> Any:
        stop = asyncio.Event()
        first = local_crawl(parameters, frontier=tmp_path / "frontier.db")
        living = asyncio.create_task(first.run(stop))
        while "/home" not in site.paths():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        stop.set()
        assert (await living).pages == 1
        second = local_crawl(parameters, frontier=tmp_path / "frontier.db")
        return await second.run(asyncio.Event())

    summary = asyncio.run(two_lives())

    assert "/late" in site.paths()
    assert summary.pages == 3


def test_cookies_are_sent_back(site: OddSite, tmp_path: Path) -> None:
    site.page("/", "/members", headers=["Set-Cookie: key=abc; Path=/"])
    site.page("/members", "/more")
    members, denied = site.answers["/members"], reply(b"no", status="403 Forbidden")
    site.answers["/members"] = lambda asked: members if "key=abc" in asked.cookie else denied
    crawled = crawl(tmp_path, site.url("/"))
    assert crawled.summary.pages == 2

    without = tmp_path / "without"
    without.mkdir()
    fetching = Fetching(allow_private=True, cookies=False)
    assert crawl(without, site.url("/"), fetching=fetching).summary.outcomes["blocked"] == 1


def test_a_page_that_sends_us_to_itself_with_a_cookie_is_seen(
    site: OddSite, tmp_path: Path
) -> None:
    site.page("/")
    page = site.answers["/"]
    wall = reply(b"", "Location: /", "Set-Cookie: seen=1", status="302 Found")
    site.answers["/"] = lambda asked: page if "seen=1" in asked.cookie else wall

    assert crawl(tmp_path, site.url("/")).summary.pages == 1


def test_what_robots_txt_disallows_is_not_asked_for(site: OddSite, tmp_path: Path) -> None:
    rules = b"User-agent: *\nDisallow: /admin\n"
    site.answers["/robots.txt"] = reply(rules, content_type="text/plain")
    site.page("/", "/admin/1", "/open")
    site.page("/open")
    crawled = crawl(tmp_path, site.url("/"), politeness=POLITE)

    assert "/admin/1" not in site.paths()
    record = crawled.record(site.url("/admin/1"))
    assert record is not None
    assert (record.outcome, record.note) == (Outcome.ROBOTS, "robots.txt disallows it")
    assert crawled.summary.pages == 2


def test_meta_robots_and_nofollow_are_heeded(site: OddSite, tmp_path: Path) -> None:
    site.page("/", "/silent", "/closed", "/header")
    site.page("/silent", "/behind-silent", head='<meta name="robots" content="noindex">')
    site.page("/closed", "/behind-closed", head='<meta name="robots" content="nofollow">')
    site.page("/header", "/behind-header", headers=["X-Robots-Tag: none"])
    site.page("/behind-silent")
    crawled = crawl(tmp_path, site.url("/"))

    assert {item["title"] for item in crawled.items} == {"/", "/closed", "/behind-silent"}
    assert {"/behind-closed", "/behind-header"}.isdisjoint(site.paths())


@pytest.mark.parametrize(
    "fetching",
    [
        Fetching(allow_private=True, user_agent="Shop-Watch/1.0 (+https://me.example)"),
        Fetching(
            allow_private=True,
            headers={"user-agent": "Mozilla/5.0 (compatible; shop-watch/2.0)"},
        ),
    ],
    ids=["user agent", "header"],
)
def test_a_page_speaks_to_a_crawl_by_the_name_of_its_user_agent(
    site: OddSite, tmp_path: Path, fetching: Fetching
) -> None:
    site.page("/", "/silent", "/header", "/not-me")
    site.page("/silent", head='<meta name="shop-watch" content="noindex">')
    site.page("/header", headers=["X-Robots-Tag: shop-watch: noindex"])
    head = '<meta name="crawlfleet" content="noindex">'
    site.page("/not-me", head=head, headers=["X-Robots-Tag: crawlfleet: noindex"])
    crawled = crawl(tmp_path, site.url("/"), fetching=fetching)

    assert {item["title"] for item in crawled.items} == {"/", "/not-me"}


def test_links_that_nobody_vouches_for_can_be_left_out(site: OddSite, tmp_path: Path) -> None:
    site.answers["/"] = reply(b'<a href="/a" rel="nofollow">a</a> <a href="/b">b</a>')
    site.page("/b")
    scope = Scope(within="any", follow_nofollow=False)
    crawl(tmp_path, site.url("/"), scope=scope)

    assert "/a" not in site.paths()
    assert "/b" in site.paths()


@pytest.mark.parametrize("wanted", [True, False])
def test_sitemaps_are_a_source_of_links_when_asked_for(
    site: OddSite, tmp_path: Path, wanted: bool
) -> None:
    text = f"User-agent: *\nAllow: /\nSitemap: {site.url('/sitemap.xml')}\n"
    site.answers["/robots.txt"] = reply(text.encode(), content_type="text/plain")
    listed = f"<urlset><url><loc>{site.url('/hidden')}</loc></url></urlset>"
    site.answers["/sitemap.xml"] = reply(listed.encode(), content_type="application/xml")
    site.page("/")
    site.page("/hidden")
    scope = Scope(within="host", sitemaps=wanted)
    crawl(tmp_path, site.url("/"), scope=scope, politeness=POLITE)

    assert ("/hidden" in site.paths()) is wanted


def test_a_sitemap_on_another_host_does_not_widen_the_scope(site: OddSite, tmp_path: Path) -> None:
    """Where robots.txt names it, it is read; what it lists belongs only if it would anyway."""
    text = f"User-agent: *\nAllow: /\nSitemap: {site.url('/sitemap.xml', 2)}\n"
    site.answers["/robots.txt"] = reply(text.encode(), content_type="text/plain")
    listed = [site.url("/hidden"), site.url("/theirs", 2), site.url("/others", 3)]
    urls = "".join(f"<url><loc>{url}</loc></url>" for url in listed)
    index = f"<sitemapindex><sitemap><loc>{site.url('/more.xml', 3)}</loc></sitemap></sitemapindex>"
    site.answers["/sitemap.xml"] = reply(
        f"<urlset>{urls}</urlset>".encode(), content_type="application/xml"
    )
    site.answers["/more.xml"] = reply(index.encode(), content_type="application/xml")
    site.page("/")
    for path in ("/hidden", "/theirs", "/others"):
        site.page(path, site.url("/behind", 2))
    scope = Scope(within="host", sitemaps=True)
    crawled = crawl(tmp_path, site.url("/"), scope=scope, politeness=POLITE)

    assert {item["title"] for item in crawled.items} == {"/", "/hidden"}
    pages = {(asked.host, asked.path) for asked in site.asked if "robots" not in asked.path}
    assert pages == {
        ("127.0.0.1", "/"),
        ("127.0.0.1", "/hidden"),
        ("127.0.0.2", "/sitemap.xml"),
    }


@pytest.mark.parametrize("sets", ["at the door", "at the desk"])
def test_a_wall_that_leads_back_with_a_cookie_is_passed(
    site: OddSite, tmp_path: Path, sets: str
) -> None:
    """A leads to B, which leads back to A; the cookie comes with one of them."""
    site.page("/", "/a", "/other")
    site.page("/a", "/behind")
    site.page("/other")
    site.page("/behind")
    cookie = ["Set-Cookie: seen=1; Path=/"]
    door, desk = (cookie, []) if sets == "at the door" else ([], cookie)
    for path in ("/", "/a", "/other", "/behind"):
        page = site.answers[path]
        wall = reply(b"", f"Location: /wall?to={path}", *door, status="302 Found")
        site.answers[path] = lambda asked, page=page, wall=wall: (
            page if "seen=1" in asked.cookie else wall
        )
        back = reply(b"", f"Location: {path}", *desk, status="302 Found")
        site.answers[f"/wall?to={path}"] = back
    politeness = msgspec.structs.replace(HASTY, concurrency=1)
    crawled = crawl(tmp_path, site.url("/"), politeness=politeness)

    assert {item["title"] for item in crawled.items} == {"/", "/a", "/other", "/behind"}
    assert crawled.summary.pages == 4
    assert len(crawled.items) == 4
    assert site.paths().count("/") == 2


def test_a_wall_without_a_way_through_ends(site: OddSite, tmp_path: Path) -> None:
    number = 0

    def door(asked: object) -> bytes:
        nonlocal number
        number += 1
        return reply(
            b"", "Location: /wall", f"Set-Cookie: try={number}; Path=/", status="302 Found"
        )

    site.answers["/"] = door
    site.answers["/wall"] = reply(b"", "Location: /", status="302 Found")
    crawled = crawl(tmp_path, site.url("/"))

    assert crawled.summary.finished
    assert crawled.summary.pages == 0
    assert len(site.asked) <= 6


def test_a_page_that_only_says_not_found_is_no_item(site: OddSite, tmp_path: Path) -> None:
    site.page("/", "/gone")
    sorry = b"<html><head><title>404 Not Found</title></head><body><p>Page not found.</p></body>"
    site.answers["/gone"] = reply(sorry)
    crawled = crawl(tmp_path, site.url("/"))

    record = crawled.record(site.url("/gone"))
    assert record is not None
    assert record.outcome == Outcome.SOFT_404
    assert [item["title"] for item in crawled.items] == ["/"]


def test_a_host_that_nobody_answers_for_is_an_outcome(site: OddSite, tmp_path: Path) -> None:
    site.page("/", "http://127.0.0.1:9/a", "http://127.0.0.1:9/b", "http://nobody.invalid/")
    crawled = crawl(tmp_path, site.url("/"), politeness=IMPATIENT)

    outcomes = crawled.summary.outcomes
    assert crawled.summary.finished
    assert (outcomes["ok"], outcomes["connect"], outcomes["dns"]) == (1, 2, 1)


def test_a_dead_host_is_tried_again_with_its_robots_txt(site: OddSite, tmp_path: Path) -> None:
    """It comes back with its rules: nothing was decided while it was away."""
    tries = 0

    def hang_up_first(asked: object) -> bytes:
        nonlocal tries
        tries += 1
        text = b"garbage\r\n\r\n" if tries == 1 else reply(b"User-agent: *\nDisallow: /no\n")
        return text.replace(b"text/html", b"text/plain")

    site.answers["/robots.txt"] = hang_up_first
    site.page("/", "/no", "/yes")
    site.page("/yes")
    crawled = crawl(tmp_path, site.url("/"), politeness=POLITE)

    assert site.paths().count("/robots.txt") == 2
    assert "/no" not in site.paths()
    assert crawled.summary.pages == 2


def test_a_robots_txt_with_an_error_is_waited_for(
    site: OddSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robots_gate, "FIRST_RETRY_S", 0.3)
    monkeypatch.setattr("crawlfleet.core.urls.robots_rules.FIRST_RETRY_S", 0.3)
    answers = [reply(b"", status="503 Busy")]
    site.answers["/robots.txt"] = lambda asked: answers.pop() if answers else reply(b"")
    site.page("/", "/a")
    site.page("/a")
    crawled = crawl(tmp_path, site.url("/"), politeness=POLITE)

    assert crawled.summary.pages == 2
    assert site.paths()[:2] == ["/robots.txt", "/robots.txt"]


def test_without_patience_a_robots_txt_with_an_error_closes_the_host(
    site: OddSite, tmp_path: Path
) -> None:
    site.answers["/robots.txt"] = reply(b"", status="503 Busy")
    site.page("/", "/a")
    crawled = crawl(tmp_path, site.url("/"), politeness=IMPATIENT)

    assert crawled.summary.outcomes == {Outcome.ROBOTS: 1}
    assert site.paths() == ["/robots.txt"]


WALL = b"<title>Just a moment...</title><script src=/cdn-cgi/challenge-platform/x></script>"


@pytest.mark.parametrize(
    ("answer", "opens"),
    [
        (reply(WALL), False),
        (reply(WALL, "cf-mitigated: challenge", status="403 Forbidden"), False),
        (reply(b"", status="202 Accepted"), False),
        (reply(b"<title>Shop</title>" + b"Welcome. " * 500), True),
        (reply(b"<title>403 Forbidden</title>nginx", status="403 Forbidden"), True),
    ],
)
def test_a_wall_in_place_of_robots_txt_does_not_open_the_site(
    site: OddSite, tmp_path: Path, answer: bytes, opens: bool
) -> None:
    site.answers["/robots.txt"] = answer
    site.page("/")
    crawled = crawl(tmp_path, site.url("/"), politeness=IMPATIENT)

    assert crawled.summary.outcomes == {Outcome.OK if opens else Outcome.ROBOTS: 1}
    assert site.paths() == ["/robots.txt", "/"][: 1 + opens]


def test_robots_txt_is_read_again_while_a_host_is_held(
    site: OddSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlfleet.core.urls.robots_rules.LIFETIME_S", 0.5)
    site.answers["/robots.txt"] = reply(b"User-agent: *\nAllow: /\n", content_type="text/plain")
    for number in range(30):
        site.page(f"/{number}", f"/{number + 1}")

    def change(asked: object) -> bytes:
        closed = b"User-agent: *\nDisallow: /\n"
        site.answers["/robots.txt"] = reply(closed, content_type="text/plain")
        return page

    page = site.answers["/5"]
    site.answers["/5"] = change
    politeness = msgspec.structs.replace(POLITE, delay_s=0.1)
    crawled = crawl(tmp_path, site.url("/0"), politeness=politeness)

    assert crawled.summary.outcomes["robots"] == 1
    assert 6 <= crawled.summary.pages < 30


def test_a_page_that_our_reader_fails_on_does_not_end_the_crawl(
    site: OddSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(LimitedReader):
        def read(self, body: bytes, url: str, **more: Any) -> Reading:
            if url.endswith("/poison"):
                raise RecursionError("too deep")
            return super().read(body, url, **more)

    monkeypatch.setattr(build, "LimitedReader", Failing)
    site.page("/", "/poison", "/fine")
    site.page("/poison")
    site.page("/fine")
    crawled = crawl(tmp_path, site.url("/"))

    assert crawled.summary.outcomes == {Outcome.OK: 2, Outcome.UNREADABLE: 1}


def test_a_host_that_stays_away_is_given_up_with_all_its_urls(
    site: OddSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlfleet.core.politeness.host_clock._FIRST_FAILURE_PAUSE_S", 0.01)
    monkeypatch.setattr("crawlfleet.core.politeness.host_clock.GIVEN_UP_S", 0.2)
    site.page("/", *(f"http://127.0.0.1:9/{number}" for number in range(100)))
    politeness = msgspec.structs.replace(HASTY, retries=50, retry_delay_s=0.0, max_delay_s=0.05)
    crawled = crawl(tmp_path, site.url("/"), politeness=politeness)

    assert crawled.summary.outcomes == {Outcome.OK: 1, Outcome.CONNECT: 100}


def test_a_long_pause_does_not_hold_up_the_end(site: OddSite, tmp_path: Path) -> None:
    site.page("/", site.url("/later", 2), "/a")
    site.page("/a")
    busy = reply(b"", "Retry-After: 3600", status="429 Too Many")
    site.answers["/later"] = busy
    crawled = crawl(tmp_path, site.url("/"), limits=Limits(max_seconds=2.0))

    assert not crawled.summary.finished
    assert "max_seconds" in crawled.summary.why
    assert crawled.summary.waiting == 1
    assert crawled.summary.pages == 2
    record = records(crawled.frontier, crawled.parameters, [site.url("/later", 2)])[0]
    assert record is not None
    assert record.due is not None
    assert record.due > time.time() + 3000


class Wrapped:
    """A sink with something of its own around staging."""

    wants_bodies = False

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.open, self.finish, self.close = sink.open, sink.finish, sink.close

    async def stage(self, pages: Sequence[PageRecord]) -> Any:
        return await self._sink.stage(pages)


class FullDisk(Wrapped):
    """Takes a part of what it is given, as a disk does that is full."""

    room = 15

    async def stage(self, pages: Sequence[PageRecord]) -> Any:
        self.room -= len(pages)
        if self.room < 0:
            await self._sink.stage(pages[:1])
            raise OSError(errno.ENOSPC, "No space left on device")
        return await self._sink.stage(pages)


class Slow(Wrapped):
    async def stage(self, pages: Sequence[PageRecord]) -> Any:
        receipt = await self._sink.stage(pages)
        await asyncio.sleep(0.05)
        return receipt


def crawl_into(folder: Path, parameters: CrawlParameters, wrap: type[Wrapped]) -> CrawlRun:
    _, plan = checked(parameters)
    return CrawlRun(
        parameters,
        frontier=SqliteFrontier(path=folder / "frontier.db", rules=rules_of(parameters)),
        sinks={spec.url: wrap(open_sink(spec, plan)) for spec in parameters.sinks},
        allow_private=True,
    )


def test_a_full_disk_ends_the_crawl_and_it_can_go_on(site: OddSite, tmp_path: Path) -> None:
    for number in range(60):
        site.page(f"/{number}", f"/{number + 1}", f"/{number + 2}")
    parameters = parameters_for(tmp_path, site.url("/0"))

    with pytest.raises(SinkUnusable, match=r"items\.jsonl cannot be written: No space left"):
        asyncio.run(crawl_into(tmp_path, parameters, FullDisk).run(asyncio.Event()))

    crawled = crawl(tmp_path, site.url("/0"))
    titles = [item["title"] for item in crawled.items]
    assert sorted(titles) == sorted(f"/{number}" for number in range(60))
    assert crawled.summary.items == 60


def test_stopping_in_the_middle_of_a_step_loses_and_doubles_nothing(
    site: OddSite, tmp_path: Path
) -> None:
    for number in range(40):
        site.page(f"/{number}", f"/{number + 1}", f"/{number + 2}")
    parameters = parameters_for(tmp_path, site.url("/0"))

    async def live(seconds: float) -> bool:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, stop.set)
        return (await crawl_into(tmp_path, parameters, Slow).run(stop)).finished

    lives = 0
    while not asyncio.run(live(0.05 + 0.03 * lives)):
        lives += 1
    titles = [item["title"] for item in crawl(tmp_path, site.url("/0")).items]
    assert sorted(titles) == sorted(f"/{number}" for number in range(40))
    assert lives > 1
