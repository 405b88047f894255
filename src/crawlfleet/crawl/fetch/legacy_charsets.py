"""The encodings that pages had before UTF-8, as the WHATWG's Encoding standard has them.

Python's codecs are older or stricter in places: the 0x80 to 0x9F of windows-125x that nobody
assigned, the euro of GBK, the row 13 of Japanese makers in EUC-JP and ISO-2022-JP. Known to differ
still: 20 characters that GB18030-2022 has moved, some of Big5 that it has twice, and the latest of
its Hong Kong part.
"""

import codecs
import re
import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final

import webencodings

NO_OTHER: Final = frozenset({"utf-8", "utf-16le", "utf-16be", "replacement", "x-user-defined"})
"""Pages in these write the queries of their links in UTF-8, as all others do without a page."""

_NONE: Final = "\ufffe"
_C1: Final = re.compile(r"windows-(?:125\d|874)").fullmatch
_OTHERWISE: Final = {
    "koi8-u": {
        0xAE: "\N{CYRILLIC SMALL LETTER SHORT U}",
        0xBE: "\N{CYRILLIC CAPITAL LETTER SHORT U}",
    },
    "windows-1255": {0xCA: "\N{HEBREW POINT HOLAM HASER FOR VAV}"},
}
_MULTIBYTE: Final = {
    "gbk": "gb18030",
    "gb18030": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc-jp": "euc_jp",
    "iso-2022-jp": "iso2022_jp_ext",
    "euc-kr": "cp949",
}
_SIGNS: Final = {
    "euc-jp": ("\u301c\u2016\u2212\xa2\xa3\xac", "\uff5e\u2225\uff0d\uffe0\uffe1\uffe2"),
    "big5": (
        "\u2022\uff64\u203e\u223c\u2641\u2609\xa5\xa2\xa3",
        "\u2027\ufe51\xaf\uff5e\u2295\u2299\uffe5\uffe0\uffe1",
    ),
}
_READ: Final = {name: str.maketrans(*signs) for name, signs in _SIGNS.items()}
"""Signs that Python's codec reads in another of their meanings."""
_WRITTEN: Final = {name: str.maketrans(*signs[::-1]) for name, signs in _SIGNS.items()}
_JAPANESE: Final = {"\xa5": b"\\", "\u203e": b"~"}
_KATAKANA: Final = re.compile("[\uff61-\uff9f]")
_ASCII, _ROMAN, _KANJI = b"\x1b(B", b"\x1b(J", b"\x1b$B"
_ESCAPED: Final = re.compile(rb"[^!$-&(-;=?-~]")
"""Bytes that a query has no place for as they are."""


def decode(body: bytes, name: str) -> str:
    """Return the text of bytes in the encoding of that name. Never fails: invalid bytes become
    U+FFFD."""
    codec = _MULTIBYTE.get(name)
    if codec is not None:
        text = body.decode(codec, _handler(name))
        return text.translate(_READ[name]) if name in _READ else text
    table = _table(name)
    if table is not None:
        return codecs.charmap_decode(body, "replace", table)[0]
    encoding = webencodings.lookup(name)
    info = encoding.codec_info if encoding else codecs.lookup("utf-8")
    return str(info.decode(body, "replace")[0])


def spelt_in(href: str, name: str) -> str:
    """Return a link as a browser requests it, from a page in the encoding of that name.

    Its query is in the page's encoding, and characters missing there become `&#NNNN;`. The rest of
    the link is UTF-8 everywhere, and escapes stay as they are.
    """
    if href.isascii() or name in NO_OTHER:
        return href
    rest, sharp, fragment = href.partition("#")
    before, mark, query = rest.partition("?")
    if not mark or query.isascii():
        return href
    return f"{before}?{_encoded(query, name)}{sharp}{fragment}"


def _encoded(text: str, name: str) -> str:
    if name == "iso-2022-jp":
        return _with_states(text)
    return "".join([char if char.isascii() else _escaped(char, name) for char in text])


@lru_cache(maxsize=32_768)
def _escaped(char: str, name: str) -> str:
    found = _bytes_of(char, name)
    return _instead_of(char) if found is None else _ESCAPED.sub(_escape, found).decode("ascii")


def _escape(found: re.Match[bytes]) -> bytes:
    return b"%%%02X" % found[0][0]


def _instead_of(char: str) -> str:
    code = ord(char)
    return f"%26%23{0xFFFD if 0xD800 <= code < 0xE000 else code}%3B"


def _bytes_of(char: str, name: str) -> bytes | None:
    """A character that is not ASCII in an encoding; `None` when it is not in there."""
    match name:
        case "gbk" | "gb18030":
            if name == "gbk" and char == "\N{EURO SIGN}":
                return b"\x80"
            found = _by_codec(char, "gb18030")
            return None if found is None or (name == "gbk" and len(found) > 2) else found
        case "big5":
            return _big5(char)
        case "shift_jis":
            return _shift_jis(char)
        case "euc-jp":
            return _euc_jp(char)
        case "euc-kr":
            return _by_codec(char, "cp949")
    table = _table(name)
    at = table.find(char) if table is not None and char != _NONE else -1
    return None if at < 0 else bytes((at,))


def _by_codec(char: str, codec: str) -> bytes | None:
    try:
        return char.encode(codec)
    except UnicodeEncodeError:
        return None


