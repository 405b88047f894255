"""Who carries what is told to others out of the fleet."""

from typing import Protocol

from crawlfleet.ports.sender import OutgoingMessage, SendResult


class Sender(Protocol):
    """Brings a parcel to where its URL leads, once, within bounds of time and size."""

    async def send(self, parcel: OutgoingMessage) -> SendResult:
        """What became of it. Raises nothing that the receiver or the network could cause.

        One that was not delivered may all the same have arrived.
        """
        ...

    async def close(self) -> None:
        """Let go of connections. May be called twice."""
        ...
