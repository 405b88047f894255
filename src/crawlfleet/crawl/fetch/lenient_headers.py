"""Repairs response heads with invalid header lines, as browsers do.

A name with a space in it or without letters, or a line without a colon, can have no meaning, and
the page behind it is as good as any. Such a line is left out, with its continuation lines. White
space before a colon is no part of the name. A line that may be meant to mark the end of the body is
never left out: two parties could then see different responses.
"""

import re
from typing import Final

from httptools.parser.errors import HttpParserError

_END: Final = re.compile(rb"\r?\n\r?\n")
_LINE_END: Final = re.compile(rb"\r?\n")
_INTERIM: Final = re.compile(rb"HTTP/\d\.\d +1\d\d").match
_NAME: Final = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
_NO_LETTERS: Final = re.compile(rb"[^a-z]")
_OF_LENGTH: Final = (b"contentlength", b"transferencoding")
LONGEST_END: Final = 4
"""Bytes that end a head."""


class Unclear(HttpParserError):
    """An invalid header line may be meant to mark the end of the body."""


def has_end(data: bytes | bytearray, start: int) -> bool:
    """Return whether the bytes from `start` on contain the end of a head."""
    return _END.search(data, max(start, 0)) is not None


def mended(data: bytes) -> bytes | None:
    """An answer without the lines of its head that are no headers; `None` while the head has no
    end yet. Heads of interim answers before it are mended likewise. Raises `Unclear`."""
    at = len(data) - len(data.lstrip(b"\r\n"))
    heads: list[bytes] = []
    is_interim = True
    while is_interim:
        end = _END.search(data, at)
        if end is None:
            return None
        first, *lines = _LINE_END.split(data[at : end.start()])
        heads += [first, *_headers(lines), b"", b""]
        is_interim = _INTERIM(first) is not None
        at = end.end()
        if is_interim:
            heads.pop()
    return b"\r\n".join(heads) + data[at:]


def _headers(lines: list[bytes]) -> list[bytes]:
    kept: list[bytes] = []
    is_kept = False
    for line in lines:
        if is_kept and line[:1] in (b" ", b"\t"):
            kept[-1] += b" " + line.strip()
            continue
        name, colon, value = line.partition(b":")
        name = name.rstrip(b" \t")
        is_kept = bool(colon and _NAME(name))
        if is_kept:
            kept.append(name + b":" + value)
        elif _NO_LETTERS.sub(b"", line.lower()).startswith(_OF_LENGTH):
            text = line[:100].decode("latin-1")
            raise Unclear(f"no header, and of the length of the body: {text!r}")
    return kept
