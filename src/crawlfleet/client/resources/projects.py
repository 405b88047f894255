"""Projects, clusters and settings for programs."""

from collections.abc import AsyncIterator
from typing import Any

from crawlfleet.client.http.calls import Calls, segment
from crawlfleet.model.admin_requests import ClusterHealth, SettingPage, SettingView
from crawlfleet.views.projects import (
    ClusterPage,
    ClusterView,
    ConfigurationPage,
    ConfigurationView,
    ProjectPage,
    ProjectView,
)


class AdministrationCalls(Calls):
    """Calls about projects, clusters and the master's settings.

    With `if_version` a change is made only if that is still the version; `PreconditionFailed` if
    not.
    """

    def projects(self, limit: int | None = None) -> AsyncIterator[ProjectView]:
        """Iterate over the projects, in order of id."""
        return self._pages("/projects", ProjectPage, {}, limit=limit)

    async def project(self, project_id: str) -> ProjectView:
        """Return one project, with the counts of its tasks."""
        return await self._get(f"/projects/{segment(project_id)}", ProjectView)

    async def create_project(self, project_id: str, **fields: Any) -> ProjectView:
        """Create a project; `fields` are `name` and `description`."""
        return await self._post("/projects", ProjectView, {"id": project_id, **fields})

    async def change_project(
        self, project_id: str, *, if_version: int | None = None, **fields: Any
    ) -> ProjectView:
        """Change the project's `name` or `description`."""
        return await self._patch(
            f"/projects/{segment(project_id)}", ProjectView, fields, if_version
        )

    async def close_project(self, project_id: str, *, if_version: int | None = None) -> ProjectView:
        """Take no new tasks for it; those that it has go on."""
        path = f"/projects/{segment(project_id)}:close"
        return await self._post(path, ProjectView, None, if_version)

    async def reopen_project(
        self, project_id: str, *, if_version: int | None = None
    ) -> ProjectView:
        """Take tasks for it again."""
        path = f"/projects/{segment(project_id)}:reopen"
        return await self._post(path, ProjectView, None, if_version)

    def clusters(self, limit: int | None = None) -> AsyncIterator[ClusterView]:
        """Clusters, in order of id."""
        return self._pages("/clusters", ClusterPage, {}, limit=limit)

    async def cluster(self, cluster_id: str) -> ClusterView:
        """Return one cluster and its settings."""
        return await self._get(f"/clusters/{segment(cluster_id)}", ClusterView)

    async def create_cluster(self, cluster_id: str, **fields: Any) -> ClusterView:
        """Make a cluster; `fields` are those of the API, such as `configuration`."""
        return await self._post("/clusters", ClusterView, {"id": cluster_id, **fields})

    async def change_cluster(
        self, cluster_id: str, *, if_version: int | None = None, **fields: Any
    ) -> ClusterView:
        """Change its `name`, `description`, `status`, or settings in `configuration`."""
        return await self._patch(
            f"/clusters/{segment(cluster_id)}", ClusterView, fields, if_version
        )

    async def close_cluster(self, cluster_id: str, *, if_version: int | None = None) -> ClusterView:
        """Take no new tasks for it, and place nothing there; what runs goes on."""
        path = f"/clusters/{segment(cluster_id)}:close"
        return await self._post(path, ClusterView, None, if_version)

    async def reopen_cluster(
        self, cluster_id: str, *, if_version: int | None = None
    ) -> ClusterView:
        """Use it again."""
        path = f"/clusters/{segment(cluster_id)}:reopen"
        return await self._post(path, ClusterView, None, if_version)

    async def roll_back_cluster(
        self, cluster_id: str, version: int, *, if_version: int | None = None
    ) -> ClusterView:
        """Make the settings of an earlier version those of a new one."""
        path, body = f"/clusters/{segment(cluster_id)}:rollback", {"version": version}
        return await self._post(path, ClusterView, body, if_version)

    def cluster_versions(
        self, cluster_id: str, limit: int | None = None
    ) -> AsyncIterator[ConfigurationView]:
        """The versions of its settings, newest first."""
        path = f"/clusters/{segment(cluster_id)}/configuration/versions"
        return self._pages(path, ConfigurationPage, {}, limit=limit)

    async def cluster_health(self, cluster_id: str) -> ClusterHealth:
        """Return the health of a cluster, with its troubles, the worst first."""
        return await self._get(f"/clusters/{segment(cluster_id)}/health", ClusterHealth)

    async def settings(self) -> list[SettingView]:
        """The settings of the master, and where each came from."""
        return (await self._get("/settings", SettingPage)).items
