"""/api/v1/projects"""

from http import HTTPStatus
from typing import Final

from crawlfleet.api.examples import projects as examples
from crawlfleet.api.http.etags import tagged, wanted_version
from crawlfleet.api.http.parameters import PageQuery, check_id, check_name_cursor
from crawlfleet.api.http.routing import (
    OPERATORS,
    READERS,
    Call,
    Example,
    Handler,
    Reply,
    Route,
    Scope,
)
from crawlfleet.control.access.projects import Projects
from crawlfleet.model.admin_requests import ProjectPatch, ProjectRequest
from crawlfleet.model.project import Project, ProjectStatus
from crawlfleet.views.projects import ProjectPage, ProjectView


async def create(call: Call) -> Reply:
    project, created = await call.service(Projects).create(call.body, by=call.caller.name)
    return await _reply(call, project, created=created)


async def find(call: Call) -> ProjectPage:
    query: PageQuery = call.query
    after = check_name_cursor(query.cursor)
    found = await call.service(Projects).page(
        after=after, limit=query.limit + 1, only=call.project_id
    )
    page = found[: query.limit]
    return ProjectPage(
        items=[ProjectView.of(project, counts) for project, counts in page],
        next_cursor=page[-1][0].id if len(found) > len(page) else None,
    )


async def get(call: Call) -> Reply:
    return await _reply(call, await call.service(Projects).find(_id(call)))


async def change(call: Call) -> Reply:
    project = await call.service(Projects).change(
        _id(call), call.body, by=call.caller.name, if_version=wanted_version(call)
    )
    return await _reply(call, project)


def _move(status: ProjectStatus) -> Handler:
    async def handle(call: Call) -> Reply:
        project = await call.service(Projects).move(
            _id(call), status, by=call.caller.name, if_version=wanted_version(call)
        )
        return await _reply(call, project)

    return handle


def _id(call: Call) -> str:
    return check_id("project", call.path["project_id"])


async def _reply(call: Call, project: Project, *, created: bool = False) -> Reply:
    return tagged(
        call,
        ProjectView.of(project, await call.service(Projects).count(project)),
        project.version,
        volatile=True,
        status=HTTPStatus.CREATED if created else HTTPStatus.OK,
        headers={"Location": f"/api/v1/projects/{project.id}"} if created else None,
    )


_PROJECT: Final = "/api/v1/projects/{project_id}"

ROUTES: Final = (
    Route(
        name="list_projects",
        method="GET",
        path="/api/v1/projects",
        roles=READERS,
        scope=Scope.OWN,
        handler=find,
        client="projects()",
        command="projects list",
        summary="List projects, in order of id",
        query=PageQuery,
        response=ProjectPage,
        example=Example(response=examples.PROJECTS),
    ),
    Route(
        name="create_project",
        method="POST",
        path="/api/v1/projects",
        roles=OPERATORS,
        scope=Scope.FLEET,
        handler=create,
        client='create_project("shop", name="Shop")',
        command="projects create",
        summary="Make a project",
        details="`id` is yours to choose: letters, digits, dot, dash and underscore, at most "
        "64. `name` and `description` are for people. Answers 201 with `Location`, or 200 when "
        "the same project was there before. A task for an unknown project makes it, too, unless "
        "the setting `tasks.create_projects` is false.",
        body=ProjectRequest,
        response=ProjectView,
        statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
        conflicts=True,
        example=Example(request=examples.PROJECT_REQUEST),
    ),
    Route(
        name="get_project",
        method="GET",
        path=_PROJECT,
        roles=READERS,
        scope=Scope.PATH,
        handler=get,
        client="project(project_id)",
        command="projects show",
        summary="A project, with the counts of its tasks",
        response=ProjectView,
        etag=True,
        example=Example(response=examples.PROJECT),
    ),
    Route(
        name="change_project",
        method="PATCH",
        path=_PROJECT,
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=change,
        client='change_project(project_id, name="Shop", if_version=2)',
        command="projects change",
        summary="Change a project's name or description",
        details="What is left out stays as it is. Answers with the project.",
        body=ProjectPatch,
        response=ProjectView,
        conflicts=True,
        etag=True,
        example=Example(request=examples.PROJECT_PATCH),
    ),
    Route(
        name="close_project",
        method="POST",
        path=f"{_PROJECT}:close",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=_move(ProjectStatus.CLOSED),
        client="close_project(project_id)",
        command="projects close",
        summary="Take no new tasks for a project",
        details="Those that it has go on; a new one is refused with 409.",
        response=ProjectView,
        conflicts=True,
        etag=True,
    ),
    Route(
        name="reopen_project",
        method="POST",
        path=f"{_PROJECT}:reopen",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=_move(ProjectStatus.ACTIVE),
        client="reopen_project(project_id)",
        command="projects reopen",
        summary="Take tasks for a project again",
        response=ProjectView,
        conflicts=True,
        etag=True,
    ),
)
