"""Messages as codes and values, so that a client can translate them."""

import msgspec

Said = str | float
"""A value in a message."""


class Phrase(msgspec.Struct, frozen=True):
    """A stable code for a message, with the values in it."""

    code: str
    values: dict[str, Said] = {}
