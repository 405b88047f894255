"""Secrets as the API shows them: never their values."""

from datetime import datetime
from typing import Self

import msgspec

from crawlfleet.model.secret import Secret
from crawlfleet.views.fields import moment


class SecretView(msgspec.Struct, frozen=True, kw_only=True):
    """A secret, without its value."""

    name: str
    project_id: str
    created_at: datetime
    updated_at: datetime
    cause: str
    """Last change in words, such as `set by admin`."""
    version: int
    """Increases each time the secret is set or removed, for `If-Match`."""

    @classmethod
    def of(cls, secret: Secret) -> Self:
        return cls(
            name=secret.name,
            project_id=secret.project_id,
            created_at=moment(secret.created_at),
            updated_at=moment(secret.updated_at),
            cause=secret.cause,
            version=secret.version,
        )


class SecretPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[SecretView]
    next_cursor: str | None
