"""Secrets that tasks declare: stored for a project, and given to the executions that name them.

Values are encrypted here and in the store; only the masters can decrypt them.
"""

from typing import Final

import msgspec

CAPABILITY: Final = "secrets"
"""Capability of a node that runs tasks with secrets: it fetches them, and masks them in logs."""
MAX_OF_TASK: Final = 32
"""Maximum number of secrets of one task."""
MAX_OF_PROJECT: Final = 500
LEAST_CHARS: Final = 8
"""Minimum length of a value: a shorter one occurs by chance in logs and cannot be masked there."""
MAX_CHARS: Final = 32_000


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret of a project as the store knows it."""

    id: str
    project_id: str
    name: str
    created_at: float
    updated_at: float
    cause: str
    sealed: str = ""
    """The encrypted value, which only the masters can decrypt; empty when it was removed."""
    version: int = 1


def secret_id(project_id: str, name: str) -> str:
    """The id of a secret; ids of projects have no slash."""
    return f"{project_id}/{name}"


class SecretRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A secret to store."""

    name: str
    """Name that tasks use, and the environment variable for code: capitals, digits, underscores."""
    value: str
    """Value of 8 to 32,000 characters. It is not shown again."""

    def __repr__(self) -> str:
        return f"SecretRequest(name={self.name!r})"
