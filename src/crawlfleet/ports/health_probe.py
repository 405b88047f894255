"""The port for probes of the nodes' own health endpoints."""

from typing import Protocol


class Prober(Protocol):
    """Probes the health endpoint at the address that a node has registered."""

    async def ask(self, address: str, port: int, node_id: str) -> str | None:
        """Return the problem with the endpoint; `None` when that node answers that it is well.

        Connects to no other address than this one, which is an IP address, whatever the endpoint
        answers. Raises nothing, and returns within the timeout of this prober.
        """
        ...
