"""Secrets for programs."""

from collections.abc import AsyncIterator

from crawlfleet.client.http.calls import Calls, segment
from crawlfleet.features.secrets.views import SecretPage, SecretView
from crawlfleet.model.project import DEFAULT_PROJECT


class SecretCalls(Calls):
    """Calls about the secrets of projects; their values cannot be read."""

    def secrets(
        self, project_id: str = DEFAULT_PROJECT, limit: int | None = None
    ) -> AsyncIterator[SecretView]:
        """Iterate over the secrets of a project, in order of name."""
        return self._pages(_secrets(project_id), SecretPage, {}, limit=limit)

    async def set_secret(
        self, name: str, value: str, project_id: str = DEFAULT_PROJECT
    ) -> SecretView:
        """Store a value under a name, in place of the one before; may be called twice."""
        return await self._post(_secrets(project_id), SecretView, {"name": name, "value": value})

    async def remove_secret(
        self, name: str, project_id: str = DEFAULT_PROJECT, *, if_version: int | None = None
    ) -> SecretView | None:
        """Remove a secret; with `if_version` only if that is still its version. Returns `None` when
        the answer was lost, and the secret is gone.
        """
        path = f"{_secrets(project_id)}/{segment(name)}:remove"
        return await self._remove(path, SecretView, None, if_version)


def _secrets(project_id: str) -> str:
    return f"/projects/{segment(project_id)}/secrets"
