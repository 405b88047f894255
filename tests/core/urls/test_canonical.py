import os
import random
import re
from urllib.parse import quote

import pytest
from ada_url import URL
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawlfleet.core.urls.canonical import LONGEST, Canonicaliser, fingerprint, host_key
from crawlfleet.model.crawl.parameters import Urls
from tests.sampling import examples

PLAIN = Canonicaliser()
HALVES = re.compile("[\ud800-\udfff]")

SAME = [
    # scheme, host and port
    ("HTTP://Shop.Example/a", "http://shop.example/a"),
    ("http://shop.example:80/a", "http://shop.example/a"),
    ("https://shop.example:443/a", "https://shop.example/a"),
    ("https://shop.example:8443/a", "https://shop.example:8443/a"),
    ("https://shop.example./a", "https://shop.example/a"),
    ("https://shop.example.:8443/a", "https://shop.example:8443/a"),
    ("https://shop.example", "https://shop.example/"),
    ("https://shop.example?a=1", "https://shop.example/?a=1"),
    ("https://bücher.example/", "https://xn--bcher-kva.example/"),
    ("https://BÜCHER.example/", "https://xn--bcher-kva.example/"),
    ("http://0x7f.1/", "http://127.0.0.1/"),
    ("http://[0:0::1]:80/", "http://[::1]/"),
    ("https://me:secret@shop.example/a", "https://shop.example/a"),
    ("https://me@shop.example/a", "https://shop.example/a"),
    ("  https://shop.example/a\n", "https://shop.example/a"),
    ("https://shop.exa\tmple/a", "https://shop.example/a"),
    ("https:\\\\shop.example\\a", "https://shop.example/a"),
    # paths
    ("https://shop.example/a/./b/../c", "https://shop.example/a/c"),
    ("https://shop.example/a/%2e%2E/c", "https://shop.example/c"),
    ("https://shop.example/../../c", "https://shop.example/c"),
    ("https://shop.example/a//b", "https://shop.example/a//b"),
    ("https://shop.example/%7Eme/%61", "https://shop.example/~me/a"),
    ("https://shop.example/%c3%a9", "https://shop.example/%C3%A9"),
    ("https://shop.example/é", "https://shop.example/%C3%A9"),
    ("https://shop.example/\udfff", "https://shop.example/%EF%BF%BD"),
    ("https://shop.example/a b", "https://shop.example/a%20b"),
    ("https://shop.example/a%2fb", "https://shop.example/a%2Fb"),
    ("https://shop.example/a|b[1]", "https://shop.example/a%7Cb%5B1%5D"),
    ("https://shop.example/100%", "https://shop.example/100%25"),
    ("https://shop.example/%%34%31", "https://shop.example/%2541"),
    ("https://shop.example/%zz", "https://shop.example/%25zz"),
    # queries
    ("https://shop.example/?b=2&a=1", "https://shop.example/?a=1&b=2"),
    ("https://shop.example/?b&a=", "https://shop.example/?a=&b"),
    ("https://shop.example/?", "https://shop.example/"),
    ("https://shop.example/?&&a=1&", "https://shop.example/?a=1"),
    ("https://shop.example/?f[x]=1", "https://shop.example/?f%5Bx%5D=1"),
    ("https://shop.example/?a='x'", "https://shop.example/?a=%27x%27"),
    ("https://shop.example/?a=%2b+b", "https://shop.example/?a=%2B+b"),
    ("https://shop.example/?utm_source=x&a=1&gclid=y", "https://shop.example/?a=1"),
    ("https://shop.example/?UTM_Source=x", "https://shop.example/"),
    ("https://shop.example/?utm%5Fsource=x", "https://shop.example/"),
    ("https://shop.example/?fbclid=x", "https://shop.example/"),
    ("https://shop.example/?ref=x", "https://shop.example/?ref=x"),
    # sessions
    ("https://shop.example/a;jsessionid=1A2B?x=1", "https://shop.example/a?x=1"),
    ("https://shop.example/a;JSESSIONID=1A2B!-9/b", "https://shop.example/a/b"),
    ("https://shop.example/;jsessionid=1", "https://shop.example/"),
    ("https://shop.example/..;jsessionid=1/b", "https://shop.example/..;jsessionid=1/b"),
    ("https://shop.example/a;v=2", "https://shop.example/a;v=2"),
    ("https://shop.example/a;sid=0123456789abcdef", "https://shop.example/a"),
    ("https://shop.example/(S(lit3py55t21z5v55vlm25s55))/o.aspx", "https://shop.example/o.aspx"),
    ("https://shop.example/(S(lit3py55t21z5v55vlm25s55));jsessionid=1", "https://shop.example/"),
    ("https://shop.example/?PHPSESSID=1&a=1", "https://shop.example/?a=1"),
    ("https://shop.example/?sid=0123456789abcdef0123", "https://shop.example/"),
    ("https://shop.example/?sid=17", "https://shop.example/?sid=17"),
    ("https://shop.example/?ASPSESSIONIDQQBC=AAA", "https://shop.example/"),
    # fragments
    ("https://shop.example/a#b", "https://shop.example/a"),
    ("https://shop.example/a#b?c=1", "https://shop.example/a"),
]  # fmt: skip

