"""Projects: made, read, changed, closed and opened again."""

from collections.abc import Callable

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.if_version import accept, expect_version, has_changed
from crawlfleet.core.access import projects
from crawlfleet.errors import Conflict, NotFound
from crawlfleet.model.admin_requests import ProjectPatch, ProjectRequest, QuotaPatch
from crawlfleet.model.change import Change
from crawlfleet.model.project import Project, ProjectStatus
from crawlfleet.model.task import TaskStatus
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System

Counts = dict[TaskStatus, int]


class Projects:
    """Creates, changes and closes projects."""

    def __init__(self, *, store: Store, state: FleetState, system: System) -> None:
        self._store = store
        self._state = state
        self._system = system

    def get(self, project_id: str) -> Project:
        """The project, or `NotFound`."""
        project = self._state.projects.get(project_id)
        if project is None:
            raise NotFound("project", project_id)
        return project

    async def find(self, project_id: str) -> Project:
        """The project, or `NotFound`; also one that another master made a moment ago."""
        if project_id not in self._state.projects:
            await self._state.refresh.projects()
        return self.get(project_id)

    async def ensure(self, project_id: str, *, create: bool, cause: str) -> None:
        """Make sure that the project exists and is open; with `create` a missing one is created.
        Raises `NotFound` and `Conflict`.
        """
        if project_id not in self._state.projects:
            await self._state.refresh.projects()
        project = self._state.projects.get(project_id)
        if project is None and not create:
            raise NotFound("project", project_id)
        if project is None:
            request = ProjectRequest(id=project_id)
            accept(projects.text_problems(request))
            now = self._system.now()
            await self._state.commit([projects.new_project(request, now=now, cause=cause)])
        elif project.status is ProjectStatus.CLOSED:
            raise Conflict(f"the project {project_id!r} is closed and takes nothing new; reopen it")

    async def count(self, project: Project) -> Counts:
        """Return the number of the project's tasks by state."""
        return await self._store.count_tasks(project.id)

    async def page(
        self, *, after: str | None, limit: int, only: str | None = None
    ) -> list[tuple[Project, Counts]]:
        """Return up to `limit` projects beyond an id, in order of id, with their counts of tasks.

        With `only` that one alone, where it belongs on the page.
        """
        counts = await self._store.count_tasks_by_project()
        page = self.among(after=after, limit=limit, only=only)
        return [(project, counts.get(project.id, {})) for project in page]

    async def create(self, request: ProjectRequest, *, by: str) -> tuple[Project, bool]:
        """The project, and whether it is new; `Conflict` if another has the id."""
        accept(projects.text_problems(request))
        now = self._system.now()
        change = projects.new_project(request, now=now, cause=f"created by {by}")
        (wanted,) = change.of(Project)
        if request.id not in self._state.projects:
            (refusal,) = await self._state.commit([change])
            if refusal is None:
                return wanted, True
        # Perhaps by this very request, which another master has answered unheard.
        there = self._state.projects.get(request.id)
        if there is None:
            raise has_changed(request.id)
        if (there.name, there.description) != (wanted.name, wanted.description):
            raise Conflict(f"there is a project {request.id!r} already; PATCH changes it")
        return there, False

    async def change(
        self, project_id: str, patch: ProjectPatch, *, by: str, if_version: int | None = None
    ) -> Project:
        """Change the fields of a project that the patch sets."""
        accept(projects.text_problems(patch))

        def decide(project: Project, now: float) -> Change | None:
            cause = f"changed by {by}"
            return projects.changed_project(project, patch, now=now, cause=cause)

        return await self._make(project_id, decide, if_version)

    async def set_quotas(
        self, project_id: str, patch: QuotaPatch, *, by: str, if_version: int | None = None
    ) -> Project:
        """Change the quotas and the share of a project that the patch sets."""
        accept(projects.quota_problems(patch))

        def decide(project: Project, now: float) -> Change | None:
            cause = f"quotas changed by {by}"
            return projects.with_quotas(project, patch, now=now, cause=cause)

        return await self._make(project_id, decide, if_version)

    def among(self, *, after: str | None, limit: int, only: str | None = None) -> list[Project]:
        """Return up to `limit` projects beyond an id, in order of id; with `only` that alone."""
        known = self._state.projects if only is None else self._state.projects.keys() & {only}
        ids = sorted(id for id in known if after is None or id > after)
        return [self._state.projects[id] for id in ids[:limit]]

    async def move(
        self, project_id: str, status: ProjectStatus, *, by: str, if_version: int | None = None
    ) -> Project:
        """Close the project, or open it again."""

        def decide(project: Project, now: float) -> Change | None:
            cause = f"made {status} by {by}"
            return projects.moved_project(project, status, now=now, cause=cause)

        return await self._make(project_id, decide, if_version)

    async def _make(
        self,
        project_id: str,
        decide: Callable[[Project, float], Change | None],
        if_version: int | None,
    ) -> Project:
        async def present() -> tuple[Project, Change | None]:
            # What another master has just changed counts: else it might seem to be as wanted.
            await self._state.refresh.projects()
            project = self.get(project_id)
            change = decide(project, self._system.now())
            if change is None:
                return project, None
            expect_version(project_id, project.version, if_version)
            return change.of(Project)[0], change

        return await self._state.decide(project_id, present)
