"""Messages that leave the fleet, and the port that sends them."""

from typing import Protocol

import msgspec


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to a receiver outside of the fleet."""

    id: str
    url: str
    """`http:`, `https:` or `mailto:`."""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    title: str = ""
    """The subject of an e-mail, in one line."""


def recipients(url: str) -> list[str]:
    """The addresses of a `mailto:` URL."""
    return [each.strip() for each in url.removeprefix("mailto:").split(",")]


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one attempt to send a message."""

    delivered: bool = False
    status: int = 0
    """Status of the receiver's answer; 0 for no answer."""
    error: str = ""
    is_final: bool = False
    """Set if trying again cannot help."""
    retry_after_s: float | None = None
    """Seconds after which the receiver wants the next attempt; `None` if it named no time."""
    elapsed_s: float = 0.0


class Sender(Protocol):
    """Sends a message to its URL, once, within limits of time and size."""

    async def send(self, message: OutgoingMessage) -> SendResult:
        """Send the message and return the outcome; never raise for the receiver or the network.

        A message that counts as not delivered may have arrived all the same.
        """
        ...

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        ...