NONE = [
    "",
    "/a",
    "shop.example/a",
    "mailto:me@shop.example",
    "javascript:void(0)",
    "data:text/html,x",
    "ftp://shop.example/a",
    "file:///etc/passwd",
    "blob:https://shop.example/1",
    "http://",
    "http:///",
    "https://shop example/",
    "https://shop.example:99999/",
    "https://[::1/",
    "https://1.2.3.999/",
    "https://./",
    "https://shop.example../",
    "https://a<b/",
    "https://a%00b/",
    "\ud800",
    "\x00",
    "https://shop.example/" + "a" * LONGEST,
]

# RFC 3986, section 5.4, without its examples in other schemes.
JOINED = [
    ("g", "http://a/b/c/g"),
    ("./g", "http://a/b/c/g"),
    ("g/", "http://a/b/c/g/"),
    ("/g", "http://a/g"),
    ("//g", "http://g/"),
    ("?y", "http://a/b/c/d;p?y"),
    ("g?y", "http://a/b/c/g?y"),
    ("#s", "http://a/b/c/d;p?q"),
    ("g#s", "http://a/b/c/g"),
    ("g?y#s", "http://a/b/c/g?y"),
    (";x", "http://a/b/c/;x"),
    ("g;x", "http://a/b/c/g;x"),
    ("g;x?y#s", "http://a/b/c/g;x?y"),
    ("", "http://a/b/c/d;p?q"),
    (".", "http://a/b/c/"),
    ("./", "http://a/b/c/"),
    ("..", "http://a/b/"),
    ("../", "http://a/b/"),
    ("../g", "http://a/b/g"),
    ("../..", "http://a/"),
    ("../../", "http://a/"),
    ("../../g", "http://a/g"),
    ("../../../g", "http://a/g"),
    ("../../../../g", "http://a/g"),
    ("/./g", "http://a/g"),
    ("/../g", "http://a/g"),
    ("g.", "http://a/b/c/g."),
    (".g", "http://a/b/c/.g"),
    ("g..", "http://a/b/c/g.."),
    ("..g", "http://a/b/c/..g"),
    ("./../g", "http://a/b/g"),
    ("./g/.", "http://a/b/c/g/"),
    ("g/./h", "http://a/b/c/g/h"),
    ("g/../h", "http://a/b/c/h"),
    ("g;x=1/./y", "http://a/b/c/g;x=1/y"),
    ("g;x=1/../y", "http://a/b/c/y"),
    ("g?y/./x", "http://a/b/c/g?y/./x"),
    ("g?y/../x", "http://a/b/c/g?y/../x"),
    ("g#s/./x", "http://a/b/c/g"),
    ("http:g", "http://a/b/c/g"),
]


@pytest.mark.parametrize(("url", "canonical"), SAME)
def test_spellings_of_a_page_become_one(url: str, canonical: str) -> None:
    assert PLAIN.canonical(url) == canonical
    assert PLAIN.canonical(canonical) == canonical


@pytest.mark.parametrize("url", NONE)
def test_what_is_no_address_of_the_web_is_none(url: str) -> None:
    assert PLAIN.canonical(url) is None


@pytest.mark.parametrize(("href", "joined"), JOINED)
def test_links_are_joined_as_the_standards_say(href: str, joined: str) -> None:
    assert PLAIN.join("http://a/b/c/d;p?q", href) == joined


def test_a_link_on_a_page_without_an_address_must_be_whole() -> None:
    assert PLAIN.join("about:blank", "/a") is None
    assert PLAIN.join("about:blank", "https://shop.example/a") == "https://shop.example/a"


def test_rules_can_be_switched_off() -> None:
    lenient = Canonicaliser(
        Urls(keep_tracking=True, keep_fragment=True, sort_query=False, drop_session_ids=False)
    )
    url = "https://shop.example/a;jsessionid=1?utm_source=b&PHPSESSID=2&a=1#c"

    assert lenient.canonical(url) == url