def _big5(char: str) -> bytes | None:
    for found in (
        _by_codec(char.translate(_WRITTEN["big5"]), "big5hkscs"),
        _by_codec(char, "cp950"),
    ):
        # The part for Hong Kong is read and not written.
        if found and found[0] >= 0xA1 and decode(found, "big5") == char:
            return found
    return None


def _shift_jis(char: str) -> bytes | None:
    found = _japanese_bytes(char)
    if found is not None and found[0] in (0xED, 0xEE):
        return _of_ibm()[char]
    return found


def _japanese_bytes(char: str) -> bytes | None:
    """Return the character's bytes in Shift_JIS, the first ones if it is there twice; `None` if it
    is not there."""
    if char in _JAPANESE:
        return _JAPANESE[char]
    if char == "\N{MINUS SIGN}":
        char = "\N{FULLWIDTH HYPHEN-MINUS}"
    found = _by_codec(char, "cp932")
    if found is None or found.decode("cp932") != char:
        return None  # the nearest that there is
    if len(found) == 1:
        return found if 0xA1 <= found[0] <= 0xDF else None
    return None if 0xF0 <= found[0] < 0xFA else found  # each maker's own


@lru_cache(maxsize=1)
def _of_ibm() -> dict[str, bytes]:
    """Characters that Shift_JIS has twice, in the place that is written."""
    places = (bytes((high, low)) for high in (0xFA, 0xFB, 0xFC) for low in range(0x40, 0xFD))
    return {char: place for place in places if len(char := place.decode("cp932", "ignore")) == 1}


def _euc_jp(char: str) -> bytes | None:
    found = _japanese_bytes(char)
    if found is None or char in _JAPANESE:
        return found
    if len(found) == 1:
        return b"\x8e" + found
    high, low = found
    if high >= 0xF0:
        return None
    row = 2 * (high - (0x81 if high < 0xA0 else 0xC1))
    cell = low - (0x40 if low < 0x7F else 0x41)
    return bytes((row + cell // 94 + 0xA1, cell % 94 + 0xA1))


def _with_states(text: str) -> str:
    """Decode ISO-2022-JP, whose escape sequences switch the meaning of the bytes after them."""
    pieces: list[str] = []
    state = _ASCII

    def enter(wanted: bytes) -> None:
        nonlocal state
        if state != wanted:
            pieces.append(_ESCAPED.sub(_escape, wanted).decode("ascii"))
            state = wanted

    for char in _KATAKANA.sub(_wide, text):
        if char.isascii():
            enter(_ASCII)
            pieces.append(char)
        elif char in _JAPANESE:
            enter(_ROMAN)
            pieces.append(_JAPANESE[char].decode("ascii"))
        elif (found := _euc_jp(char)) is None:
            enter(_ASCII)
            pieces.append(_instead_of(char))
        else:
            enter(_KANJI)
            seven = bytes(byte & 0x7F for byte in found)
            pieces.append(_ESCAPED.sub(_escape, seven).decode("ascii"))
    enter(_ASCII)
    return "".join(pieces)


def _wide(found: re.Match[str]) -> str:
    marks = {"\uff9e": "\u309b", "\uff9f": "\u309c"}
    return marks.get(found[0]) or unicodedata.normalize("NFKC", found[0])


@cache
def _table(name: str) -> str | None:
    """The 256 characters of an encoding of single bytes; `None` for others."""
    encoding = webencodings.lookup(name)
    if encoding is None or name in _MULTIBYTE or name in NO_OTHER:
        return None
    chars = []
    for byte in range(256):
        char = encoding.codec_info.decode(bytes((byte,)), "ignore")[0]
        unassigned = chr(byte) if byte < 0xA0 and _C1(name) else _NONE
        chars.append(_OTHERWISE.get(name, {}).get(byte) or char or unassigned)
    return "".join(chars)


@cache
def _handler(name: str) -> str:
    """Return the name of an error handler that decodes the bytes unknown to Python's codec for this
    encoding."""
    fallback = _FALLBACKS.get(name)
    if fallback is None:
        return "replace"

    def read(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        found, size = fallback(error.object[error.start : error.start + 2])
        return (found, error.start + size) if found else ("\ufffd", error.end)

    registered = f"crawlfleet-{name}"
    codecs.register_error(registered, read)
    return registered


def _chinese(data: bytes) -> tuple[str, int]:
    return ("\N{EURO SIGN}" if data[0] == 0x80 else ""), 1


def _taiwanese(data: bytes) -> tuple[str, int]:
    return _character(data, "cp950") if data[0] >= 0xA1 else "", 2


def _japanese(data: bytes) -> tuple[str, int]:
    if len(data) < 2 or data[0] < 0xA1 or data[1] < 0xA1:
        return "", 1
    row, cell = data[0] - 0xA1, data[1] - 0xA1 + 94 * (data[0] - 0xA1 & 1)
    high = row // 2 + (0x81 if row < 62 else 0xC1)
    low = cell + (0x40 if cell < 63 else 0x41)
    return _character(bytes((high, low)), "cp932"), 2


def _character(data: bytes, codec: str) -> str:
    """The one that the bytes are; empty when they are none."""
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return ""


_FALLBACKS: Final[dict[str, Callable[[bytes], tuple[str, int]]]] = {
    "gbk": _chinese,
    "gb18030": _chinese,
    "big5": _taiwanese,
    "euc-jp": _japanese,
}
