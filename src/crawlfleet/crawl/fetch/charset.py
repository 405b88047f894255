"""Decodes the text of a page, whatever its charset and its declarations.

The order is that of browsers: a byte order mark, the HTTP header, a `meta` at the beginning. The
bytes count more than a declaration, though: a text that is valid UTF-8 and not plain ASCII is
UTF-8, since no other text looks like it by chance; and a text declared as UTF-8 that is not valid
must be something else.

Written by hand: webencodings knows the names of charsets and charset-normalizer guesses from bytes,
and both are used; neither knows which of header, `meta` and bytes to believe.
"""

import codecs
import re
from functools import lru_cache
from typing import Final, NamedTuple

import webencodings

from crawlfleet.crawl.fetch import legacy_charsets

PRESCAN_BYTES: Final = 4096
SAMPLE_BYTES: Final = 16_384
"""Number of bytes that are examined to guess a charset; guessing is slow."""
SNIFF_BYTES: Final = 1024
MAX_BINARY_SHARE: Final = 0.02
"""Control characters in text; a few NULs are somebody's mistake."""
FALLBACK: Final = "windows-1252"
UTF8: Final = "utf-8"
ASCII: Final = "us-ascii"
"""The charset of bytes that are all ASCII and whose header does not say more; the page itself may,
which matters to its links (`Text.charset`)."""

_BOMS: Final = (
    (b"\xef\xbb\xbf", UTF8),
    (b"\xff\xfe", "utf-16le"),
    (b"\xfe\xff", "utf-16be"),
)
_BEGIN_BOMS: Final = frozenset(mark[:1] for mark, _ in _BOMS)
_STATEFUL: Final = frozenset({"iso-2022-jp", "utf-16le", "utf-16be"})
"""Charsets whose bytes may look like ASCII or UTF-8 and mean something else."""
_ESCAPE: Final = b"\x1b"
_HEADER: Final = re.compile(
    r"charset\s*+=\s*+[\"']?+\s*+([\w.:()+-]{1,40})", re.IGNORECASE | re.ASCII
)
_META: Final = re.compile(
    rb"""<meta\s[^>]{0,500}?charset\s*=\s*["']?\s*([\w.:()+-]{1,40})"""
    rb"""|<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([\w.:()+-]{1,40})""",
    re.IGNORECASE,
)
_COMMENT: Final = re.compile(rb"<!--.*?-->", re.DOTALL)
_BINARY: Final = bytes((*range(9), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20)))
_MAGIC: Final = (
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"%PDF-",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"RIFF",
    b"\x7fELF",
    b"MZ\x90",
    b"\x00\x00\x01\x00",
    b"wOFF",
    b"wOF2",
    b"OggS",
    b"ID3",
)


class Text(NamedTuple):
    """A page for the parser."""

    utf8: bytes
    """The very object that came, when it was UTF-8 already."""
    charset: str
    """The original charset by its WHATWG name, or `ASCII`. Queries of the page's links are encoded
    in it, even if all else is ASCII: a link that writes `&#20013;` or `&eacute;` has other
    characters."""


def to_utf8(body: bytes, content_type: str = "") -> Text:
    """Return the body as UTF-8. Never fails: unreadable bytes become U+FFFD."""
    for mark, name in _BOMS if body[:1] in _BEGIN_BOMS else ():
        if body.startswith(mark):
            rest = body[len(mark) :]
            return Text(rest if name == UTF8 and _is_utf8(rest) else _convert(rest, name), name)
    declared = _from_header(content_type)
    if declared is None and _ESCAPE in body and body.isascii():
        declared = _from_meta(body) or UTF8  # ISO-2022-JP is ASCII to the eye
    elif declared not in _STATEFUL:
        # The common case: a look at all bytes, done in C, and no copy.
        if body.isascii():
            return Text(body, declared or ASCII)
        if _is_utf8(body):
            return Text(body, UTF8)
        declared = declared or _of_meta(body)
    if declared is None or declared == UTF8:
        declared = _guess(body)
    return Text(_convert(body, declared), declared)


def charset_of_ascii(body: bytes) -> str:
    """Return the declared charset of a page that is all ASCII."""
    return _of_meta(body) or UTF8


def is_binary(body: bytes, content_type: str = "") -> bool:
    """Return whether the body is no text, although its type may say so."""
    if body.startswith(_MAGIC):
        return True
    sample = body[:SNIFF_BYTES]
    junk = len(sample) - len(sample.translate(None, _BINARY))
    if not junk or junk <= len(sample) * MAX_BINARY_SHARE:
        return False
    if body.startswith((b"\xff\xfe", b"\xfe\xff")) or "utf-16" in content_type.lower():
        return False
    return not _is_stateful(content_type, sample)


def _is_stateful(content_type: str, sample: bytes) -> bool:
    # ISO-2022-JP switches with the escape character, which is not counted; nothing else does.
    return _from_header(content_type) in _STATEFUL or _from_meta(sample) == "iso-2022-jp"


@lru_cache(maxsize=1000)
def _from_header(content_type: str) -> str | None:
    match = _HEADER.search(content_type) if "=" in content_type else None
    return _named(match[1]) if match else None


def _from_meta(body: bytes) -> str | None:
    beginning = body[:PRESCAN_BYTES]
    if b"<!--" in beginning:
        beginning = _COMMENT.sub(b"", beginning)
    match = _META.search(beginning)
    return _named((match[1] or match[2]).decode("ascii", "replace")) if match else None


def _of_meta(body: bytes) -> str | None:
    """Likewise; it could not have been read if it were UTF-16."""
    declared = _from_meta(body)
    return UTF8 if declared is not None and declared.startswith("utf-16") else declared


def _named(label: str) -> str | None:
    """The encoding that a label means on the web (`latin1` is windows-1252); `None`: none."""
    found = webencodings.lookup(label)
    if found is None or found.name == "x-user-defined":
        return None
    return str(found.name)


def _guess(body: bytes) -> str:
    """The most likely charset of bytes that are no UTF-8, by a sample of them."""
    if _is_nearly_utf8(body):
        return UTF8
    start = next((at for at in range(0, len(body), 4096) if not body[at : at + 4096].isascii()), 0)
    sample = body[start : start + SAMPLE_BYTES]
    import charset_normalizer  # takes a while, and few pages need it

    best = charset_normalizer.from_bytes(sample, steps=5, chunk_size=512).best()
    return (_named(best.encoding.replace("_", "-")) if best else None) or FALLBACK


def _is_nearly_utf8(body: bytes) -> bool:
    """Return whether the body is UTF-8 except for a few broken places."""
    text = body.decode(UTF8, "replace")
    high = len(body) - len(body.decode("ascii", "ignore"))
    return text.count("\ufffd") * 10 < high


def _is_utf8(body: bytes) -> bool:
    if body.isascii():
        return True
    try:
        codecs.utf_8_decode(body, "strict", True)
    except UnicodeDecodeError:
        return False
    return True


def _convert(body: bytes, name: str) -> bytes:
    return legacy_charsets.decode(body, name).encode(UTF8, "replace")
