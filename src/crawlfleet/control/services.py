"""The services of a master, found by their types.

A handler names the service that it uses; a new feature adds its own, and nothing else changes.
"""

from typing import TypeVar

Service = TypeVar("Service")


class Services:
    """Registry of service objects by type: one object of each type."""

    def __init__(self) -> None:
        self._by_type: dict[type[object], object] = {}

    def add(self, *services: object) -> None:
        """Offer services under their types; a type has one service."""
        for service in services:
            assert type(service) not in self._by_type, f"two services are a {type(service)}"
            self._by_type[type(service)] = service

    def get(self, kind: type[Service]) -> Service:
        """Return the service of this type; raises `LookupError` for one that this master does not
        have.
        """
        found = self._by_type.get(kind)
        if not isinstance(found, kind):
            raise LookupError(f"this master has no {kind.__module__}.{kind.__name__}")
        return found
