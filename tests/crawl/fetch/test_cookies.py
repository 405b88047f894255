import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.crawl.fetch.cookies import MAX_COOKIES, MAX_DOMAIN_BYTES, CookieJar
from crawlfleet.crawl.fetch.request import header_problem

NOW = 1_763_200_000.0
URL = "https://www.shop.example/a/b?c"


def jar_with(*lines: str, url: str = URL) -> CookieJar:
    jar = CookieJar()
    jar.take(url, [("set-cookie", line) for line in lines], NOW)
    return jar


def test_an_empty_jar_sends_nothing() -> None:
    assert CookieJar().header(URL, NOW) is None
    assert CookieJar().dump("www.shop.example", NOW) == ""


@pytest.mark.parametrize(
    ("line", "url", "sent"),
    [
        ("a=b", "https://www.shop.example/a/", "a=b"),
        ("a=b", "https://www.shop.example/a/x/y?z", "a=b"),
        ("a=b", "https://www.shop.example/a?x", "a=b"),
        ("a=b", "https://www.shop.example/", None),  # the path is that of the page's folder
        ("a=b", "https://www.shop.example/ab", None),
        ("a=b; Path=/", "https://www.shop.example/x", "a=b"),
        ("a=b; path=x", "https://www.shop.example/a/", "a=b"),
        ("a=b; Path=/x/", "https://www.shop.example/x", None),
        ("a=b; Path=/", "https://shop.example/", None),
        ("a=b; Path=/", "https://sub.www.shop.example/", None),
        ("a=b; Path=/; Domain=shop.example", "https://shop.example/", "a=b"),
        ("a=b; Path=/; Domain=.SHOP.example", "https://other.shop.example/", "a=b"),
        ("a=b; Path=/; Domain=shop.example", "https://workshop.example/", None),
        ("a=b; Path=/; Domain=other.example", "https://other.example/", None),
        ("a=b; Path=/; Domain=example", "https://www.shop.example/", None),
        ("a=b; Path=/; Domain=x.www.shop.example", "https://www.shop.example/", None),
        ("a=b; Path=/; Secure", "https://www.shop.example/", "a=b"),
        ("a=b; Path=/; Secure", "http://www.shop.example/", None),
        ("a=b; Path=/", "http://www.shop.example/", "a=b"),
        ("a=b; Path=/; Max-Age=100", "https://www.shop.example/", "a=b"),
        ("a=b; Path=/; Max-Age=0", "https://www.shop.example/", None),
        ("a=b; Path=/; Max-Age=-1", "https://www.shop.example/", None),
        ("a=b; Path=/; Expires=Thu, 01-Jan-1970 00:00:00 GMT", "https://www.shop.example/", None),
        ("a=b; Path=/; Expires=Thu, 01 Jan 2099 00:00:00 GMT", "https://www.shop.example/", "a=b"),
        ("a=b; Path=/; Expires=nonsense", "https://www.shop.example/", "a=b"),
        ('a="b c"; Path=/; HttpOnly; SameSite=Lax', "https://www.shop.example/", 'a="b c"'),
        ("a=b=c; Path=/", "https://www.shop.example/", "a=b=c"),
        ("__Host-a=b; Path=/; Secure", "https://www.shop.example/", "__Host-a=b"),
        ("__Host-a=b; Path=/", "https://www.shop.example/", None),
        ("__Secure-a=b; Path=/", "https://www.shop.example/", None),
        ("a=b\x01c; Path=/", "https://www.shop.example/", None),
        ("=; Path=/", "https://www.shop.example/", None),
        (f"a={'x' * 5000}; Path=/", "https://www.shop.example/", None),
    ],
)
def test_a_cookie_goes_back_to_where_it_belongs(line: str, url: str, sent: str | None) -> None:
    assert jar_with(line).header(url, NOW) == sent


def test_nobody_sets_cookies_for_a_public_suffix() -> None:
    jar = jar_with("a=b; Path=/; Domain=co.uk", url="https://shop.co.uk/")

    assert jar.header("https://shop.co.uk/", NOW) is None
    assert jar.header("https://other.co.uk/", NOW) is None


