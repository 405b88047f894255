import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protego import Protego

from crawlfleet.core.urls.robots_rules import (
    FIRST_RETRY_S,
    FORGIVEN_AFTER_S,
    LIFETIME_S,
    MAX_BYTES,
    MAX_RETRY_S,
    RobotsAnswer,
    is_due,
    learn,
    names_somebody,
    parse,
    verdict,
)
from crawlfleet.model.crawl.frontier import HostState
from crawlfleet.model.crawl.parameters import Outcome
from tests.sampling import examples

SITE = "https://shop.example"

# RFC 9309, section 5.1
SIMPLE = b"""
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""


def allowed(text: bytes | str, path: str, product: str = "crawlfleet") -> bool:
    body = text.encode() if isinstance(text, str) else text
    return parse(body, product).allows(SITE + path)


@pytest.mark.parametrize(
    ("product", "path", "allows"),
    [
        ("other", "/example/page.html", False),
        ("other", "/a.gif", False),
        ("other", "/a.gif?b", True),
        ("other", "/publications/a", True),
        ("other", "/robots.txt", True),
        ("foobot", "/", False),
        ("FooBot", "/anything", False),
        ("foobot", "/robots.txt", True),
        ("foobot", "/example/page.html", True),
        ("foobot", "/example/allowed.gif", True),
        ("barbot", "/example/page.html", False),
        ("bazbot", "/example/page.html", False),
        ("bazbot", "/a.gif", True),
        ("quxbot", "/example/page.html", True),
        ("quxbot", "/a.gif", True),
    ],
)
def test_the_first_example_of_the_rfc(product: str, path: str, allows: bool) -> None:
    assert allowed(SIMPLE, path, product) == allows


def test_the_longest_match_wins_as_in_the_second_example_of_the_rfc() -> None:
    text = b"User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif"

    assert not allowed(text, "/example/page/disallowed.gif", "foobot")
    assert allowed(text, "/example/page/other.gif", "foobot")


@pytest.mark.parametrize(
    ("rules", "path", "allows"),
    [
        # of two equally long rules the one that allows
        ("Disallow: /a\nAllow: /a", "/a", True),
        ("Allow: /a\nDisallow: /a", "/a", True),
        # the order does not matter
        ("Disallow: /\nAllow: /a", "/a/b", True),
        ("Allow: /a\nDisallow: /", "/a/b", True),
        ("Disallow: /\nAllow: /a", "/b", False),
        # wildcards and the end
        ("Disallow: /*.php$", "/a/b.php", False),
        ("Disallow: /*.php$", "/a/b.php?c", True),
        ("Disallow: /*.php", "/a/b.php5", False),
        ("Disallow: /a*b*c", "/aXbYcZ", False),
        ("Disallow: /a*b*c", "/acb", True),
        ("Disallow: /fish*", "/fish/salmon", False),
        ("Disallow: /*", "/", False),
        ("Disallow: *", "/", False),
        ("Disallow: /a$", "/a", False),
        ("Disallow: /a$", "/ab", True),
        ("Disallow: /*?sort=", "/list?sort=up", False),
        ("Disallow: /*?sort=", "/list?page=2", True),
        # escapes, as in section 2.2.2 of the RFC
        ("Disallow: /foo/bar?baz=quz", "/foo/bar?baz=quz", False),
        ("Disallow: /foo/bar?baz=http://foo.bar", "/foo/bar?baz=http://foo.bar", False),
        ("Disallow: /foo/bar/ツ", "/foo/bar/%E3%83%84", False),
        ("Disallow: /foo/bar/%E3%83%84", "/foo/bar/%E3%83%84", False),
        ("Disallow: /foo/bar/%62%61%7A", "/foo/bar/baz", False),
        ("Disallow: /a%3cd.html", "/a%3Cd.html", False),
        ("Disallow: /~joe/", "/%7Ejoe/index.html", False),
        # case, emptiness, comments
        ("Disallow: /A", "/a", True),
        ("DISALLOW: /a", "/a", False),
        ("Disallow:", "/a", True),
        ("Disallow: /a # and below", "/a/b", False),
        ("Disallow: /a #/b", "/a/c", False),
        ("   Disallow :   /a   ", "/a", False),
        ("Disalow: /a", "/a", False),
        ("Nonsense\n\n: \nDisallow: /a", "/a", False),
    ],
)
def test_rules_match_as_the_rfc_has_it(rules: str, path: str, allows: bool) -> None:
    assert allowed(f"User-agent: *\n{rules}", path) == allows


@pytest.mark.parametrize(
    ("lines", "ours"),
    [
        ("User-agent: crawlfleet", True),
        ("User-agent: CrawlFleet", True),
        ("User-agent: crawlfleet/1.0", True),
        ("User-agent: crawlfleet (our own)", True),
        ("user-agent:crawlfleet", True),
        ("User-agent: other\nUser-agent: crawlfleet", True),
        ("User-agent: crawlfleet\n\n\nUser-agent: other", True),
        ("User-agent: crawlfleet\nSitemap: /s.xml\nUser-agent: other", True),
        ("User-agent: *", True),
        ("User-agent: crawl", False),
        ("User-agent: crawlfleet-images", False),
        ("User-agent: fleet", False),
        ("User-agent: other", False),
        ("User-agent: crawlfleet\nDisallow: /b\nUser-agent: other", False),
        ("User-agent:", False),
        ("", False),
    ],
)
def test_a_group_is_ours_by_our_whole_name(lines: str, ours: bool) -> None:
    assert allowed(f"{lines}\nDisallow: /a", "/a") == (not ours)


def test_groups_of_one_name_count_together_and_those_of_all_do_not() -> None:
    text = (
        "User-agent: crawlfleet\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\nCrawl-delay: 9\n\n"
        "User-agent: CRAWLFLEET\nDisallow: /c\nCrawl-delay: 2.5"
    )
    rules = parse(text.encode(), "crawlfleet")

    assert [rules.allows(f"{SITE}/{name}") for name in "abcd"] == [False, True, False, True]
    assert rules.crawl_delay_s == 2.5


def test_an_own_group_without_rules_allows_all() -> None:
    rules = parse(b"User-agent: *\nDisallow: /\nUser-agent: crawlfleet\nDisallow:", "crawlfleet")

    assert rules.everything
    assert rules.allows(f"{SITE}/a")


@pytest.mark.parametrize("delay", ["soon", "-1", "nan", "inf", "", "1e400"])
def test_a_crawl_delay_that_makes_no_sense_is_none(delay: str) -> None:
    rules = parse(f"User-agent: *\nCrawl-delay: {delay}\nDisallow: /a".encode(), "crawlfleet")

    assert rules.crawl_delay_s is None
    assert not rules.allows(f"{SITE}/a")


def test_sitemaps_belong_to_the_whole_file() -> None:
    text = "Sitemap: https://shop.example/a.xml\nUser-agent: x\nDisallow: /\nSITEMAP: /b.xml#c\n"

    assert parse(text.encode() * 2, "crawlfleet").sitemaps == (
        "https://shop.example/a.xml",
        "/b.xml",
    )


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_marks_and_line_ends_of_all_systems(mark: str, ends: str) -> None:
    assert not allowed(mark + ends.join(["User-agent: *", "Disallow: /a"]), "/a")


def test_only_the_beginning_of_a_large_file_counts() -> None:
    filler = b"# " + b"x" * 100 + b"\n"
    early = b"User-agent: *\nDisallow: /early\n" + filler * (MAX_BYTES // 100)

    assert not allowed(early + b"Disallow: /late\n", "/early")
    assert allowed(early + b"Disallow: /late\n", "/late")


@pytest.mark.parametrize(
    "line",
    [b"a" + b" " * 500_000, b"a" * 500_000, b":" * 500_000, b"Disallow: /" + b"*a" * 250_000],
    ids=["blanks", "letters", "colons", "wildcards"],
)
def test_hostile_lines_take_no_time(line: bytes) -> None:
    rules = parse(b"User-agent: *\n" + line + b"\nDisallow: /b", "crawlfleet")

    assert not rules.allows(f"{SITE}/b")
    assert rules.allows(f"{SITE}/" + "c" * 2000)


@given(st.binary(max_size=200))
def test_rubbish_is_read_without_complaint(body: bytes) -> None:
    parse(body, "crawlfleet").allows(f"{SITE}/a?b=%zz")
    parse(b"User-agent: *\nDisallow: " + body, "crawlfleet").allows(f"{SITE}/a")


LINES = st.lists(
    st.sampled_from(
        ["User-agent: *", "User-agent: crawlfleet", "User-agent: other", "Disallow: /", "Allow: /a",
         "Disallow: /a/*", "Allow: /a/b$", "Disallow:", "# note", "", "Crawl-delay: 3",
         "Disallow: /*?", "Allow: /*.html$", "Sitemap: /s.xml"]
    ),
    max_size=12,
)  # fmt: skip
PATHS = st.sampled_from(["/", "/a", "/a/b", "/a/b/c.html", "/d?e=1", "/a/?f", "/g.html", "/a/b?h"])


@settings(max_examples=examples(500))
@given(LINES, PATHS)
def test_protego_alone_says_the_same_where_names_are_whole(lines: list[str], path: str) -> None:
    text = "\n".join(lines)
    ours, theirs = parse(text.encode(), "crawlfleet"), Protego.parse(text)

    assert ours.allows(SITE + path) == theirs.can_fetch(SITE + path, "crawlfleet")


def test_an_answer_counts_for_a_day() -> None:
    state = learn(HostState(), RobotsAnswer(outcome=Outcome.OK, status=200, body=b"x"), 100.0)

    assert state == HostState(robots=b"x", robots_status=200, robots_until=100.0 + LIFETIME_S)
    assert not is_due(state, LIFETIME_S)
    assert is_due(state, 100.0 + LIFETIME_S)
    assert is_due(HostState(), 0.0)
    assert is_due(None, 0.0)
    assert verdict(state, 100.0).access == "rules"


@pytest.mark.parametrize(
    ("answer", "access"),
    [
        (RobotsAnswer(outcome=Outcome.CLIENT_ERROR, status=404), "all"),
        (RobotsAnswer(outcome=Outcome.CLIENT_ERROR, status=410), "all"),
        (RobotsAnswer(outcome=Outcome.BLOCKED, status=401), "all"),
        (RobotsAnswer(outcome=Outcome.BLOCKED, status=403), "all"),
        (RobotsAnswer(outcome=Outcome.REDIRECT, status=304), "all"),
        (RobotsAnswer(outcome=Outcome.REDIRECT_LOOP, status=310, lost_in_redirects=True), "all"),
        (RobotsAnswer(outcome=Outcome.BLOCKED, status=429), "none"),
        (RobotsAnswer(outcome=Outcome.SERVER_ERROR, status=500), "none"),
        (RobotsAnswer(outcome=Outcome.SERVER_ERROR, status=503), "none"),
        (RobotsAnswer(outcome=Outcome.DNS), "none"),
        (RobotsAnswer(outcome=Outcome.CONNECT), "none"),
        (RobotsAnswer(outcome=Outcome.TIMEOUT), "none"),
        (RobotsAnswer(outcome=Outcome.OK, status=200), "rules"),
        (RobotsAnswer(outcome=Outcome.OK, status=203), "rules"),
        (RobotsAnswer(outcome=Outcome.OK, status=204), "rules"),
        (RobotsAnswer(outcome=Outcome.PAYMENT_REQUIRED, status=402), "all"),
        *(
            (RobotsAnswer(outcome=Outcome.OK, status=status), "none")
            for status in (201, 202, 205, 206)
        ),
        (RobotsAnswer(outcome=Outcome.OK, status=200, body=b"<p>", wall=True), "none"),
        (RobotsAnswer(outcome=Outcome.BLOCKED, status=403, wall=True), "none"),
        (RobotsAnswer(outcome=Outcome.TOO_LARGE, status=200), "none"),
        (RobotsAnswer(outcome=Outcome.TOO_LARGE, status=200, body=b"x"), "rules"),
    ],
)
def test_what_the_absence_of_rules_means(answer: RobotsAnswer, access: str) -> None:
    assert verdict(learn(HostState(), answer, 100.0), 100.0).access == access


def test_while_it_cannot_be_had_it_is_asked_for_again_less_and_less_often() -> None:
    failure = RobotsAnswer(outcome=Outcome.CONNECT)
    state, now, waits = HostState(), 1000.0, []
    while verdict(state := learn(state, failure, now), now).access == "none":
        waits.append(state.robots_until - now)
        now = state.robots_until

    assert waits[:4] == [FIRST_RETRY_S, 300, 600, 1200]
    assert max(waits) == MAX_RETRY_S
    assert verdict(state, now).access == "all"
    assert FORGIVEN_AFTER_S <= now - 1000.0 < FORGIVEN_AFTER_S + LIFETIME_S


def test_known_rules_are_kept_while_it_cannot_be_had() -> None:
    state = learn(HostState(), RobotsAnswer(outcome=Outcome.OK, status=200, body=b"rules"), 0.0)
    state = learn(state, RobotsAnswer(outcome=Outcome.SERVER_ERROR, status=503), LIFETIME_S)

    assert verdict(state, LIFETIME_S).access == "rules"
    assert state.robots == b"rules"
    assert state.robots_until == LIFETIME_S + FIRST_RETRY_S


@pytest.mark.parametrize("before", [200, 404, 503])
def test_a_wall_leaves_known_rules_in_force_and_nothing_else(before: int) -> None:
    state = learn(HostState(), RobotsAnswer(outcome=Outcome.OK, status=before, body=b"rules"), 0.0)
    state = learn(state, RobotsAnswer(outcome=Outcome.OK, status=200, wall=True), LIFETIME_S)
    assert state.robots_until == LIFETIME_S + FIRST_RETRY_S
    later = learn(state, RobotsAnswer(outcome=Outcome.OK, status=202), 2 * LIFETIME_S)

    for each in (state, later):
        found = verdict(each, 2 * LIFETIME_S)
        assert found.access == ("rules" if before == 200 else "none")
        assert ("a wall in its place" in found.reason) is (before != 200)


def test_a_line_that_names_crawlers_makes_a_file_of_rules() -> None:
    for body in (b"User-agent: *", b"\xef\xbb\xbf# a\r\n user-AGENT : x", b"a\ruseragent:*"):
        assert names_somebody(body)
    for body in (b"", b"<p>Your user-agent: x", b"Disallow: /", b"No user-agent: here"):
        assert not names_somebody(body)


def test_retry_after_of_robots_txt_is_obeyed() -> None:
    answer = RobotsAnswer(outcome=Outcome.SERVER_ERROR, status=503, retry_after_s=7200.0)

    assert learn(HostState(), answer, 0.0).robots_until == 7200.0


RULES = st.lists(
    st.tuples(
        st.sampled_from(["Allow", "Disallow"]),
        st.sampled_from(
            ["/", "/a", "/a/", "/a/b", "/a*", "/*b", "/a$", "/%61", "/a%2Fb", "/\u00e9", "a", "*",
             "/a?c=", "/A", "/a.b~c_d-e", "//", "/a/index.html"]
        ),
    ),
    max_size=6,
)  # fmt: skip
PATHS = st.lists(
    st.sampled_from(["a", "b", "/", "?c=", "%61", "%2F", "%C3%A9", "A", ".b~c_d-e", "$", "*", ";"]),
    max_size=5,
).map(lambda parts: "/" + "".join(parts))


@settings(max_examples=examples(500), deadline=None)
@given(RULES, PATHS)
def test_paths_that_no_rule_can_mean_take_the_short_way(
    rules: list[tuple[str, str]], path: str
) -> None:
    lines = [f"{field}: {value}" for field, value in rules]
    text = "\n".join(["User-agent: *", *lines])
    expected = Protego.parse(text).can_fetch(SITE + path, "*")
    assert parse(text.encode(), "crawlfleet").allows(SITE + path) == expected
