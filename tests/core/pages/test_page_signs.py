"""Pages that are not what their status says."""

import pytest

from crawlfleet.core.pages.page_signs import blocked, in_place_of_rules, soft_404, worth_a_look
from crawlfleet.core.pages.selectors import plural
from crawlfleet.core.urls.robots_tags import from_headers, from_words
from crawlfleet.model.crawl.reading import Directives

ANUBIS_PAGE = b'<script id="anubis_version" type="application/json">"v1.22.0"</script>'
ANUBIS = b"<script async src=/.within.website/x/cmd/anubis/static/js/main.mjs></script>"
LONG = "Lorem ipsum dolor sit amet. " * 200


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("404 Not Found", "Sorry."),
        ("Page not found - Shop", "The page you are looking for is not here. " + "Menu " * 50),
        ("Shop", "Oops! The page you were looking for doesn't exist."),
        ("页面不存在", "返回首页"),
        ("商城", "抱歉，您访问的页面不存在"),
        ("提示信息", "该商品已下架"),
    ],
)
def test_a_missing_page_is_seen_behind_a_200(title: str, text: str) -> None:
    assert soft_404(status=200, title=title, text=text)
    assert worth_a_look(status=200, title=title, size=len(text))


@pytest.mark.parametrize(
    ("status", "title", "text"),
    [
        (404, "404 Not Found", "Sorry."),
        (200, "Shop", "Welcome to our shop."),
        (200, "How to fix a 404 error", LONG),
        (200, "Blog", LONG + "the page you are looking for"),
        (200, "", ""),
        (200, "Room 4040", "A nice room."),
    ],
)
def test_other_pages_are_not_missing(status: int, title: str, text: str) -> None:
    assert soft_404(status=status, title=title, text=text) is None


@pytest.mark.parametrize(
    ("status", "title", "text", "body"),
    [
        (503, "Just a moment...", "Checking your browser before accessing", b""),
        (200, "Just a moment...", "", b"<script src=/cdn-cgi/challenge-platform/x>"),
        (403, "Access Denied", "You don't have permission", b""),
        (200, "Robot Check", "Verify you are a human", b""),
        (200, "", "Please verify that you are human to continue", b""),
        (200, "安全验证", "请完成下方验证后继续访问", b""),
        (200, "提示", "您的访问过于频繁，请稍后再试", b""),
        (403, "", "", b"<div class=g-recaptcha>"),
        (200, "Making sure you're not a bot!", "Loading...", ANUBIS),
        (200, "Making sure you&#39;re", "Why? You are not a bot, are you. " * 9, ANUBIS),
        (200, "Es wird geprüft, ob du ein Mensch bist", "Laden … ", ANUBIS_PAGE),
        (200, "Es wird geprüft, ob du ein Mensch bist", "Warum? Darum. " * 300, ANUBIS_PAGE),
    ],
)
def test_a_wall_is_seen(status: int, title: str, text: str, body: bytes) -> None:
    assert blocked(status=status, title=title, text=text, body=body)


@pytest.mark.parametrize(
    ("title", "text", "body"),
    [
        ("Contact us", "Write to us. " * 20, b"<div class=g-recaptcha>"),
        ("How captchas work", LONG, b"g-recaptcha"),
        ("How Anubis works", LONG, b'<code>&lt;script id="anubis_version"&gt;</code>'),
        ("Shop", "Welcome.", b""),
        ("Forbidden Planet", "A film of 1956.", b""),
    ],
)
def test_other_pages_are_no_walls(title: str, text: str, body: bytes) -> None:
    assert blocked(status=200, title=title, text=text, body=body) is None


def test_a_header_may_say_so() -> None:
    headers = [("cf-mitigated", "challenge")]
    assert blocked(status=403, title="", text=LONG, headers=headers)
    assert blocked(status=200, title="", text=LONG, headers=[("x-datadome", "protected")]) is None


