"""Secrets that tasks declare: kept for a project, and given to the executions that name them.

Only what seals a value can read it again; what is here, and in the store, is of no use to anybody
else.
"""

from typing import Final

import msgspec

CAPABILITY: Final = "secrets"
"""What a node must have to be given work that declares any: it fetches them, and masks them."""
MOST_OF_TASK: Final = 32
"""Secrets that one task may declare."""
MOST_OF_PROJECT: Final = 500
LEAST_CHARS: Final = 8
"""What is shorter stands by chance in every log, and cannot be masked there."""
MOST_CHARS: Final = 32_000


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows of a secret of a project."""

    id: str
    project_id: str
    name: str
    created_at: float
    updated_at: float
    cause: str
    sealed: str = ""
    """The value as only its masters can read it; empty when it was removed."""
    version: int = 1


def secret_id(project_id: str, name: str) -> str:
    """The id of a secret; ids of projects have no slash."""
    return f"{project_id}/{name}"


class SecretRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A secret to be kept."""

    name: str
    """How tasks name it, and the variable that code finds it in: capitals, digits, underscores."""
    value: str
    """8 to 32,000 characters. It is not shown again."""

    def __repr__(self) -> str:
        return f"SecretRequest(name={self.name!r})"
