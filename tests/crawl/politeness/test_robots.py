import asyncio
import itertools

import pytest

from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.crawl.politeness.robots import REMEMBERED_BYTES, Robots, product_of
from crawlfleet.model.crawl.frontier import HostState
from crawlfleet.model.crawl.parameters import Outcome

HOST = "https://shop.example"
RULES = b"User-agent: *\nDisallow: /private"


class Site:
    """Answers from a table, and remembers what it was asked."""

    def __init__(self, answers: dict[str, Fetched]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def __call__(self, request: FetchRequest) -> Fetched:
        self.asked.append(request.url)
        missing = Fetched(url=request.url, outcome=Outcome.CLIENT_ERROR, status=404)
        return self.answers.get(request.url, missing)


def text(body: bytes = RULES) -> Fetched:
    return Fetched(url="", outcome=Outcome.OK, status=200, body=body)


def redirect(target: str, status: int = 301) -> Fetched:
    headers = (("location", target),)
    return Fetched(url="", outcome=Outcome.REDIRECT, status=status, headers=headers)


def known(site: Site, now: float = 0.0, state: HostState | None = None) -> HostState:
    robots = Robots(site, product="crawlfleet")
    return asyncio.run(robots.refreshed(HOST, state or HostState(), now))


def test_it_is_fetched_once_and_asked_from_memory() -> None:
    site = Site({f"{HOST}/robots.txt": text()})
    robots = Robots(site, product="crawlfleet")
    state = asyncio.run(robots.refreshed(HOST, HostState(failures=2), 0.0))
    state = asyncio.run(robots.refreshed(HOST, state, 10.0))

    assert site.asked == [f"{HOST}/robots.txt"]
    assert state.failures == 2
    rules = robots.rules(HOST, state, 10.0)
    assert not rules.allows(f"{HOST}/private/a")
    assert rules.allows(f"{HOST}/public")
    assert robots.rules(HOST, state, 20.0) is rules


def test_redirects_are_followed_even_to_other_hosts() -> None:
    site = Site(
        {
            f"{HOST}/robots.txt": redirect("/r/1"),
            f"{HOST}/r/1": redirect("https://other.example/r?utm_source=kept&b&a", 302),
            "https://other.example/r?utm_source=kept&b&a": text(),
        }
    )
    assert known(site).robots == RULES


def test_after_too_many_redirects_there_are_no_rules() -> None:
    names = [f"{HOST}/robots.txt", *(f"{HOST}/r/{hop}" for hop in range(20))]
    site = Site({name: redirect(after) for name, after in itertools.pairwise(names)})

    state = known(site)

    assert len(site.asked) == 6
    assert Robots(site, product="crawlfleet").rules(HOST, state, 1.0).allows(f"{HOST}/private")


@pytest.mark.parametrize("target", ["", "/robots.txt", "ftp://shop.example/", "https://"])
def test_a_redirect_that_leads_nowhere_means_no_rules(target: str) -> None:
    site = Site({f"{HOST}/robots.txt": redirect(target)})

    assert known(site).robots_failed_at == 0.0
    assert len(site.asked) == 1


def test_nothing_is_allowed_while_it_cannot_be_had_and_it_says_why() -> None:
    broken = Fetched(url="", outcome=Outcome.SERVER_ERROR, status=503)
    site = Site({f"{HOST}/robots.txt": broken})
    state = known(site, now=100.0)
    rules = Robots(site, product="crawlfleet").rules(HOST, state, 100.0)

    assert not rules.allows(f"{HOST}/")
    assert rules.allows(f"{HOST}/robots.txt")
    assert "503" in rules.reason
    site.answers[f"{HOST}/robots.txt"] = text()
    assert known(site, now=state.robots_until, state=state).robots == RULES


WALL = (
    b"<!DOCTYPE html><title>Just a moment...</title>"
    b"<body>Checking your browser<script src=/cdn-cgi/challenge-platform/x></script>"
)
SHOP = b"<!DOCTYPE html><title>Our shop</title><body>" + b"Welcome to our shop. " * 200
HTML = ("content-type", "text/html; charset=utf-8")


@pytest.mark.parametrize(
    ("status", "body", "header", "allowed"),
    [
        (200, WALL, HTML, False),
        (200, b"\n\n" + WALL, ("content-type", "text/plain"), False),
        (200, WALL + b"\nUser-agent: you\nAllow: /", HTML, False),
        (200, b"Please enable JavaScript and cookies to continue", HTML, False),
        (202, b"", HTML, False),
        (202, RULES, ("content-type", "text/plain"), False),
        (200, b"", ("cf-mitigated", "challenge"), False),
        (403, WALL, HTML, False),
        (403, b"", ("cf-mitigated", "challenge"), False),
        (200, SHOP, HTML, True),
        (404, SHOP, HTML, True),
        (403, b"<title>403 Forbidden</title><body>nginx", HTML, True),
        (200, b"# automated access is watched\n" + RULES, HTML, True),
        (200, SHOP + b"\n" + RULES, HTML, True),
    ],
)
def test_a_wall_in_its_place_closes_the_host_and_a_page_of_the_site_does_not(
    status: int, body: bytes, header: tuple[str, str], allowed: bool
) -> None:
    outcome = Outcome.OK if status < 300 else Outcome.BLOCKED
    answer = Fetched(url=HOST, outcome=outcome, status=status, body=body, headers=(header,))
    state = known(Site({f"{HOST}/robots.txt": answer}), now=100.0)
    rules = Robots(Site({}), product="crawlfleet").rules(HOST, state, 100.0)

    assert rules.allows(f"{HOST}/") is allowed
    assert state.robots_until - 100.0 == (86_400.0 if allowed else 300.0)
    if RULES in body and status == 200:
        assert rules.allows(f"{HOST}/private") is False


def test_new_rules_replace_the_old_ones() -> None:
    robots = Robots(Site({}), product="crawlfleet")
    day = {"robots_status": 200, "robots_until": 1e9}
    old, new = HostState(robots=RULES, **day), HostState(robots=b"", **day)

    assert not robots.rules(HOST, old, 0.0).allows(f"{HOST}/private")
    assert robots.rules(HOST, new, 0.0).allows(f"{HOST}/private")


def test_memory_is_bounded() -> None:
    robots = Robots(Site({}), product="crawlfleet", remembered=10)
    state = HostState(robots=RULES, robots_status=200, robots_until=1e9)
    for number in range(100):
        robots.rules(f"https://h{number}.example", state, 0.0)
    assert len(robots._parsed) == 10

    large = HostState(robots=b"#" * 500_000, robots_status=200, robots_until=1e9)
    roomy = Robots(Site({}), product="crawlfleet")
    for number in range(100):
        roomy.rules(f"https://h{number}.example", large, 0.0)
        roomy.rules(f"https://h{number}.example", state, 0.0)
        roomy.rules(f"https://h{number}.example", large, 0.0)
    assert roomy._bytes <= REMEMBERED_BYTES
    assert roomy._bytes == sum(len(text) for text, _ in roomy._parsed.values())


@pytest.mark.parametrize(
    ("agent", "product"),
    [
        ("crawlfleet/1.0 (+https://shop.example)", "crawlfleet"),
        ("Mozilla/5.0 (compatible; mybot/2.0; +https://shop.example)", "mybot"),
        ("Mozilla/5.0 (X11; Linux)", "Mozilla"),
        ("my-bot", "my-bot"),
        ("", "*"),
    ],
)
def test_the_product_is_the_name_of_the_crawler(agent: str, product: str) -> None:
    assert product_of(agent) == product