@pytest.mark.parametrize(
    ("status", "title", "text", "body", "headers", "is_wall"),
    [
        (200, "Just a moment...", "", b"/cdn-cgi/challenge-platform/h/b", [], True),
        (200, "Making sure you're not a bot!", "Loading...", ANUBIS, [], True),
        (200, "Es wird geprüft, ob du ein Mensch bist", LONG, ANUBIS_PAGE, [], True),
        (403, "Es wird geprüft, ob du ein Mensch bist", LONG, ANUBIS_PAGE, [], True),
        (200, "", "Please enable JavaScript and cookies to continue", b"", [], True),
        (200, "Access denied", "You have been blocked", b"", [], True),
        (403, "Just a moment...", "", b"/cdn-cgi/challenge-platform/h/b", [], True),
        (403, "", "", b"", [("cf-mitigated", "challenge")], True),
        (404, "", "", b"", [("cf-mitigated", "challenge")], True),
        (405, "", "", b"", [("x-amzn-waf-action", "captcha")], True),
        (403, "", "", b'{"url":"https://geo.captcha-delivery.com/captcha/"}', [], True),
        (403, "", "", b"", [("x-datadome", "protected")], True),
        # What sites themselves say where there is no file.
        (200, "Our shop", LONG, b"/cdn-cgi/challenge-platform/scripts/jsd/main.js", [], False),
        (
            200,
            "App",
            "Please enable JavaScript to continue using this application.",
            b"",
            [],
            False,
        ),
        (200, "Page not found", "Sorry. Contact us", b"<div class=g-recaptcha>", [], False),
        (403, "403 Forbidden", "403 Forbidden nginx", b"<center>nginx</center>", [], False),
        (403, "", "AccessDenied Access Denied", b"<Error><Code>AccessDenied</Code>", [], False),
        (401, "", "Access denied", b"", [], False),
        (404, "Not found", "Contact us", b"<div class=g-recaptcha>", [], False),
    ],
)
def test_what_stands_in_place_of_rules(
    status: int, title: str, text: str, body: bytes, headers: list[tuple[str, str]], is_wall: bool
) -> None:
    signs = in_place_of_rules(status=status, title=title, text=text, body=body, headers=headers)

    assert bool(signs) is is_wall


def test_large_pages_with_plain_titles_are_not_looked_at() -> None:
    assert not worth_a_look(status=200, title="Shop", size=50_000)
    assert worth_a_look(status=200, title="Just a moment...", size=50_000)


@pytest.mark.parametrize(
    ("content", "directives"),
    [
        ("index, follow", (False, False)),
        ("noindex", (True, False)),
        ("NOFOLLOW", (False, True)),
        ("noindex,nofollow", (True, True)),
        ("none", (True, True)),
        ("noarchive, max-snippet:50", (False, False)),
        ("", (False, False)),
    ],
)
def test_a_meta_element_says_what_is_allowed(content: str, directives: tuple[bool, bool]) -> None:
    assert from_words(content) == directives


@pytest.mark.parametrize(
    "title",
    [
        *("Error 404", "Page not found", "The file was not found", "Item could not be found"),
        *("Nothing not found", "This page doesn't exist", "That page does not exist"),
        *("It is no longer available", "It no longer exists", "Just a moment...", "Captcha"),
        *("Attention required!", "Access denied", "Access to this page has been denied"),
        *("Are you a human?", "Are you robot", "Robot check", "Security check", "Forbidden"),
        *("Verify you are one", "Verify that you are", "Pardon our interruption", "Blocked"),
        *("Request blocked", "Unusual traffic from you", "DDoS protection by us"),
        "Making sure you're not a bot!",
    ],
)
def test_every_title_that_says_something_is_looked_at(title: str) -> None:
    for spelt in (title, title.upper(), f"{title} \N{EM DASH} 商城"):
        assert worth_a_look(status=200, title=spelt, size=50_000)


@pytest.mark.parametrize(
    ("values", "directives"),
    [
        (["noindex"], (True, False)),
        (["noindex", "nofollow"], (True, True)),
        (["googlebot: noindex, nofollow"], (False, False)),
        (["googlebot: noindex", "nofollow"], (False, True)),
        (["crawlfleet: none"], (True, True)),
        (["otherbot: noindex, crawlfleet: nofollow"], (False, True)),
        (["unavailable_after: 25 Jun 2027 15:00:00 PST, noindex"], (True, False)),
        (["max-snippet: 20"], (False, False)),
    ],
)
def test_headers_say_what_is_allowed(values: list[str], directives: tuple[bool, bool]) -> None:
    assert from_headers(values) == Directives(*directives)


@pytest.mark.parametrize(
    ("values", "directives"),
    [
        (["shop-watch: noindex"], (True, False)),
        (["SHOP-WATCH: none"], (True, True)),
        (["crawlfleet: none"], (False, False)),
        (["crawlfleet: noindex, shop-watch: nofollow"], (False, True)),
        (["shop: none", "*: nofollow"], (False, True)),
    ],
)
def test_headers_speak_to_a_crawl_by_its_own_name(
    values: list[str], directives: tuple[bool, bool]
) -> None:
    assert from_headers(values, "Shop-Watch") == Directives(*directives)


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("product", "products"),
        ("category", "categories"),
        ("day", "days"),
        ("box", "boxes"),
        ("class", "classes"),
        ("branch", "branches"),
        ("products", "products"),
        ("person", "people"),
        ("search_result", "search_results"),
        ("news", "news"),
        ("商品", "商品"),
        ("row1", "row1"),
        ("x_", "x_"),
    ],
)
def test_plurals(one: str, many: str) -> None:
    assert plural(one) == many