def test_an_address_has_no_domain_above_it() -> None:
    jar = jar_with("a=b; Path=/; Domain=0.0.1", "c=d; Path=/", url="http://127.0.0.1:8000/")

    assert jar.header("http://127.0.0.1:9000/", NOW) == "c=d"
    assert jar.header("http://10.0.0.1/", NOW) is None


def test_secure_cookies_cannot_be_set_over_plain_http() -> None:
    jar = jar_with("a=b; Path=/; Secure", url="http://www.shop.example/")

    assert jar.header("https://www.shop.example/", NOW) is None


def test_cookies_end_when_their_time_is_over() -> None:
    jar = jar_with("a=b; Path=/; Max-Age=100", "c=d; Path=/")

    assert jar.header(URL, NOW + 99) == "a=b; c=d"
    assert jar.header(URL, NOW + 101) == "c=d"


def test_the_same_cookie_is_replaced_and_can_be_taken_back() -> None:
    jar = jar_with("a=1; Path=/", "a=2; Path=/")
    assert jar.header(URL, NOW) == "a=2"

    jar.take(URL, [("set-cookie", "a=; Path=/; Max-Age=0")], NOW)
    assert jar.header(URL, NOW) is None


def test_longer_paths_go_first() -> None:
    assert jar_with("a=1; Path=/", "a=2; Path=/a").header(URL, NOW) == "a=2; a=1"


def test_a_bomb_of_cookies_stays_small() -> None:
    jar = jar_with(*(f"c{number}={'x' * 300}; Path=/" for number in range(500)))
    sent = jar.header(URL, NOW)

    assert sent is not None
    assert len(sent) <= MAX_DOMAIN_BYTES
    assert sent.count(";") < MAX_COOKIES
    assert "c499=" in sent


def test_cookies_move_with_their_host() -> None:
    jar = jar_with(
        "a=b; Path=/; Secure; Max-Age=100",
        "c=d=e; Path=/; Domain=shop.example",
        "f=g; Path=/a",
    )
    text = jar.dump("www.shop.example", NOW)

    elsewhere = CookieJar()
    elsewhere.load("www.shop.example", text, NOW)
    for url in (URL, "https://shop.example/", "http://www.shop.example/a/", "https://x.example/"):
        assert elsewhere.header(url, NOW) == jar.header(url, NOW)
    assert elsewhere.header(URL, NOW + 200) == jar.header(URL, NOW + 200)
    assert elsewhere.dump("www.shop.example", NOW) == text


def test_text_that_belongs_to_another_host_is_passed_over() -> None:
    jar = CookieJar()
    jar.load("a.example", jar_with("a=b; Path=/").dump("www.shop.example", NOW), NOW)
    jar.load("a.example", "nonsense\nx\ty\tz", NOW)

    assert jar.header(URL, NOW) is None


@given(st.lists(st.text(max_size=80), max_size=5))
def test_nothing_that_a_site_sets_breaks_a_request_or_the_saved_text(lines: list[str]) -> None:
    jar = jar_with(*lines)
    sent = jar.header(URL, NOW)
    copy = CookieJar()
    copy.load("www.shop.example", jar.dump("www.shop.example", NOW), NOW)

    assert copy.header(URL, NOW) == sent
    assert sent is None or header_problem([("Cookie", sent)]) is None


def test_two_sessions_of_one_host_are_not_mixed() -> None:
    mine, other = CookieJar(), CookieJar()
    mine.take("https://a.example/", [("set-cookie", "id=mine")], NOW)
    other.take("https://a.example/", [("set-cookie", "id=other"), ("set-cookie", "x=1")], NOW)
    text = other.dump("a.example", NOW)
    mine.load("a.example", text, NOW, unless_known=True)
    assert mine.header("https://a.example/", NOW) == "id=mine"
    fresh = CookieJar()
    fresh.load("a.example", text, NOW, unless_known=True)
    assert fresh.header("https://a.example/", NOW) == "id=other; x=1"
