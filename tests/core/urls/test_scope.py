import time

import pytest
from publicsuffixlist import PublicSuffixList

from crawlfleet.core.urls.canonical import host_key
from crawlfleet.core.urls.scope import Territory, problems, unwanted_endings
from crawlfleet.core.urls.suffixes import Suffixes
from crawlfleet.core.urls.traps import Variants
from crawlfleet.model.crawl.parameters import Limits, Scope

SUFFIXES = Suffixes(
    PublicSuffixList(["com", "example", "uk", "co.uk", "*.ck", "!www.ck", "github.io", "io"])
)
SEEDS = ("https://shop.example/docs/start.html",)


def rule(url: str, seeds: tuple[str, ...] = SEEDS, limits: Limits | None = None, **scope) -> str:
    territory = Territory(Scope(**scope), limits or Limits(), seeds, year=2026, suffixes=SUFFIXES)
    refusal = territory.refusal(url, host_key(url))
    return "" if refusal is None else refusal.rule


@pytest.mark.parametrize(
    ("within", "url", "belongs"),
    [
        ("host", "https://shop.example/", True),
        ("host", "http://shop.example/x", True),
        ("host", "https://shop.example:8443/x", False),
        ("host", "https://www.shop.example/", False),
        ("host", "https://other.example/", False),
        ("domain", "https://www.shop.example/", True),
        ("domain", "http://a.b.shop.example:81/", True),
        ("domain", "https://shop.example.com/", False),
        ("domain", "https://myshop.example/", False),
        ("prefix", "https://shop.example/docs/a", True),
        ("prefix", "http://shop.example/docs/a/b?c=1", True),
        ("prefix", "https://shop.example/docs", True),
        ("prefix", "https://shop.example/docs?a=1", True),
        ("prefix", "https://shop.example/docs-old/a", False),
        ("prefix", "https://shop.example/", False),
        ("prefix", "https://other.example/docs/a", False),
        ("any", "https://other.example/", True),
    ],
)
def test_a_link_belongs_where_the_seeds_are(within: str, url: str, belongs: bool) -> None:
    assert rule(url, within=within) == ("" if belongs else "within")


@pytest.mark.parametrize(
    ("seed", "url", "belongs"),
    [
        ("https://shop.example/docs", "https://shop.example/docs/a", True),
        ("https://shop.example/docs", "https://shop.example/news", False),
        ("https://shop.example/docs/", "https://shop.example/docs/a", True),
        ("https://shop.example/v1.2/", "https://shop.example/v1.2/a", True),
        ("https://shop.example/", "https://shop.example/a", True),
    ],
)
def test_the_folder_of_a_seed_is_what_its_address_looks_like(
    seed: str, url: str, belongs: bool
) -> None:
    assert (rule(url, (seed,), within="prefix") == "") == belongs


@pytest.mark.parametrize(
    ("name", "registrable"),
    [
        ("shop.example.co.uk", "example.co.uk"),
        ("example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"),
        ("a.b.example.com", "example.com"),
        ("a.b.c.ck", "b.c.ck"),
        ("a.www.ck", "www.ck"),
        ("b.ck", "b.ck"),
        ("ck", "ck"),
        ("me.github.io", "me.github.io"),
        ("a.me.github.io", "me.github.io"),
        ("a.b.unknown", "b.unknown"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
    ],
)
def test_domains_are_what_somebody_registered(name: str, registrable: str) -> None:
    assert SUFFIXES.registrable(name) == registrable


def test_ip_addresses_are_domains_of_their_own() -> None:
    seeds = ("http://10.0.0.1:81/",)

    assert rule("http://10.0.0.1:82/", seeds, within="domain") == ""
    assert rule("http://10.0.0.2:81/", seeds, within="domain") == "within"
    assert rule("http://[::1]:81/", ("http://[::1]/",), within="domain") == ""


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/" + "a" * 2000, "length"),
        ("/" + "a/" * 3, ""),
        ("/a/b/a/b/a/b/", ""),
        ("/a/b/a/b/a/b/a/", "repeated"),
        ("/" + "/".join(map(str, range(32))), ""),
        ("/" + "/".join(map(str, range(32))) + "/", ""),
        ("/" + "/".join(map(str, range(33))), "depth"),
        ("/?" + "&".join(f"a{n}=1" for n in range(12)), ""),
        ("/?" + "&".join(f"a{n}=1" for n in range(13)), "parameters"),
        ("/a.pdf", "file_type"),
        ("/a.JPG", "file_type"),
        ("/a.tar.gz", "file_type"),
        ("/a.html", ""),
        ("/a.php?file=b.pdf", ""),
        ("/pdf", ""),
        ("/a.pdf/view", ""),
        ("/2029/12/31/", ""),
        ("/2030/01/", "calendar"),
        ("/events/2031-5-17", "calendar"),
        ("/?month=2031-05", "calendar"),
        ("/?a=1&year=2040", "calendar"),
        ("/?year=2027", ""),
        ("/1851/09/18/archives", "calendar"),
        ("/1905/09/18/archives", ""),
        ("/part-2099-12-inch", ""),
        ("/2099-12-inch", ""),
        ("/2099/", ""),
        ("/20310517", ""),
    ],
)
def test_signs_of_a_trap(address: str, expected: str) -> None:
    assert rule(f"https://shop.example{address}") == expected


