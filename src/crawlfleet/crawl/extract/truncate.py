"""Finds the place where a page must be cut, so that parsing it stays cheap.

The HTML parser looks back over all open elements at many tags, and over all attributes of a tag at
each of them. So a page of nested `<div>` takes quadratic time: 100,000 of them take a quarter of a
minute. Pages are therefore cut at a depth, a number of tags or of attributes that no page for
people has. Small pages are parsed as they are: they cannot be expensive.
"""

import re
from functools import cache
from itertools import islice
from typing import Any, Final

FEW_TAGS: Final = 10_000
"""Number of tags below which even the worst nesting is parsed in a tenth of a second."""
SHORTEST_TAG: Final = len("<p>")
FEW_BYTES: Final = 128_000
"""Size in bytes below which even a tag full of attributes is read in two seconds."""
MAX_TAGS: Final = 200_000
MAX_MARKS: Final = 1_000_000
"""Maximum number of `<` characters, whatever they stand for."""
DEEPEST: Final = 2_000
DEEPEST_IN_SCRIPTS: Final = 10_000
"""Maximum depth when tag-like text within scripts is counted, too."""
MAX_ATTRIBUTES: Final = 2_000
SLOPPY: Final = 1_000
"""Number of surplus end tags of a name up to which they are taken for a mistake, not for an
attack."""

_MARK_UP: Final = re.compile(
    rb"<(?:!--.*?(?:-->|\Z)|(script|style|textarea|title)\b.*?(?:</\1|\Z)"
    rb"|[a-z](?:[^>\"'=]++|=\s*+(?:\"[^\"]*+\"?+|'[^']*+'?+)?+|[\"'])*+)",
    re.IGNORECASE | re.DOTALL,
)
"""A comment, an element whose content is plain text, or the begin tag of another one up to its `>`.
It never gives up what it has begun to match, and the next search starts where the last match ended:
so each byte is looked at once, whatever the page is."""
_ATTRIBUTE: Final = re.compile(
    rb"(?<=[\s/])[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>\"'][^\s>]*+)?+)?+"
)
_SHORTEST_ATTRIBUTE: Final = len("a ")
_SCRIPT: Final = re.compile(rb"<script\b(.*?)(?:</script|\Z)", re.IGNORECASE | re.DOTALL)
_FLAT: Final = re.findall(
    r"\S+",
    "area base basefont br col colgroup dd dt embed hr image img input li link meta option p param "
    "source td th thead tr track wbr",
)
"""Elements that are empty, or end by themselves when the next one begins. The whole name counts:
`article` and `listing` can be nested without end, and each of them costs the parser a look at all
that are open."""
_SIGNIFICANT: Final = 1 + max(map(len, _FLAT))
"""Number of leading bytes of a name that show whether it is one of `_FLAT`."""
_SIGNS: Final = 38
"""Number of values of a byte in a name: the end, a letter, a digit, or anything else."""


def cut_at(body: bytes) -> int | None:
    """Return the position where the page must be cut; `None` if all of it can be parsed."""
    if len(body) < SHORTEST_TAG * FEW_TAGS:
        return None
    ends = []
    if len(body) > FEW_BYTES and (crowded := _crowded_tag(body)) is not None:
        ends.append(crowded)
    if body.count(b"<") > FEW_TAGS:
        ends += _too_many(body)
    return min(ends, default=None)


def _crowded_tag(body: bytes) -> int | None:
    """Return the position of the first tag with too many attributes; `None` if there is none."""
    shortest = MAX_ATTRIBUTES * _SHORTEST_ATTRIBUTE
    for found in _MARK_UP.finditer(body):
        start, end = found.span()
        if end - start > shortest and found[1] is None:
            attributes = _ATTRIBUTE.finditer(body, start, end)
            if next(islice(attributes, MAX_ATTRIBUTES, None), None) is not None:
                return start
    return None


def _too_many(body: bytes) -> list[int]:
    """Return the positions where the tags become too many and where they are nested too deep."""
    import numpy as np  # takes a while, and few pages need it

    letter = _letters()
    text = np.frombuffer(body + b" " * _SIGNIFICANT, np.uint8)
    at = np.flatnonzero(text[: len(body) - 3] == ord("<"))
    ends = [int(at[MAX_MARKS])] if len(at) > MAX_MARKS else []
    at = at[:MAX_MARKS]
    first = text[at + 1]
    closes = first == ord("/")
    name = letter[np.where(closes, text[at + 2], first)].astype(np.int32) << 8
    name |= letter[np.where(closes, text[at + 3], text[at + 2])]
    opens = letter[first] >= ord("a")
    # End tags of what was never begun close nothing.
    begun = np.bincount(name[opens], minlength=1 << 16)
    ended = np.bincount(name[closes], minlength=1 << 16)
    closes &= (ended <= begun + SLOPPY)[name]
    nests = _can_nest(text, np.where(closes, at + 2, at + 1))
    change = np.where(nests & opens, 1, np.where(nests & closes, -1, 0))
    plain = change.copy()
    for script in _SCRIPT.finditer(body):
        begin, end = np.searchsorted(at, script.span(1))
        plain[begin:end] = 0
    tags = np.flatnonzero(opens)
    if len(tags) > MAX_TAGS:
        ends.append(int(at[tags[MAX_TAGS]]))
    # What looks like a script may be a trick; then the other limit holds.
    for steps, deepest in ((plain, DEEPEST), (change, DEEPEST_IN_SCRIPTS)):
        depth = np.cumsum(steps)
        depth -= np.minimum(np.minimum.accumulate(depth), 0)
        ends += [int(at[where]) for where in np.flatnonzero(depth > deepest)[:1]]
    return ends


def _can_nest(text: Any, begin: Any) -> Any:
    """Return, for each name that begins there, whether such elements can be nested without end."""
    import numpy as np

    sign, flat = _flat_names()
    number = np.zeros(len(begin), np.int64)
    goes_on = np.ones(len(begin), np.bool_)
    for place in range(_SIGNIFICANT):
        found = sign[text[begin + place]]
        goes_on &= found != 0
        number = number * _SIGNS + found * goes_on
    return ~np.isin(number, flat)


@cache
def _letters() -> Any:
    """Return a table by byte: a letter in lower case or a digit; a space for bytes that end a
    name."""
    import numpy as np

    letters = [
        ord(c.lower()) if (c := chr(code)).isascii() and c.isalnum() else 32 for code in range(256)
    ]
    return np.array(letters, np.uint8)


@cache
def _flat_names() -> tuple[Any, Any]:
    """Return a table by byte of its sign in a name, 0 where the byte ends the name; and the flat
    names as numbers made of these signs."""
    import numpy as np

    signs = [0 if code in b"\t\n\f\r />" else _SIGNS - 1 for code in range(256)]
    for value, letter in enumerate("abcdefghijklmnopqrstuvwxyz0123456789", 1):
        signs[ord(letter)] = signs[ord(letter.upper())] = value
    flat = []
    for name in _FLAT:
        number = 0
        for code in name.encode().ljust(_SIGNIFICANT):
            number = number * _SIGNS + signs[code]
        flat.append(number)
    return np.array(signs, np.int64), np.array(flat, np.int64)
