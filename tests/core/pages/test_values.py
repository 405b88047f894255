"""A text becomes what its field says, or nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.core.pages.values import absolute, convert, read_json
from crawlfleet.model.crawl.extraction import ValueType

V = ValueType


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        ("  a \n b ", V.TEXT, "a b"),
        ("  a \n b ", V.RAW, "  a \n b "),
        ("1,234.50", V.NUMBER, 1234.5),
        ("1.234,50", V.NUMBER, 1234.5),
        ("1 234,5", V.NUMBER, 1234.5),
        ("1'234'567", V.NUMBER, 1234567),
        ("1,234", V.NUMBER, 1234),
        ("1,234,567", V.NUMBER, 1234567),
        ("1.234", V.NUMBER, 1.234),
        ("1,5", V.NUMBER, 1.5),
        ("about -3 °C", V.NUMBER, -3),
        ("−3", V.NUMBER, -3),
        ("12.5%", V.NUMBER, 12.5),
        ("1e5", V.NUMBER, 100000),
        ("3.5万人", V.NUMBER, 35000),
        ("１２", V.NUMBER, 12),
        ("2.3.4.5", V.NUMBER, None),
        ("none", V.NUMBER, None),
        ("9" * 5000, V.NUMBER, None),
        ("42 reviews", V.INTEGER, 42),
        ("4.5 stars", V.INTEGER, None),
        ("$19.99", V.PRICE, 19.99),
        ("1.299,00 €", V.PRICE, 1299.0),
        ("￥128", V.PRICE, 128.0),
        ("sold out", V.PRICE, None),
        ("$19.99", V.CURRENCY, "$"),
        ("19.99 EUR", V.CURRENCY, "EUR"),
        ("2026-11-15", V.DATE, "2026-11-15"),
        ("2026-11-15T10:30:00Z", V.DATE, "2026-11-15T10:30:00+00:00"),
        ("2026年11月5日", V.DATE, "2026-11-05"),
        ("发布于 2026年11月5日 10:30", V.DATE, "2026-11-05T10:30:00"),
        ("Sun, 15 Nov 2026 11:00:00 GMT", V.DATE, "2026-11-15T11:00:00+00:00"),
        ("Nov 5, 2026", V.DATE, "2026-11-05"),
        ("5 March 2026 3pm", V.DATE, "2026-03-05T15:00:00"),
        ("November 2026", V.DATE, None),
        ("10:30", V.DATE, None),
        ("2026年99月99日", V.DATE, None),
        ("soon", V.DATE, None),
        ("yes", V.BOOL, True),
        ("https://schema.org/InStock", V.BOOL, True),
        ("缺货", V.BOOL, False),
        ("maybe", V.BOOL, None),
        ('{"a": [1]}', V.JSON, {"a": [1]}),
        ("{", V.JSON, None),
    ],
)
def test_a_text_becomes_a_value(text: str, type: ValueType, value: Any) -> None:
    assert convert(text, type) == value


def test_a_date_may_have_its_own_format() -> None:
    assert convert("03.04.2026", V.DATE, format="%d.%m.%Y") == "2026-04-03"
    assert convert("2026-04-03", V.DATE, format="%d.%m.%Y") is None


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("/a", "https://x.example/a"),
        ("/a/b.html", "https://x.example/a/b.html"),
        ("b", "https://x.example/dir/b"),
        ("../b", "https://x.example/b"),
        ("/a/../b", "https://x.example/b"),
        ("/./b", "https://x.example/b"),
        ("//y.example/a", "https://y.example/a"),
        ("?q=1", "https://x.example/dir/page?q=1"),
        (" /a b ", "https://x.example/a%20b"),
        ("http://[", None),
    ],
)
def test_an_address_becomes_absolute(href: str, url: str | None) -> None:
    assert absolute("https://x.example/dir/page", href) == url


@given(
    st.sampled_from(["", "https://x.example", "https://x.example/", "https://x.exampl"]),
    st.text(alphabet="abz09/._-~?#%:\\ é", max_size=30),
)
def test_the_short_way_to_an_address_says_what_the_parser_says(site: str, rest: str) -> None:
    import ada_url

    base, href = "https://x.example/dir/page", site + rest
    try:
        expected = ada_url.join_url(base, href.strip())
    except ValueError:
        expected = None
    assert absolute(base, href) == expected


@given(st.text(max_size=200), st.sampled_from(list(ValueType)))
def test_no_text_is_too_strange(text: str, type: ValueType) -> None:
    convert(text, type, base="https://x.example/")


def test_deep_json_is_no_json() -> None:
    assert read_json("[" * 100_000) is None
    assert read_json("[" * 201 + "]" * 201) is None
    assert read_json("[" * 200 + "]" * 200) is not None
