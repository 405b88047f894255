import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.crawl.fetch.charset import is_binary, to_utf8

RUSSIAN = (
    "<html><body><p>Широкая электрификация южных губерний даст мощный толчок подъёму "
    "сельского хозяйства. Съешь ещё этих мягких французских булок, да выпей же чаю.</p></body>"
)
JAPANESE = "<html><body><p>いろはにほへと ちりぬるを 我が世誰ぞ 常ならむ</p></body></html>"
CHINESE = "<html><body><p>天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。寒来暑往，秋收冬藏。</p></body>"
GERMAN = "<html><body><p>Falsches Üben von Xylophonmusik quält jeden größeren Zwerg</p></body>"


@pytest.mark.parametrize(
    ("text", "encoding", "content_type", "charset"),
    [
        (RUSSIAN, "utf-8", "text/html", "utf-8"),
        (RUSSIAN, "utf-8", "text/html; charset=utf-8", "utf-8"),
        (RUSSIAN, "utf-8", "text/html; charset=windows-1251", "utf-8"),  # bytes count more
        (RUSSIAN, "cp1251", "text/html; charset=windows-1251", "windows-1251"),
        (RUSSIAN, "cp1251", 'text/html; charset="CP1251"', "windows-1251"),
        (RUSSIAN, "koi8-r", "text/html; charset=koi8-r", "koi8-r"),
        (JAPANESE, "shift_jis", "text/html; charset=Shift_JIS", "shift_jis"),
        (JAPANESE, "euc_jp", "text/html; charset=euc-jp", "euc-jp"),
        (JAPANESE, "iso2022_jp", "text/html; charset=iso-2022-jp", "iso-2022-jp"),
        (CHINESE, "gb18030", "text/html; charset=gb2312", "gbk"),
        (CHINESE, "gb18030", "text/html; charset=gb18030", "gb18030"),
        (GERMAN, "latin-1", "text/html; charset=ISO-8859-1", "windows-1252"),
        (GERMAN, "utf-16", "text/html", "utf-16le"),
        (GERMAN, "utf-16-be", "text/html; charset=utf-16be", "utf-16be"),
        (GERMAN, "utf-8-sig", "text/html; charset=latin-1", "utf-8"),
        (RUSSIAN, "cp1251", "text/html; charset=utf-8", "windows-1251"),  # mislabelled
        (RUSSIAN, "cp1251", "text/html", "windows-1251"),  # not labelled at all
    ],
)
def test_text_comes_out_as_utf8(text: str, encoding: str, content_type: str, charset: str) -> None:
    found = to_utf8(text.encode(encoding), content_type)

    assert found.utf8.decode() == text
    assert found.charset == charset


@pytest.mark.parametrize(
    "meta",
    [
        '<meta charset="windows-1251">',
        "<META CHARSET=cp1251 >",
        '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">',
        "<!-- <meta charset=utf-8> --><meta charset=windows-1251>",
        '<?xml version="1.0" encoding="windows-1251"?>',
    ],
)
def test_a_meta_at_the_beginning_counts_where_the_header_says_nothing(meta: str) -> None:
    text = meta + RUSSIAN[:60]

    assert to_utf8(text.encode("cp1251"), "text/html").utf8.decode() == text


def test_utf8_is_not_copied() -> None:
    for body in (GERMAN.encode(), b"<p>plain ASCII</p>", b""):
        assert to_utf8(body, "text/html").utf8 is body


def test_an_ascii_looking_charset_with_states_is_found_in_the_meta() -> None:
    text = f"<meta charset=iso-2022-jp>{JAPANESE}"

    assert to_utf8(text.encode("iso2022_jp"), "text/html").utf8.decode() == text


def test_utf8_with_a_few_broken_places_stays_utf8() -> None:
    body = RUSSIAN.encode()[:200] + b"\xff" + RUSSIAN.encode()[200:]

    found = to_utf8(body, "text/html; charset=utf-8")
    assert found.charset == "utf-8"
    assert "электрификация" in found.utf8.decode()


@given(st.binary(max_size=300), st.text(max_size=40))
def test_anything_comes_out_as_utf8(body: bytes, content_type: str) -> None:
    to_utf8(body, content_type).utf8.decode()


@pytest.mark.parametrize(
    ("body", "binary"),
    [
        (b"", False),
        (GERMAN.encode(), False),
        (GERMAN.encode("latin-1"), False),
        (GERMAN.encode("utf-16"), False),
        (b"<p>one \0 NUL</p>" + b" " * 200, False),
        (JAPANESE.encode("iso2022_jp"), False),
        (b"\x89PNG\r\n\x1a\n", True),
        (b"%PDF-1.7 and so on", True),
        (bytes(range(256)), True),
        (bytes(1000), True),
    ],
)
def test_binary_is_told_from_text(body: bytes, binary: bool) -> None:
    assert is_binary(body, "text/html") is binary
