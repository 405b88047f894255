"""Questions to name servers, as far as cells ask them: the addresses of a name (RFC 1035)."""

import ipaddress
import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

MOST_BYTES: Final = 512
MOST_ADDRESSES: Final = 12
TTL_S: Final = 30
_HEAD: Final = struct.Struct("!HHHHHH")
_OF_ADDRESS: Final = {1: 4, 28: 6}
"""Types of records (`A`, `AAAA`), and the version of their addresses."""
_INTERNET: Final = 1
_IS_ANSWER, _RECURSION, _OTHER_KIND = 0x8000, 0x0180, 0x7800
_POINTER_TO_NAME: Final = 0xC00C


class Trouble(IntEnum):
    """Why there is no answer, as the protocol counts."""

    NONE = 0
    FAILED = 2
    UNKNOWN = 3
    REFUSED = 5


class Question(NamedTuple):
    name: str
    kind: int
    end: int
    """Of the question, in the message."""


def read(message: bytes) -> Question | None:
    """What is asked; `None` for what makes no sense."""
    if not _HEAD.size < len(message) <= MOST_BYTES:
        return None
    _, flags, questions, *_ = _HEAD.unpack_from(message)
    if flags & (_IS_ANSWER | _OTHER_KIND) or questions != 1:
        return None
    labels, place = [], _HEAD.size
    while place < len(message) and (size := message[place]):
        label = message[place + 1 : place + 1 + size]
        if size > 63 or len(label) < size or not label.isascii():
            return None
        labels.append(label.decode("ascii").lower())
        place += size + 1
    if not labels or place + 5 > len(message):
        return None
    kind, of = struct.unpack_from("!HH", message, place + 1)
    name = ".".join(labels)
    return Question(name, kind, place + 5) if of == _INTERNET and len(name) < 254 else None


def answer(message: bytes, question: Question, addresses: Iterable[str], trouble: Trouble) -> bytes:
    """The addresses of the kind that was asked for, or why there are none."""
    version = _OF_ADDRESS.get(question.kind)
    known = [ipaddress.ip_address(each.partition("%")[0]) for each in addresses]
    found = [ip for ip in known if ip.version == version]
    records = b"".join(
        struct.pack("!HHHIH", _POINTER_TO_NAME, question.kind, _INTERNET, TTL_S, len(ip.packed))
        + ip.packed
        for ip in found[:MOST_ADDRESSES]
    )
    number, *_ = _HEAD.unpack_from(message)
    flags = _IS_ANSWER | _RECURSION | trouble
    head = _HEAD.pack(number, flags, 1, min(len(found), MOST_ADDRESSES), 0, 0)
    return head + message[_HEAD.size : question.end] + records