def test_a_calendar_may_be_followed_for_ever() -> None:
    assert rule("https://shop.example/2999/12/", max_years_ahead=None) == ""


def test_no_query_at_all_can_be_asked_for() -> None:
    assert rule("https://shop.example/?a", max_query_parameters=0) == "parameters"
    assert rule("https://shop.example/a", max_query_parameters=0) == ""


@pytest.mark.parametrize(
    ("content_types", "skipped", "taken"),
    [
        (("text/html",), {"pdf", "jpg", "css", "zip"}, {"html", "php", "xml", "json"}),
        (("application/pdf; q=1",), {"jpg"}, {"pdf"}),
        (("image/*",), {"pdf"}, {"jpg", "svg"}),
        (("IMAGE/PNG",), {"pdf"}, {"png"}),
        (("*/*",), set(), {"pdf", "jpg", "zip"}),
    ],
)
def test_files_are_skipped_unless_their_type_is_wanted(
    content_types: tuple[str, ...], skipped: set[str], taken: set[str]
) -> None:
    unwanted = unwanted_endings(content_types)

    assert skipped <= unwanted
    assert not taken & unwanted


def test_expressions_only_take_away() -> None:
    scope = {"allow": ("/news/", r"\?id=\d+$"), "deny": ("print",)}

    assert rule("https://shop.example/news/a", **scope) == ""
    assert rule("https://shop.example/?id=12", **scope) == ""
    assert rule("https://shop.example/about", **scope) == "allow"
    assert rule("https://shop.example/news/print", **scope) == "deny"
    assert rule("https://other.example/news/a", **scope) == "within"


@pytest.mark.parametrize("pattern", ["(", "*", "(?=a)b", r"(a)\1", "(?<!x)y"])
def test_expressions_that_re2_cannot_run_are_named(pattern: str) -> None:
    found = problems(Scope(allow=("/fine/",), deny=(pattern,)))

    assert [problem.field for problem in found] == ["scope.deny.0"]


@pytest.mark.parametrize(
    "pattern", ["(a+)+", "(a*)*b", r"/\d+/", r"(news|blog)+", r"\(a+\)+", "[a-z]+$", "(a+)b"]
)
def test_common_expressions_are_fine(pattern: str) -> None:
    assert problems(Scope(allow=(pattern,))) == []


def test_no_address_keeps_an_expression_busy() -> None:
    address = f"https://shop.example/{'a' * 1900}!"
    before = time.process_time()
    assert rule(address, deny=(r"/(a+)+$", r"/(a|a)*$", r"(/\w+\s?)*$(\d+)")) == ""
    assert time.process_time() - before < 1


def test_where_a_seed_is_redirected_belongs_too() -> None:
    url = "https://www.shop.example/en/"
    narrow = Territory(Scope(), Limits(), SEEDS, year=2026)
    assert narrow.refusal(url, host_key(url)) is not None

    wide = narrow.including(url)

    assert wide.refusal(url, host_key(url)) is None
    assert wide.refusal(SEEDS[0], host_key(SEEDS[0])) is None
    assert wide.including("https://www.shop.example/other") is wide


def test_so_many_queries_of_a_path_and_no_more() -> None:
    variants = Variants(limit=3)

    assert [variants.admits("https://shop.example/a", id) for id in range(5)] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert variants.admits("https://shop.example/a", 1)
    assert variants.admits("https://shop.example/b", 1)


def test_memory_for_queries_is_bounded() -> None:
    variants = Variants(limit=50, capacity=100)

    for page in range(40):
        for id in range(60):
            assert variants.admits(f"https://shop.example/{page}", id) == (id < 50)
            assert len(variants) <= 100
    assert len(variants._seen) <= 100
