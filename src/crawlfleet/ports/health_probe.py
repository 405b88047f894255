"""Asking a node's own health endpoint."""

from typing import Protocol


class Prober(Protocol):
    """Knocks at the address that a node has registered."""

    async def ask(self, address: str, port: int, node_id: str) -> str | None:
        """What is wrong with the endpoint there; `None` when that node answers that it is well.

        Connects to no other address than this one, which is an IP address, whatever it answers.
        Raises nothing, and returns within the time-out that it was made with.
        """
        ...
