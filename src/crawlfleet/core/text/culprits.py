"""Which entry of a map a decoder complains of: it only says that there is one, as `[...]`."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

MOST_BYTES: Final = 100_000
MOST_ENTRIES: Final = 100
"""Of a map that is looked through; each entry costs a decoding of what is left of the JSON."""
ANY: Final = "[...]"


def culprits(raw: bytes, type: Any, steps: Sequence[str], complaint: str) -> list[str]:
    """The steps with the names of entries where they stand for any, as far as they are found: the
    entry which, alone in its map, is complained of in the same words."""
    named = list(steps)
    if ANY not in steps or len(raw) > MOST_BYTES:
        return named
    try:
        document = msgspec.json.decode(raw)
        place = document
        for number, step in enumerate(steps):
            if step == ANY:
                named[number] = _only(document, place, type, complaint)
            place = place[int(step) if isinstance(place, list) else named[number]]
    except (msgspec.DecodeError, LookupError, TypeError, ValueError, RecursionError):
        pass  # it is no more than a name that would have been of help
    return named


def _only(document: Any, entries: dict[str, Any], type: Any, complaint: str) -> str:
    """The name of the entry that is complained of, which is left alone in the document; raises
    `LookupError`."""
    all = dict(entries)
    if len(all) > MOST_ENTRIES:
        raise LookupError
    for name, value in all.items():
        entries.clear()
        entries[name] = value
        try:
            msgspec.json.decode(msgspec.json.encode(document), type=type)
        except msgspec.ValidationError as error:
            if str(error) == complaint:
                return name
    raise LookupError
