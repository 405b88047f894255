"""Secrets as they are stored."""

from typing import Final

from crawlfleet.model.secret import Secret
from crawlfleet.ports.tables import Table

SECRETS: Final = Table(
    Secret,
    "crawler_secrets",
    columns=(
        "id",
        "project_id",
        "name",
        "sealed",
        "cause",
        "created_at",
        "updated_at",
        "version",
    ),
)
"""Secrets stay when they are removed, without their value: their versions go on."""
