"""How deep the values of a JSON text lie within each other.

Deep values exhaust the stack of what reads, compares or writes them, and Pythons differ in how deep
that is and in whether an exception comes of it. So depth is counted in the text, before it is read.
"""

from itertools import accumulate
from typing import Final

MAX_NESTING: Final = 200
"""Lists and objects within each other, of a value; encoders and databases have limits of their own
not far above."""
MAX_MESSAGE_NESTING: Final = MAX_NESTING + 50
"""The same of a message that carries a value."""

_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def is_too_deep(json: bytes, limit: int = MAX_NESTING) -> bool:
    """Whether more than so many lists and objects lie within each other, as far as a decoder would
    read the text."""
    if not _may_be_too_deep(json, limit):
        return False
    # Of what stands between quotes, every second part is a string.
    bare = b"".join(json.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])
    return brackets_too_deep(bare, limit)


def brackets_too_deep(text: bytes, limit: int = MAX_NESTING) -> bool:
    """The same for a text that has no strings, or lost them."""
    if not _may_be_too_deep(text, limit):
        return False
    steps = map(_STEPS.__getitem__, text.translate(None, _NO_BRACKETS))
    return max(accumulate(steps)) > limit


def _may_be_too_deep(text: bytes, limit: int) -> bool:
    """Says "no" of nearly all texts, at once."""
    return text.count(b"[") + text.count(b"{") > limit
