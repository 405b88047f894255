"""/api/v1/clusters"""

from http import HTTPStatus
from typing import Annotated, Final

import msgspec

from crawlfleet.api.examples import projects as examples
from crawlfleet.api.http.etags import tagged, wanted_version
from crawlfleet.api.http.parameters import PageQuery, PageSize, check_id, check_name_cursor
from crawlfleet.api.http.routing import ADMINS, READERS, Call, Example, Handler, Reply, Route, Scope
from crawlfleet.control.access.clusters import Clusters
from crawlfleet.errors import Refused
from crawlfleet.model.admin_requests import (
    ClusterHealth,
    ClusterPatch,
    ClusterRequest,
    RollbackRequest,
)
from crawlfleet.model.project import Cluster, ClusterStatus
from crawlfleet.views.projects import ClusterPage, ClusterView, ConfigurationPage, ConfigurationView


class ClusterVersionQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cursor: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | msgspec.UnsetType = msgspec.UNSET
    """The `next_cursor` of the previous page: lists only versions below this one."""
    limit: PageSize = 100
    """Maximum number of versions in the page."""


async def create(call: Call) -> Reply:
    cluster, created = await call.service(Clusters).create(call.body, by=call.caller.name)
    return _reply(call, cluster, created=created)


async def find(call: Call) -> ClusterPage:
    query: PageQuery = call.query
    after = check_name_cursor(query.cursor)
    found = call.service(Clusters).page(
        after=after, limit=query.limit + 1, project_id=call.project_id
    )
    page = found[: query.limit]
    return ClusterPage(
        items=[ClusterView.of(cluster) for cluster in page],
        next_cursor=page[-1].id if len(found) > len(page) else None,
    )


async def get(call: Call) -> Reply:
    return _reply(call, await call.service(Clusters).find(_id(call)))


async def change(call: Call) -> Reply:
    cluster = await call.service(Clusters).change(
        _id(call), call.body, by=call.caller.name, if_version=wanted_version(call)
    )
    return _reply(call, cluster)


async def roll_back(call: Call) -> Reply:
    request: RollbackRequest = call.body
    cluster = await call.service(Clusters).roll_back(
        _id(call), request.version, by=call.caller.name, if_version=wanted_version(call)
    )
    return _reply(call, cluster)


async def versions(call: Call) -> ConfigurationPage:
    query: ClusterVersionQuery = call.query
    below = None if query.cursor is msgspec.UNSET else query.cursor
    found = await call.service(Clusters).configurations(
        _id(call), below=below, limit=query.limit + 1
    )
    page = found[: query.limit]
    return ConfigurationPage(
        items=[ConfigurationView.of(each) for each in page],
        next_cursor=str(page[-1].number) if len(found) > len(page) else None,
    )


async def health(call: Call) -> ClusterHealth:
    cluster = await call.service(Clusters).find(_id(call))
    if call.project_id is not None and cluster.is_shared:
        raise Refused(
            f"the cluster {cluster.id!r} is shared, and its health counts the tasks of all "
            "projects; use a key that is not bound"
        )
    return await call.service(Clusters).health(cluster.id)


def _move(status: ClusterStatus) -> Handler:
    async def handle(call: Call) -> Reply:
        cluster = await call.service(Clusters).move(
            _id(call), status, by=call.caller.name, if_version=wanted_version(call)
        )
        return _reply(call, cluster)

    return handle


def _id(call: Call) -> str:
    return check_id("cluster", call.path["cluster_id"])


def _reply(call: Call, cluster: Cluster, *, created: bool = False) -> Reply:
    return tagged(
        call,
        ClusterView.of(cluster),
        cluster.version,
        status=HTTPStatus.CREATED if created else HTTPStatus.OK,
        headers={"Location": f"/api/v1/clusters/{cluster.id}"} if created else None,
    )


_CLUSTER: Final = "/api/v1/clusters/{cluster_id}"

