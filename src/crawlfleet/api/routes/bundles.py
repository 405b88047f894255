"""/api/v1/projects/{project_id}/bundles: code that people hand over, and nodes fetch"""

from http import HTTPStatus
from typing import Final

from crawlfleet.api.examples import bundles as examples
from crawlfleet.api.http.etags import tagged, wanted_version
from crawlfleet.api.http.parameters import PageQuery, check_id, check_name_cursor
from crawlfleet.api.http.routing import (
    OPERATORS,
    READERS,
    Call,
    Example,
    Reply,
    Route,
    Scope,
)
from crawlfleet.features.bundles.service import Bundles
from crawlfleet.features.bundles.views import BundlePage, BundleView
from crawlfleet.model.bundle import (
    Bundle,
    BundleRemoval,
    BundleRequest,
    BundleRollback,
)


async def find(call: Call) -> BundlePage:
    query: PageQuery = call.query
    after = check_name_cursor(query.cursor)
    found = await call.service(Bundles).page(_project(call), after=after, limit=query.limit + 1)
    page = found[: query.limit]
    return BundlePage(
        items=[_view(call, each) for each in page],
        next_cursor=page[-1].name if len(found) > len(page) else None,
    )


async def deploy(call: Call) -> Reply:
    bundle, is_new = await call.service(Bundles).deploy(
        _project(call), call.body, by=call.caller.name
    )
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return _reply(call, bundle, status=status)


async def get(call: Call) -> Reply:
    return _reply(call, await call.service(Bundles).get(_project(call), _name(call)))


async def roll_back(call: Call) -> Reply:
    bundle = await call.service(Bundles).roll_back(
        _project(call),
        _name(call),
        call.body.version,
        by=call.caller.name,
        if_version=wanted_version(call),
    )
    return _reply(call, bundle)


async def remove(call: Call) -> Reply:
    bundle = await call.service(Bundles).remove(
        _project(call),
        _name(call),
        call.body.version,
        by=call.caller.name,
        if_version=wanted_version(call),
    )
    return _reply(call, bundle)


def _view(call: Call, bundle: Bundle) -> BundleView:
    # Nodes belong to the whole fleet: a key of one project is not shown them.
    ready_on = call.service(Bundles).ready_on if call.project_id is None else lambda version: []
    return BundleView.of(bundle, ready_on)


def _project(call: Call) -> str:
    return check_id("project", call.path["project_id"])


def _name(call: Call) -> str:
    return check_id("bundle", call.path["bundle_id"])


def _reply(call: Call, bundle: Bundle, *, status: HTTPStatus = HTTPStatus.OK) -> Reply:
    return tagged(call, _view(call, bundle), bundle.version, volatile=True, status=status)


_BUNDLES: Final = "/api/v1/projects/{project_id}/bundles"
_BUNDLE: Final = f"{_BUNDLES}/{{bundle_id}}"

ROUTES: Final = (
    Route(
        name="list_bundles",
        method="GET",
        path=_BUNDLES,
        roles=READERS,
        scope=Scope.PATH,
        handler=find,
        client="bundles(project_id)",
        command="bundles list",
        summary="List the bundles of a project, in order of name",
        query=PageQuery,
        response=BundlePage,
        example=Example(response=examples.BUNDLES),
    ),
    Route(
        name="deploy_bundle",
        method="POST",
        path=_BUNDLES,
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=deploy,
        client='deploy(bundle_id, archive, note="new prices")',
        command="deploy",
        summary="Hand over code as the present version of a bundle",
        details="`name`; `archive`: a zip archive or a wheel in base64, 10 MB at most before "
        "that; `note` may be left out. All of it is looked at before it is taken: names that "
        "lead out of the folder, links, devices, names that are there twice, too many or too "
        "large files, and what it says it needs. Answers 201, or 200 when this very archive is "
        "the present version already. An archive that is kept as an older version becomes the "
        "present one again, under its old number.",
        body=BundleRequest,
        response=BundleView,
        statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
        conflicts=True,
        example=Example(request=examples.BUNDLE_REQUEST),
    ),
    Route(
        name="get_bundle",
        method="GET",
        path=_BUNDLE,
        roles=READERS,
        scope=Scope.PATH,
        handler=get,
        client="bundle(bundle_id)",
        command="bundles show",
        summary="A bundle and its versions",
        details="`bundle_id` is its name. `spiders` are those whose names can be read from the "
        "code without running it; `ready_on` the nodes on which the version has run since this "
        "master began, which have its environment (none for a key that is bound to a project).",
        response=BundleView,
        etag=True,
        example=Example(response=examples.BUNDLE),
    ),
    Route(
        name="roll_back_bundle",
        method="POST",
        path=f"{_BUNDLE}:rollback",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=roll_back,
        client="roll_back_bundle(bundle_id, 1)",
        command="bundles rollback",
        summary="Make another version the present one",
        details="Without a `version` the one before the present one. Tasks keep the version "
        "that was the present one when they were submitted.",
        body=BundleRollback,
        response=BundleView,
        conflicts=True,
        etag=True,
        example=Example(request=examples.ROLLBACK),
    ),
    Route(
        name="remove_bundle",
        method="POST",
        path=f"{_BUNDLE}:remove",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=remove,
        client="remove_bundle(bundle_id, 1, project_id)",
        command="bundles remove",
        summary="Remove a version that nobody needs, or the whole bundle",
        details="Without a `version` all of them. Refused with 409 while it is the present "
        "version of several, or while a task that has not ended needs it.",
        body=BundleRemoval,
        response=BundleView,
        conflicts=True,
        etag=True,
        example=Example(request=examples.REMOVAL),
    ),
)
