"""Encoding of the messages between a crawl and its frontier: MessagePack, compressed when large."""

from typing import Any, Final, TypeVar

import msgspec

from crawlfleet.core.network.compression import BadCompression, TooLarge, pack, unpack
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.wire.frontier import MAX_ASKED_BYTES, FrontierReply, FrontierRequest

T = TypeVar("T")
PACKED_FROM_BYTES: Final = 1_000
HOW: Final = "zstd"
PLAIN: Final = b"\0"
PACKED: Final = b"\1"
IN_JSON: Final = b"\2"
"""Marks messages in JSON, for clients without MessagePack; they are answered in JSON too."""

_encode: Final = msgspec.msgpack.Encoder().encode
_talk: Final = msgspec.msgpack.Decoder(FrontierRequest)
_told: Final = msgspec.msgpack.Decoder(FrontierReply)


class Unreadable(CrawlfleetError):
    """Raised for a message that this version of the program did not write."""


def written(said: FrontierRequest | FrontierReply) -> bytes:
    """Return an encoded message. Raises `Unreadable` if it is too large for the receiver."""
    data = _encode(said)
    if len(data) > MAX_ASKED_BYTES:
        raise Unreadable(
            f"{len(data):,} bytes are to be said about a frontier at once, and at most "
            f"{MAX_ASKED_BYTES:,} can be"
        )
    if len(data) < PACKED_FROM_BYTES:
        return PLAIN + data
    return PACKED + pack(data, HOW)


def answer_to(asked: bytes, told: FrontierReply) -> bytes:
    """Encode a reply in the format (MessagePack or JSON) of the request."""
    if asked[:1] != IN_JSON:
        return written(told)
    answers = told.answers
    plain = {
        **msgspec.to_builtins(msgspec.structs.replace(told, answers=None)),
        "answers": answers and [msgspec.msgpack.decode(each) for each in answers],
    }
    return IN_JSON + msgspec.json.encode(plain)


def raw(answer: Any) -> msgspec.Raw:
    """Return one encoded answer, to be put into a reply with others."""
    return msgspec.Raw(_encode(answer))


def request_in(data: bytes) -> FrontierRequest:
    """Decode a request. Raises `Unreadable`."""
    return _read(data, _talk)


def reply_in(data: bytes) -> FrontierReply:
    """Decode a reply. Raises `Unreadable`."""
    return _read(data, _told)


def _read(data: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    try:
        content = data[1:]
        if data[:1] == IN_JSON:
            return msgspec.json.decode(content, type=decoder.type)
        if data[:1] == PACKED:
            content = unpack(content, HOW, most_bytes=MAX_ASKED_BYTES)
        return decoder.decode(content)
    except (msgspec.DecodeError, BadCompression, TooLarge) as error:
        raise Unreadable(f"what was said about a frontier cannot be read: {error}") from None
