"""Messages between the processes of a crawl: MessagePack, and JSON where that has no room.

Items have whatever numbers pages have, and MessagePack has none beyond 64 bits.
"""

from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

AS_JSON: Final = b"\xc1"
"""First byte of a message in JSON; no MessagePack message begins with it."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decoders: Final[dict[type, msgspec.msgpack.Decoder[object]]] = {}


def encode(message: object) -> bytes:
    """Return the message as bytes; any number in its items is allowed."""
    try:
        return _encode(message)
    except OverflowError:
        return AS_JSON + msgspec.json.encode(message)


def decode(data: bytes, kind: type[T]) -> T:
    """The message of that kind."""
    found: object
    if data.startswith(AS_JSON):
        found = msgspec.json.decode(memoryview(data)[1:], type=kind)
    else:
        decoder = _decoders.get(kind)
        if decoder is None:
            decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
        found = decoder.decode(data)
    assert isinstance(found, kind)
    return found
