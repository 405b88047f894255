"""One sender for every kind of address."""

from collections.abc import Mapping

from crawlfleet.ports.sender import OutgoingMessage, Sender, SendResult


class SenderByScheme:
    """Implements `crawlfleet.ports.sender.Sender`: chooses by the scheme of the URL."""

    def __init__(self, by_scheme: Mapping[str, Sender]) -> None:
        self._by_scheme = by_scheme

    async def send(self, message: OutgoingMessage) -> SendResult:
        sender = self._by_scheme.get(message.url.partition(":")[0])
        if sender is None:
            return SendResult(error="nobody carries anything to such an address", is_final=True)
        return await sender.send(message)

    async def close(self) -> None:
        for sender in self._by_scheme.values():
            await sender.close()