def test_own_parameters_are_dropped_by_name_or_beginning() -> None:
    own = Canonicaliser(Urls(drop_parameters=("Ref", "aff_*")))

    assert own.canonical("https://shop.example/?ref=1&AFF_id=2&a=3") == "https://shop.example/?a=3"
    assert own.canonical("https://shop.example/?refer=1") == "https://shop.example/?refer=1"


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("https://shop.example/", "https://shop.example/"),
        ("https://shop.example/a/", "https://shop.example/a"),
        ("https://shop.example/a//?b=/", "https://shop.example/a?b=/"),
        ("https://shop.example//", "https://shop.example/"),
    ],
)
def test_trailing_slashes_can_be_dropped(url: str, canonical: str) -> None:
    assert Canonicaliser(Urls(trailing_slash="drop")).canonical(url) == canonical


def test_relative_links_stay_in_the_folder_of_the_page_when_slashes_are_dropped() -> None:
    dropping = Canonicaliser(Urls(trailing_slash="drop"))

    assert dropping.join("https://shop.example/a/b/", "c/") == "https://shop.example/a/b/c"
    assert dropping.join("https://shop.example/a/b/", "?c=1") == "https://shop.example/a/b?c=1"


def test_ids_are_signed_and_the_same_everywhere() -> None:
    assert fingerprint("https://shop.example/") == 4013744235875029497
    ids = [fingerprint(f"https://shop.example/{number}") for number in range(1000)]
    assert len(set(ids)) == 1000
    assert min(ids) < 0 < max(ids)
    assert all(-(2**63) <= id < 2**63 for id in ids)


def test_host_keys_are_the_address_up_to_its_path() -> None:
    assert host_key("https://shop.example:8443/a/b?c=//d") == "https://shop.example:8443"
    assert host_key("http://[::1]/") == "http://[::1]"


# Pieces that are near the edges of the fast way: what it takes, and what it must not take.
EDGES = (
    [*"/?#&=%;:@.~+-_*'!$,()[]|\\^{}\"<> \t\n\x00", "//", "/.", "/..", "..", "./", "%2e", "%2E",
     "%41", "%7e", "%C3%A9", "%c3", "%2F", "%zz", "%", "%25", "%%34", "a", "b", "Z", "1", "é", "中",
     "index.html", "page", "http:", "https://", "http://", "HTTP://", "shop.example",
     "https://shop.example", "https://shop.example/", "https://other.example", "xn--", "a.b", "1.2",
     "0x7f", ":80", ":443", ":8080", "user:pw@", "utm_source=a", "sid=0123456789abcdef", "sid=1",
     "PHPSESSID=1", ";jsessionid=1", "(S(lit3py55t21z5v55vlm25s55))", "a=1", "b=2", "a=", "&&",
     "javascript:", "mailto:", "?page=2", "www.", "..;jsessionid=1", "\ud800"]
)  # fmt: skip
PLAIN_EDGES = ["a", "b/", "/c", "/", "d.html", "?e=1", "&f=2", "../", "Z-", "%C3%A9", "2026", "@"]
PIECES = st.sampled_from(EDGES)
ADDRESSES = st.one_of(
    st.lists(PIECES, max_size=12).map("".join),
    st.text(max_size=30),
    st.text(alphabet="aZ1/.%2eE?&=#:;@-_~", max_size=20),
    st.lists(PIECES, max_size=8).map(lambda parts: "https://shop.example/" + "".join(parts)),
)
BASES = st.one_of(
    st.sampled_from(
        ["https://shop.example/", "https://shop.example/a/b.html?x=1#f", "http://shop.example:81/a",
         "https://shop.example/a/(S(lit3py55t21z5v55vlm25s55))", "https://u:p@shop.example./a//b/",
         "https://shop.example/a;jsessionid=1/b;jsessionid=2", "HTTP://Shop.Example/%7e/%2e%2e/c",
         "http://127.1/a/", "http://[::1]:8080/a/", "https://shop.example/..;jsessionid=1"]
    ),
    ADDRESSES,
)  # fmt: skip
OPTIONS = st.builds(
    Urls,
    keep_tracking=st.booleans(),
    keep_fragment=st.booleans(),
    sort_query=st.booleans(),
    drop_session_ids=st.booleans(),
    trailing_slash=st.sampled_from(["keep", "drop"]),
)


def slow(rules: Canonicaliser, base: str, href: str) -> str | None:
    return rules._slow(href, base if rules._parsed(base, None) else None)


@settings(max_examples=examples(300), deadline=None)
@given(OPTIONS, BASES, ADDRESSES)
@example(Urls(), "https://shop.example/", "http:a")
@example(Urls(), "https://shop.example/", "a #b")
@example(Urls(), "https://shop.example/", "#\ud800")
@example(Urls(), "//x", "a")
@example(Urls(trailing_slash="drop"), "https://shop.example/a/", "/")
def test_the_fast_way_and_the_slow_way_agree(options: Urls, base: str, href: str) -> None:
    rules = Canonicaliser(options)

    assert rules.join(base, href) == slow(rules, base, href)
    assert rules.join(base, href) == slow(rules, base, href)  # now the site is known
    assert rules.canonical(href) == rules._slow(href, None)


