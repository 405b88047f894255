"""Bundles for programs."""

from collections.abc import AsyncIterator

from crawlfleet.client.http.calls import Calls, segment
from crawlfleet.features.bundles.views import BundlePage, BundleView
from crawlfleet.model.project import DEFAULT_PROJECT


class BundleCalls(Calls):
    """Calls about bundles, the code that projects hand over.

    With `if_version` a change is made only if that is still the version of the bundle;
    `PreconditionFailed` if not.
    """

    def bundles(
        self, project_id: str = DEFAULT_PROJECT, limit: int | None = None
    ) -> AsyncIterator[BundleView]:
        """Iterate over the bundles of a project, in order of name."""
        return self._pages(_bundles(project_id), BundlePage, {}, limit=limit)

    async def bundle(self, name: str, project_id: str = DEFAULT_PROJECT) -> BundleView:
        """Return one bundle and its versions."""
        return await self._get(_bundle(project_id, name), BundleView)

    async def deploy(
        self, name: str, archive: bytes, project_id: str = DEFAULT_PROJECT, *, note: str = ""
    ) -> BundleView:
        """Upload a zip archive or a wheel as the current version; may be called twice."""
        body = {"name": name, "archive": archive, "note": note}
        return await self._post(_bundles(project_id), BundleView, body)

    async def roll_back_bundle(
        self,
        name: str,
        version: int | None = None,
        project_id: str = DEFAULT_PROJECT,
        *,
        if_version: int | None = None,
    ) -> BundleView:
        """Make another version the present one: the one before it when none is named."""
        path, body = f"{_bundle(project_id, name)}:rollback", {"version": version}
        return await self._post(path, BundleView, body, if_version)

    async def remove_bundle(
        self,
        name: str,
        version: int | None = None,
        project_id: str = DEFAULT_PROJECT,
        *,
        if_version: int | None = None,
    ) -> BundleView | None:
        """Remove an unused version of a bundle, or all of them when none is named. Returns `None`
        when the answer was lost, and the version or bundle is gone.
        """
        path, body = f"{_bundle(project_id, name)}:remove", {"version": version}
        return await self._remove(path, BundleView, body, if_version)


def _bundles(project_id: str) -> str:
    return f"/projects/{segment(project_id)}/bundles"


def _bundle(project_id: str, name: str) -> str:
    return f"{_bundles(project_id)}/{segment(name)}"
