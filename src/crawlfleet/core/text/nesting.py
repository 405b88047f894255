"""Depth of nesting of a JSON text.

Deep values exhaust the stack of code that reads, compares or writes them, and Python versions
differ in how deep that is and in whether an exception comes of it. So the depth is counted in the
text, before it is decoded.
"""

from itertools import accumulate
from typing import Final

MAX_NESTING: Final = 200
"""Limit of lists and objects nested in a value; encoders and databases have limits not far
above."""
MAX_MESSAGE_NESTING: Final = MAX_NESTING + 50
"""Limit of nesting of a message that carries a value."""

_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def is_too_deep(json: bytes, limit: int = MAX_NESTING) -> bool:
    """Return whether more than `limit` lists and objects are nested in the JSON text, as far as a
    decoder would read it."""
    if not _may_be_too_deep(json, limit):
        return False
    # Of what stands between quotes, every second part is a string.
    bare = b"".join(json.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])
    return brackets_too_deep(bare, limit)


def brackets_too_deep(text: bytes, limit: int = MAX_NESTING) -> bool:
    """Return whether more than `limit` brackets are nested in a text without strings."""
    if not _may_be_too_deep(text, limit):
        return False
    steps = map(_STEPS.__getitem__, text.translate(None, _NO_BRACKETS))
    return max(accumulate(steps)) > limit


def _may_be_too_deep(text: bytes, limit: int) -> bool:
    """Return quickly whether a text may be nested too deep; false for nearly all texts."""
    return text.count(b"[") + text.count(b"{") > limit