ROUTES: Final = (
    Route(
        name="list_clusters",
        method="GET",
        path="/api/v1/clusters",
        roles=READERS,
        scope=Scope.OWN,
        handler=find,
        client="clusters()",
        command="clusters list",
        summary="List clusters, in order of id",
        details="A key of one project is shown that project's clusters and those that are shared.",
        query=PageQuery,
        response=ClusterPage,
    ),
    Route(
        name="create_cluster",
        method="POST",
        path="/api/v1/clusters",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=create,
        client='create_cluster("berlin", configuration={"max_slots": 1})',
        command="clusters create",
        summary="Make a cluster",
        details="Only tasks of its project run on its nodes; a cluster of the project "
        "`default` is shared by all projects. `project_id` must exist. Answers 201 with "
        "`Location`, or 200 when the same cluster was there before.",
        body=ClusterRequest,
        response=ClusterView,
        statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
        conflicts=True,
        example=Example(request=examples.CLUSTER_REQUEST),
    ),
    Route(
        name="get_cluster",
        method="GET",
        path=_CLUSTER,
        roles=READERS,
        scope=Scope.PATH,
        handler=get,
        client="cluster(cluster_id)",
        command="clusters show",
        summary="A cluster and its settings",
        response=ClusterView,
        etag=True,
        example=Example(response=examples.CLUSTER),
    ),
    Route(
        name="change_cluster",
        method="PATCH",
        path=_CLUSTER,
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=change,
        client='change_cluster(cluster_id, status="maintenance")',
        command="clusters change",
        summary="Change a cluster or its settings",
        details="What is left out stays as it is; `null` takes back a setting. `status` is "
        "`active`, `maintenance` (its nodes get no new work, tasks may be submitted and wait) "
        "or `inactive` (closed); in each of them what runs goes on.\n\n"
        "[Settings](#clustersettingsrequest) that are not set in `configuration` are as in the "
        "settings of the fleet or of the node. Each change is a new version of the configuration, "
        "which reaches the nodes with the replies to their heartbeats; a node's "
        "`configuration_version` says which one it runs.",
        body=ClusterPatch,
        response=ClusterView,
        conflicts=True,
        etag=True,
        example=Example(request=examples.CLUSTER_PATCH),
    ),
    Route(
        name="close_cluster",
        method="POST",
        path=f"{_CLUSTER}:close",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=_move(ClusterStatus.INACTIVE),
        client="close_cluster(cluster_id)",
        command="clusters close",
        summary="Take no new tasks for a cluster, and place nothing there",
        details="What runs goes on.",
        response=ClusterView,
        conflicts=True,
        etag=True,
    ),
    Route(
        name="reopen_cluster",
        method="POST",
        path=f"{_CLUSTER}:reopen",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=_move(ClusterStatus.ACTIVE),
        client="reopen_cluster(cluster_id)",
        command="clusters reopen",
        summary="Use a cluster again",
        details="After `:close`, or after maintenance.",
        response=ClusterView,
        conflicts=True,
        etag=True,
    ),
    Route(
        name="roll_back_cluster",
        method="POST",
        path=f"{_CLUSTER}:rollback",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=roll_back,
        client="roll_back_cluster(cluster_id, 1)",
        command="clusters rollback",
        summary="Go back to the settings of an earlier version",
        details="They become a new version; nothing of the history is lost. `version` 0 takes "
        "all settings back.",
        body=RollbackRequest,
        response=ClusterView,
        conflicts=True,
        etag=True,
        example=Example(request=examples.ROLLBACK_REQUEST),
    ),
    Route(
        name="list_cluster_versions",
        method="GET",
        path=f"{_CLUSTER}/configuration/versions",
        roles=READERS,
        scope=Scope.PATH,
        handler=versions,
        client="cluster_versions(cluster_id)",
        command="clusters versions",
        summary="The versions of a cluster's settings, newest first",
        query=ClusterVersionQuery,
        response=ConfigurationPage,
        example=Example(response=examples.VERSIONS),
    ),
    Route(
        name="get_cluster_health",
        method="GET",
        path=f"{_CLUSTER}/health",
        roles=READERS,
        scope=Scope.PATH,
        handler=health,
        client="cluster_health(cluster_id)",
        command="clusters health",
        summary="How a cluster is, what is wrong first",
        details="`health` is that of the worst of the `troubles`: `critical` makes it "
        "`unhealthy`, `warning` `degraded`. `capacity`, `used` and `free` are those of the "
        "nodes that are online. A key of one project is told of that project's own clusters; a "
        "shared one has work of all projects, and answers it 403.",
        response=ClusterHealth,
        example=Example(response=examples.CLUSTER_HEALTH),
    ),
)
