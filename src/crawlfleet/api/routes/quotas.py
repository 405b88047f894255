"""/api/v1/quotas and /api/v1/projects/{project_id}/quotas"""

from typing import Final

from crawlfleet.api.examples import quotas as examples
from crawlfleet.api.http.etags import tagged, wanted_version
from crawlfleet.api.http.parameters import PageQuery, check_id, check_name_cursor
from crawlfleet.api.http.routing import OPERATORS, READERS, Call, Example, Reply, Route, Scope
from crawlfleet.control.access.projects import Projects
from crawlfleet.control.quotas import Quotas
from crawlfleet.model.admin_requests import QuotaPatch
from crawlfleet.model.project import Project
from crawlfleet.model.quota import Quota
from crawlfleet.views.quotas import QuotaLine, QuotaPage, QuotaView


async def find(call: Call) -> QuotaPage:
    query: PageQuery = call.query
    found = call.service(Projects).among(
        after=check_name_cursor(query.cursor), limit=query.limit + 1, only=call.project_id
    )
    page = found[: query.limit]
    return QuotaPage(
        items=[_view(call, project) for project in page],
        next_cursor=page[-1].id if len(found) > len(page) else None,
    )


async def get(call: Call) -> Reply:
    return _reply(call, await call.service(Projects).find(_id(call)))


async def change(call: Call) -> Reply:
    project = await call.service(Projects).set_quotas(
        _id(call), call.body, by=call.caller.name, if_version=wanted_version(call)
    )
    return _reply(call, project)


def _id(call: Call) -> str:
    return check_id("project", call.path["project_id"])


def _reply(call: Call, project: Project) -> Reply:
    return tagged(call, _view(call, project), project.version, volatile=True)


def _view(call: Call, project: Project) -> QuotaView:
    quotas, allowance = call.service(Quotas), project.allowance
    use = quotas.use(project.id)
    return QuotaView(
        project_id=project.id,
        over=str(allowance.over),
        quotas=tuple(_line(each, use.of(each), allowance.limit(each)) for each in Quota),
        weight=allowance.weight,
        share=round(quotas.share(project.id), 6),
        due=round(quotas.due(project.id), 6),
        nodes=allowance.nodes,
        version=project.version,
    )


def _line(quota: Quota, use: float, limit: float | None) -> QuotaLine:
    left = None if limit is None else round(max(limit - use, 0.0), 6)
    return QuotaLine(name=str(quota), use=use, limit=limit, left=left)


_QUOTAS: Final = "/api/v1/projects/{project_id}/quotas"

ROUTES: Final = (
    Route(
        name="list_quotas",
        method="GET",
        path="/api/v1/quotas",
        roles=READERS,
        scope=Scope.OWN,
        handler=find,
        client="quotas()",
        command="quotas list",
        summary="List the quotas and shares of projects, in order of id",
        details="A key that is bound to a project sees that one.",
        query=PageQuery,
        response=QuotaPage,
        example=Example(response=examples.QUOTA_PAGE),
    ),
    Route(
        name="get_quotas",
        method="GET",
        path=_QUOTAS,
        roles=READERS,
        scope=Scope.PATH,
        handler=get,
        client="project_quotas(project_id)",
        command="quotas show",
        summary="The quotas of a project, and what it has of them now",
        details="What is used is what the live leases of the project hold; `waiting` is what "
        "waits for a node or for its time, `pages_per_day` what its tasks have fetched since "
        "midnight (UTC), `storage_mb` what the master keeps for it. `share` is the part of the "
        "fleet that it holds, of the resource of which it has most, and `due` the part that is "
        "its own by `weight`, beside the projects that have work now. See [quotas and fair "
        "shares](../guides/quotas.md).",
        response=QuotaView,
        etag=True,
        example=Example(response=examples.QUOTAS),
    ),
    Route(
        name="change_quotas",
        method="PATCH",
        path=_QUOTAS,
        roles=OPERATORS,
        scope=Scope.FLEET,
        handler=change,
        client="set_quotas(project_id, running=3)",
        command="quotas set",
        summary="Change the quotas of a project, or its share of the fleet",
        details="`waiting`, `running`, `cpu_cores`, `memory_mb`, `pages_per_day` and "
        "`storage_mb` are limits, which `null` takes away; `over` is `queue` or `reject`; "
        "`weight` is 1 unless set; `nodes` are labels of nodes that are kept for the project. "
        "What is left out stays as it is. A key that is bound to a project cannot change them. "
        "What runs goes on, also beyond a new limit.",
        body=QuotaPatch,
        response=QuotaView,
        conflicts=True,
        etag=True,
        example=Example(request=examples.QUOTA_PATCH, response=examples.QUOTAS),
    ),
)
