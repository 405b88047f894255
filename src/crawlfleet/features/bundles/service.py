"""Bundles: handed over, rolled back, removed, and given to the nodes that run them.

An archive is durable before the store knows of its version, and is swept away some time after no
version names it any more. A node gets the archive of a task that it holds, or that this
master asked it to make ready, and no other.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Final

from crawlfleet.control.access.projects import Projects
from crawlfleet.control.leases.prewarming import Prewarming
from crawlfleet.control.leases.services import NodeCall, ServiceCall
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.if_version import accept, expect_version, has_changed
from crawlfleet.core.bundles import archives
from crawlfleet.core.bundles.archives import BadArchive, Contents
from crawlfleet.errors import (
    Conflict,
    FieldProblem,
    InvalidRequest,
    NotFound,
    OutputUnavailable,
    StoreUnavailable,
)
from crawlfleet.features.bundles import rules
from crawlfleet.model.bundle import (
    MAX_VERSIONS,
    Bundle,
    BundleFetch,
    BundleRef,
    BundleRequest,
    BundleVersion,
    bundle_id,
)
from crawlfleet.model.change import Change
from crawlfleet.model.settings import TaskSettings
from crawlfleet.model.wire.services import ServiceResponse, refused
from crawlfleet.ports.files import BundleStore
from crawlfleet.ports.kernel_tables import BUNDLES
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
SWEEP_EVERY_S: Final = 600.0
SPARED_S: Final = 3_600.0
"""Age before an unreferenced archive is removed: a version that names it may be about to be
written."""

Decide = Callable[[Bundle | None, float], Change | None]


class Bundles:
    """Stores, rolls back and removes bundles, and gives their archives to nodes."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        projects: Projects,
        settings: TaskSettings,
        archives: BundleStore | None,
        warming: Prewarming | None = None,
    ) -> None:
        """Set up the service. With `warming`, nodes prepare a deployed bundle before a task needs
        it."""
        self._store = store
        self._state = state
        self._system = system
        self._projects = projects
        self._settings = settings
        self._archives = archives
        self.warming = warming or Prewarming(
            state=state, system=system, is_connected_here=lambda _: False
        )

    async def get(self, project_id: str, name: str) -> Bundle:
        """The bundle, or `NotFound`; also for one of which nothing is kept."""
        found = await self._store.get(BUNDLES, bundle_id(project_id, name))
        if found is None or not found.versions:
            raise NotFound("bundle", name)
        return found

    async def page(self, project_id: str, *, after: str | None, limit: int) -> list[Bundle]:
        """Up to `limit` bundles of a project beyond a name, in order of name."""
        await self._projects.find(project_id)
        of_project = (
            each
            for each in await self._store.find(BUNDLES.where())
            if each.project_id == project_id and each.versions
        )
        found = sorted(of_project, key=lambda each: each.name)
        return [each for each in found if after is None or each.name > after][:limit]

    def ready_on(self, version: BundleVersion) -> list[str]:
        """Return the ids of the nodes that have the version's environment, as far as this master
        knows."""
        return self._state.fleet.ready(version.digest)

    async def deploy(
        self, project_id: str, request: BundleRequest, *, by: str
    ) -> tuple[Bundle, bool]:
        """Store an archive and make it the present version; true if there is a new version."""
        accept(rules.text_problems(request.name, request.note))
        contents = await self._look_into(request.archive)
        await self._projects.ensure(
            project_id,
            create=self._settings.create_projects,
            cause=f"named by a bundle that {by} deployed",
        )
        self._need_room(project_id, len(request.archive))
        digest = hashlib.sha256(request.archive).hexdigest()
        await self._kept.put(digest, request.archive)

        def decide(bundle: Bundle | None, now: float) -> Change | None:
            change = rules.deployed(
                bundle,
                project_id=project_id,
                name=request.name,
                digest=digest,
                size=len(request.archive),
                contents=contents,
                note=request.note,
                now=now,
                cause=f"deployed by {by}",
            )
            if change is not None and len(change.of(Bundle)[0].versions) > MAX_VERSIONS:
                raise Conflict(
                    f"{request.name} has {MAX_VERSIONS} versions already; remove some that are "
                    "not needed (`crawlfleet bundles remove`)"
                )
            return change

        return await self._make(project_id, request.name, decide, None)

    def _need_room(self, project_id: str, size: int) -> None:
        """Raise `Conflict` if the archive would exceed the storage quota of the project."""
        tenant = self._state.tenancy.tenant(project_id)
        limit, used_mb = tenant.allowance.storage_mb, tenant.use().storage_mb
        if limit is not None and used_mb + size / 1e6 > limit:
            raise Conflict(
                f"the project {project_id!r} is at its quota storage_mb: {used_mb:.15g} of "
                f"{limit:.15g} MB are used, and the archive has {size / 1e6:g}; remove versions "
                "that are not needed, or raise the limit (`crawlfleet quotas set`)"
            )

    async def roll_back(
        self,
        project_id: str,
        name: str,
        number: int | None,
        *,
        by: str,
        if_version: int | None = None,
    ) -> Bundle:
        """Make another version the present one."""
        await self.get(project_id, name)

        def decide(bundle: Bundle | None, now: float) -> Change | None:
            if bundle is None:
                raise NotFound("bundle", name)
            wanted = rules.before_present(bundle) if number is None else number
            if wanted is None or bundle.numbered(wanted) is None:
                kept = ", ".join(str(each.number) for each in bundle.versions)
                which = "an older version" if number is None else f"a version {number}"
                raise Conflict(f"{name} does not have {which}; versions that are kept: {kept}")
            cause = f"rolled back by {by}"
            return rules.moved(bundle, wanted, now=now, cause=cause)

        return (await self._make(project_id, name, decide, if_version))[0]

    async def remove(
        self,
        project_id: str,
        name: str,
        number: int | None,
        *,
        by: str,
        if_version: int | None = None,
    ) -> Bundle:
        """Remove a version, or the whole bundle. Raises `Conflict` for the present version, and for
        a version that a task needs which has not ended."""
        found = await self.get(project_id, name)
        if number is not None and found.numbered(number) is None:
            raise NotFound("version", f"{name}@{number}")
        if number is not None and number == found.current and len(found.versions) > 1:
            raise Conflict(
                f"{number} is the present version of {name}; roll back to another one first"
            )
        if (user := await self._user(project_id, name, number)) is not None:
            raise Conflict(f"{user} has not ended and needs it; cancel it, or wait for its end")

        def decide(bundle: Bundle | None, now: float) -> Change | None:
            if bundle is None:
                return None
            if number is not None and bundle.current == number and len(bundle.versions) > 1:
                raise has_changed(name)
            return rules.removed(bundle, number, now=now, cause=f"removed by {by}")

        return (await self._make(project_id, name, decide, if_version))[0]

    async def pins(
        self, wanted: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], BundleRef | FieldProblem]:
        """Return the version, or the problem, for each pair of project and `bundle` field of a
        task."""
        found: dict[tuple[str, str], BundleRef | FieldProblem] = {}
        for project_id, text in dict.fromkeys(wanted):
            name = text.partition("@")[0]
            bundle = await self._store.get(BUNDLES, bundle_id(project_id, name))
            found[project_id, text] = rules.pinned(bundle, text)
        return found

    async def give_code(self, call: ServiceCall) -> ServiceResponse:
        """Return the archive of the code that an execution runs."""
        wanted = call.lease.task.bundle
        if wanted is None:
            return refused(f"{call.lease.task.id} names no bundle")
        return await self._archive(wanted.digest, str(wanted))

    async def give_bundle(self, call: NodeCall) -> ServiceResponse:
        """Return the archive of a bundle whose environment the node was asked to prepare."""
        wanted: BundleFetch = call.payload
        if not self.warming.is_asked(call.node_id, wanted.digest):
            return refused(f"{call.node_id} was not asked for {wanted.digest}")
        return await self._archive(wanted.digest, wanted.digest)

    async def _archive(self, digest: str, name: str) -> ServiceResponse:
        archive = await self._kept.get(digest)
        if archive is None:
            return refused(
                f"the archive of {name} is not here any more; deploy it again. Several "
                "masters need one `output_dir` that they share, and a backup has no archives"
            )
        return ServiceResponse(data=archive)

    async def run(self) -> None:
        """Remove archives that no version names, at intervals while this master leads."""
        while self._archives is not None:
            try:
                await self.sweep(SPARED_S)
            except (OutputUnavailable, StoreUnavailable) as error:
                log.warning("archives of bundles not swept", error=str(error))
            await asyncio.sleep(SWEEP_EVERY_S)

    async def sweep(self, spared_s: float) -> int:
        """Remove the archives that no version names and that are older; how many went."""
        old = await self._kept.older_than(spared_s)
        named = {
            version.digest
            for each in await self._store.find(BUNDLES.where())
            for version in each.versions
        }
        gone = [digest for digest in old if digest not in named]
        for digest in gone:
            await self._kept.remove(digest)
        return len(gone)

    @property
    def _kept(self) -> BundleStore:
        if self._archives is None:
            raise OutputUnavailable("this master keeps no bundles")
        return self._archives

    async def _look_into(self, archive: bytes) -> Contents:
        try:
            return await asyncio.to_thread(archives.look_into, archive)
        except BadArchive as error:
            raise InvalidRequest(
                [FieldProblem(field="archive", message=str(error), remedy="pack it anew")]
            ) from None

    async def _user(self, project_id: str, name: str, number: int | None) -> str | None:
        """A task that has not ended and runs a version."""
        async for portion in self._store.unfinished_tasks():
            for task in portion:
                if task.project_id != project_id or (ref := task.bundle) is None:
                    continue
                if ref.name == name and number in (None, ref.number):
                    return task.id
        return None

    async def _make(
        self, project_id: str, name: str, decide: Decide, if_version: int | None
    ) -> tuple[Bundle, bool]:
        """The bundle after a change, and whether there was one."""

        async def present() -> tuple[tuple[Bundle, bool], Change | None]:
            before = await self._store.get(BUNDLES, bundle_id(project_id, name))
            change = decide(before, self._system.now())
            if change is None:
                assert before is not None, "nothing is like nothing"
                return (before, False), None
            expect_version(name, before.version if before else 0, if_version)
            return (change.of(Bundle)[0], True), change

        bundle, is_changed = await self._state.decide(name, present)
        if is_changed:
            self.warming.for_bundle(bundle)
        return bundle, is_changed