SITES = st.builds(
    "{}://{}{}".format,
    st.sampled_from(["http", "https"]),
    st.one_of(
        st.sampled_from(
            ["127.0.0.1", "127.0.0.24", "127.1", "0x7f.1", "1.2.3.4.5", "256.1.1.1", "10.0.0.09",
             "localhost", "Shop.Example", "shop.example.", "shop.example..", ".", "..", "a_b.c",
             "-a.b", "a-.b", "xn--", "xn--bcher-kva.example", "xn--a.b", "1.2.3.4.", "99999999999"]
        ),
        st.text(alphabet="aZ019.-_x", min_size=1, max_size=12),
    ),
    st.sampled_from(["", ":80", ":443", ":8080", ":0", ":00080", ":65535", ":65536", ":99999"]),
)  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(OPTIONS, BASES, SITES, st.lists(PIECES, max_size=4).map("".join))
def test_a_site_is_the_same_whatever_follows_it(
    options: Urls, base: str, site: str, rest: str
) -> None:
    rules = Canonicaliser(options)
    for href in (f"{site}/", f"{site}/{rest}", f"{site}/a/b.html", f"{site}{rest}"):
        assert rules.join(base, href) == slow(rules, base, href)
        assert rules.canonical(href) == rules._slow(href, None)


@pytest.mark.parametrize("site", ["http://127.0.0.1:8080", "https://shop.example:8443"])
def test_a_site_is_parsed_once(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Canonicaliser()
    place = rules.place("https://shop.example/")
    assert place is not None
    assert rules.resolve(place, f"{site}/a") == f"{site}/a"

    monkeypatch.setattr("crawlfleet.core.urls.canonical.normalize_url", None)
    monkeypatch.setattr("crawlfleet.core.urls.canonical.join_url", None)

    assert rules.resolve(place, f"{site}/b/c.html") == f"{site}/b/c.html"
    assert rules.resolve(place, f"{site}/b?d=1&c=2") == f"{site}/b?c=2&d=1"
    assert rules.canonical(f"{site}/e") == f"{site}/e"


def test_spellings_of_sites_from_strangers_are_not_kept_without_end() -> None:
    rules = Canonicaliser()
    for number in range(3 * 4096):
        rules.canonical(f"https://s{number}.example/a")

    assert len(rules._sites) <= 4096


@settings(max_examples=examples(300), deadline=None)
@given(OPTIONS, BASES, ADDRESSES)
def test_a_canonical_url_is_its_own_canonical_form(options: Urls, base: str, href: str) -> None:
    rules = Canonicaliser(options)
    url = rules.join(base, href)
    if url is not None:
        assert rules.canonical(url) == url
        assert rules._slow(url, None) == url
        assert url.isascii()
        assert url.startswith(host_key(url) + "/")


@settings(max_examples=examples(300), deadline=None)
@given(BASES, ADDRESSES)
def test_what_the_standard_reads_as_an_address_of_the_web_is_one(base: str, href: str) -> None:
    if PLAIN.place(base) is None:
        return
    try:
        parsed = URL(HALVES.sub("\ufffd", href), HALVES.sub("\ufffd", base))
    except ValueError:
        assert PLAIN.join(base, href) is None
        return
    host = parsed.hostname
    bad = parsed.protocol not in ("http:", "https:") or host == "." or host.endswith("..")
    assert (PLAIN.join(base, href) is None) == bad


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=6), st.randoms())
def test_the_order_of_parameters_does_not_matter(
    pairs: list[tuple[str, str]], chance: random.Random
) -> None:
    pieces = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs]
    shuffled = chance.sample(pieces, len(pieces))

    first = PLAIN.canonical("https://shop.example/?" + "&".join(pieces))
    assert first is not None
    assert first == PLAIN.canonical("https://shop.example/?" + "&".join(shuffled))


@pytest.mark.slow
def test_the_two_ways_agree_on_very_many_links() -> None:
    chance = random.Random(7)
    rounds = 2_000_000 if os.environ.get("CRAWLFLEET_SOAK") else 100_000
    options = [Urls(), Urls(trailing_slash="drop"), Urls(sort_query=False, keep_tracking=True)]
    for rules in map(Canonicaliser, options):
        fast = 0
        for _ in range(rounds // len(options)):
            parts = chance.choices(EDGES, k=chance.randrange(9))
            base = "https://shop.example/" + "".join(chance.choices(PLAIN_EDGES, k=3))
            href = "".join(
                chance.choice(PLAIN_EDGES) if chance.random() < 0.9 else p for p in parts
            )
            place = rules.place(base)
            assert place is not None
            assert rules.resolve(place, href) == rules._slow(href, base), (base, href)
            fast += rules._fast(place, href) is not None
        assert fast > rounds // 20  # else nothing was compared
