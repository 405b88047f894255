"""The secrets of projects: set, removed, and sent to nodes whose tasks declare them.

A value is sealed before it reaches the store, and opened for a node that holds an execution whose
task declares it; nothing else ever reads it.
"""

from collections.abc import Callable, Sequence

from crawlfleet.control.access.projects import Projects
from crawlfleet.control.leases.services import ServiceCall
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.if_version import accept, expect_version
from crawlfleet.errors import Conflict, NotFound
from crawlfleet.features.secrets import rules
from crawlfleet.features.secrets.table import SECRETS
from crawlfleet.model.change import Change
from crawlfleet.model.secret import (
    MAX_OF_PROJECT,
    Secret,
    SecretRequest,
    secret_id,
)
from crawlfleet.model.settings import TaskSettings
from crawlfleet.model.wire.services import ServiceResponse, answered, refused
from crawlfleet.ports.seal import Seal, Unsealable
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System

Decide = Callable[[Secret | None, float], Change | None]


class Secrets:
    """Sets and removes secrets, and opens them for nodes."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        projects: Projects,
        settings: TaskSettings,
        seal: Seal | None,
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._projects = projects
        self._settings = settings
        self._seal = seal

    async def page(self, project_id: str, *, after: str | None, limit: int) -> list[Secret]:
        """Up to `limit` secrets of a project beyond a name, in order of name."""
        await self._projects.find(project_id)
        found = sorted(await self._of(project_id), key=lambda each: each.name)
        return [each for each in found if after is None or each.name > after][:limit]

    async def keep(self, project_id: str, request: SecretRequest, *, by: str) -> Secret:
        """Set a secret, in place of the value that it had."""
        accept(rules.request_problems(request))
        await self._projects.ensure(
            project_id,
            create=self._settings.create_projects,
            cause=f"named by a secret that {by} set",
        )
        name = request.name
        try:
            sealed = self._sealing.close(request.value, secret_id(project_id, name))
        except Unsealable as error:
            raise Conflict(f"this master cannot seal it: {error}") from None
        others = {each.name for each in await self._of(project_id)} - {name}
        if len(others) >= MAX_OF_PROJECT:
            raise Conflict(f"{project_id} has {MAX_OF_PROJECT} secrets already; remove some")

        def decide(secret: Secret | None, now: float) -> Change:
            return rules.kept(
                secret,
                project_id=project_id,
                name=name,
                sealed=sealed,
                now=now,
                cause=f"set by {by}",
            )

        return await self._make(project_id, name, decide, None)

    async def remove(
        self, project_id: str, name: str, *, by: str, if_version: int | None = None
    ) -> Secret:
        """Forget a secret; work that declares it and has not begun will fail."""

        def decide(secret: Secret | None, now: float) -> Change:
            change = secret and rules.removed(secret, now=now, cause=f"removed by {by}")
            if not change:
                raise NotFound("secret", name)
            return change

        return await self._make(project_id, name, decide, if_version)

    async def known(self, projects: Sequence[str]) -> dict[str, set[str]]:
        """The names of the secrets that these projects have."""
        return {id: {each.name for each in await self._of(id)} for id in dict.fromkeys(projects)}

    async def give(self, call: ServiceCall) -> ServiceResponse:
        """The values of the secrets that the task of an execution declares, by name."""
        task = call.lease.task
        values: dict[str, str] = {}
        for name in task.secrets:
            id = secret_id(task.project_id, name)
            found = await self._store.get(SECRETS, id)
            if found is None or not found.sealed:
                return refused(f"there is no secret {name} any more; set it again")
            try:
                values[name] = self._sealing.open(found.sealed, id)
            except Unsealable as error:
                return refused(f"the secret {name} cannot be read: {error}")
        return answered(values)

    @property
    def _sealing(self) -> Seal:
        if self._seal is None:
            raise Unsealable("this master has no key for secrets")
        return self._seal

    async def _of(self, project_id: str) -> list[Secret]:
        return [
            each
            for each in await self._store.find(SECRETS.where())
            if each.project_id == project_id and each.sealed
        ]

    async def _make(
        self, project_id: str, name: str, decide: Decide, if_version: int | None
    ) -> Secret:
        async def present() -> tuple[Secret, Change]:
            before = await self._store.get(SECRETS, secret_id(project_id, name))
            change = decide(before, self._system.now())
            assert change is not None, "`decide` raises instead"
            expect_version(name, before.version if before else 0, if_version)
            return change.of(Secret)[0], change

        return await self._state.decide(name, present)
