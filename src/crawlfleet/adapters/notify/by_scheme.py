"""One courier for every kind of address."""

from collections.abc import Mapping

from crawlfleet.ports.courier import Sender
from crawlfleet.ports.sender import OutgoingMessage, SendResult


class Couriers:
    """Implements `crawlfleet.ports.courier.Courier`: chooses by the scheme of the URL."""

    def __init__(self, by_scheme: Mapping[str, Sender]) -> None:
        self._by_scheme = by_scheme

    async def send(self, parcel: OutgoingMessage) -> SendResult:
        courier = self._by_scheme.get(parcel.url.partition(":")[0])
        if courier is None:
            return SendResult(error="nobody carries anything to such an address", is_final=True)
        return await courier.send(parcel)

    async def close(self) -> None:
        for courier in self._by_scheme.values():
            await courier.close()
