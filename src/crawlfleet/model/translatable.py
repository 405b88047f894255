"""What a sentence of ours says, for those who write it anew: in another language, in an alarm."""

import msgspec

Said = str | float
"""A value that a sentence names."""


class Phrase(msgspec.Struct, frozen=True):
    """A stable word for what is said, and the values in it."""

    code: str
    values: dict[str, Said] = {}
