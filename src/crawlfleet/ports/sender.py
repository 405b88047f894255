"""What is handed to a courier, and what it brings back."""

import msgspec


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be sent to somebody outside of the fleet."""

    id: str
    url: str
    """`http:`, `https:` or `mailto:`."""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    title: str = ""
    """What a letter is about, in a line."""


def recipients(url: str) -> list[str]:
    """The addresses of a `mailto:` URL."""
    return [each.strip() for each in url.removeprefix("mailto:").split(",")]


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a parcel."""

    delivered: bool = False
    status: int = 0
    """What the receiver answered; 0 for no answer."""
    error: str = ""
    is_final: bool = False
    """Whether trying again cannot help."""
    retry_after_s: float | None = None
    """When the receiver wants to be asked again."""
    elapsed_s: float = 0.0
