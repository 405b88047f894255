"""Tasks as people submit them: submit one or thousands, wait for the end, clone."""

import asyncio
import contextlib
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from crawlfleet.control.openings import Check, LookedUp
from crawlfleet.control.quotas import QuotaIntake, Quotas
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.access import projects
from crawlfleet.core.quality.expectations import in_series, of_schedule
from crawlfleet.core.tasks import admission, parents, split
from crawlfleet.core.tasks.admission import AdmissionRules
from crawlfleet.errors import Conflict, FieldProblem, InvalidRequest, NotFound
from crawlfleet.model.admin_requests import ProjectRequest
from crawlfleet.model.change import Change
from crawlfleet.model.ids import TASK, make_id
from crawlfleet.model.project import ClusterStatus, ProjectStatus
from crawlfleet.model.requests import CloneRequest, TaskRequest
from crawlfleet.model.settings import TaskSettings
from crawlfleet.model.task import JSON_NULL, TERMINAL, StepRef, Task
from crawlfleet.ports.store import Refusal, RefusalKind, Store
from crawlfleet.ports.system import System


class Found(NamedTuple):
    """The things that requests name, as each check has looked them up."""

    of_checks: Sequence[LookedUp]

    def problems(self, request: TaskRequest) -> list[FieldProblem]:
        return [problem for each in self.of_checks for problem in each.problems(request)]

    def fields(self, request: TaskRequest) -> dict[str, Any]:
        return {
            name: value for each in self.of_checks for name, value in each.fields(request).items()
        }


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of one request of a batch: a task, or the problems or conflict that prevented it."""

    task: Task | None = None
    created: bool = False
    deduplicated: bool = False
    problems: tuple[FieldProblem, ...] = ()
    conflict: str = ""


class Tasks:
    """Accepts tasks, and returns them by id."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        rules: AdmissionRules,
        settings: TaskSettings,
        quotas: Quotas,
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._rules = rules
        self._settings = settings
        self.quotas = quotas
        self.checks: list[Check] = []
        """Checks of features on each submission, in this order."""

    @property
    def rules(self) -> AdmissionRules:
        """The rules by which requests are checked."""
        return self._rules

    async def submit(self, request: TaskRequest, *, by: str) -> Submission:
        """Accept one task, or raise `InvalidRequest` or `Conflict`."""
        outcome = (await self.submit_batch([request], by=by))[0]
        if outcome.problems:
            raise InvalidRequest(outcome.problems)
        if outcome.conflict:
            raise Conflict(outcome.conflict)
        return outcome

    async def submit_batch(
        self, requests: Sequence[TaskRequest | FieldProblem], *, by: str
    ) -> list[Submission]:
        """Accept the valid requests in one commit; return an outcome for each request, in order.

        A request that could not even be decoded is passed as its problem.
        """
        known = [each for each in requests if isinstance(each, TaskRequest)]
        await self._know_places(known)
        named = await self._named(known)
        with self.quotas.intake() as intake:
            return await self._take(requests, named, intake, by)

    async def _take(
        self,
        requests: Sequence[TaskRequest | FieldProblem],
        named: Found,
        intake: QuotaIntake,
        by: str,
    ) -> list[Submission]:
        outcomes: list[Submission | None] = [None] * len(requests)
        changes: list[Change] = []
        places: list[int] = []
        made = 0
        for place, request in enumerate(requests):
            if isinstance(request, FieldProblem):
                outcomes[place] = Submission(problems=(request,))
            elif problems := self._all_problems(request, named):
                outcomes[place] = Submission(problems=tuple(problems))
            elif closed := self._closed(request):
                outcomes[place] = Submission(conflict=closed)
            else:
                change = self._admitted(request, by, named)
                made += len(change.tasks) - 1
                if len(change.tasks) > 1 and made > split.MAX_SHARDS_AT_ONCE:
                    made -= len(change.tasks) - 1
                    outcomes[place] = Submission(problems=(_too_many_shards(change),))
                    continue
                if refused := intake.refusal(change.tasks):
                    outcomes[place] = await self._known_before(change, refused)
                    continue
                changes.append(change)
                places.append(place)
        await self._ensure_projects({change.tasks[0].project_id for change in changes}, by=by)
        refusals = await self._state.commit(changes)
        for place, change, refusal in zip(places, changes, refusals, strict=True):
            outcomes[place] = await self._outcome(change, refusal)
        return [outcome or Submission() for outcome in outcomes]

    async def draft(
        self,
        request: TaskRequest,
        *,
        by: str,
        id: str | None = None,
        step: StepRef | None = None,
        intake: QuotaIntake | None = None,
    ) -> Change | str:
        """Return the change that makes a task, for the caller to commit; or why it is refused.

        With an `id`, the task gets that, for example one derived from the step of a run; with an
        `intake`, the task counts for the drafts after it, until the intake is released.
        """
        named = await self._named([request])
        if problems := self._all_problems(request, named):
            return "; ".join(f"{each.field}: {each.message}" for each in problems)
        if closed := self._closed(request):
            return closed
        change = self._admitted(request, by, named, id, step)
        refusal = self.quotas.draft_refusal if intake is None else intake.refusal
        return refusal(change.tasks) or change

    async def accept_template(self, request: TaskRequest, *, by: str) -> None:
        """Raise `InvalidRequest` if such a task would be refused; create a missing project."""
        await self._know_places([request])
        # The series will be the schedule's own.
        expected = in_series(request.expectations, of_schedule("template"))
        request = msgspec.structs.replace(request, expectations=expected)
        if problems := self._all_problems(request, await self._named([request])):
            raise InvalidRequest(
                [msgspec.structs.replace(each, field=f"task.{each.field}") for each in problems]
            )
        await self._ensure_projects({request.project_id}, by=by)

    async def place_problems(self, requests: Sequence[TaskRequest]) -> list[FieldProblem | None]:
        """Return the first problem of each request with its cluster, project, code or secrets."""
        await self._know_places(requests)
        found = Found([await each.look_up(requests) for each in self.checks if each.is_of_place])
        return [
            next(iter([*self._place_problems(request), *found.problems(request)]), None)
            for request in requests
        ]

    async def ensure_project(self, project_id: str, *, by: str) -> None:
        """Create a project that tasks name, unless it exists."""
        await self._ensure_projects({project_id}, by=by)

    def closed(self, request: TaskRequest) -> str:
        """Return why the project or the cluster takes no new tasks; "" when both do."""
        return self._closed(request)

    def _admitted(
        self,
        request: TaskRequest,
        by: str,
        named: Found,
        id: str | None = None,
        step: StepRef | None = None,
    ) -> Change:
        """Return the change that makes the task, with its shards if it is split."""
        now = self._system.now()
        change = admission.admit(
            request,
            id=id or make_id(TASK, now, self._system.entropy),
            step=step,
            now=now,
            cause=f"submitted by {by}",
            digest=_digest,
            **named.fields(request),
            registrable=self._rules.registrable,
        )
        parts = split.divide(request.task_type, request.parameters, self._rules.divisions)
        if not parts:
            return change
        ids = sorted(make_id(TASK, now, self._system.entropy) for _ in parts)
        return parents.split(change, parts, ids)

    async def get(self, task_id: str) -> Task:
        """Return the task, or raise `NotFound`."""
        found = await self._store.tasks([task_id])
        if not found:
            raise NotFound("task", task_id)
        return found[0]

    async def wait(self, task_id: str, wait_s: float) -> Task:
        """Return the task when it has ended, or as it is after `wait_s`; raises `NotFound`."""
        with self._state.signals.ended.listen(task_id) as ended:
            task = await self.get(task_id)
            if task.status in TERMINAL or wait_s <= 0:
                return task
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await ended.wait()
        return await self.get(task_id)

    async def clone(self, task_id: str, request: CloneRequest, *, by: str) -> Submission:
        """Submit a copy of a task, with other parameters or priority; its keys are not copied."""
        task = await self.get(task_id)
        fields = {
            name: getattr(task, name)
            for name in TaskRequest.__struct_fields__
            if hasattr(task, name) and name not in {"idempotency_key", "dedup_key"}
        }
        fields["idempotency_key"] = request.idempotency_key
        left = None if task.deadline is None else task.deadline - task.created_at
        fields["deadline"] = left
        fields["bundle"] = None if task.bundle is None else str(task.bundle)
        fields["callback_url"] = None if task.callback is None else task.callback.url
        fields["breaker"] = task.target is not None
        if request.parameters != JSON_NULL:
            fields["parameters"] = request.parameters
        if request.priority is not None:
            fields["priority"] = request.priority
        return await self.submit(TaskRequest(**fields, timeout=task.timeout_s), by=by)

    def _all_problems(self, request: TaskRequest, named: Found) -> list[FieldProblem]:
        """Return all problems of a request, with those that the checks found."""
        return [*self._problems(request), *named.problems(request)]

    def _problems(self, request: TaskRequest) -> Sequence[FieldProblem]:
        return [*admission.problems_of(request, self._rules), *self._place_problems(request)]

    def _place_problems(self, request: TaskRequest) -> list[FieldProblem]:
        problems = []
        cluster = self._state.clusters.get(request.cluster_id)
        if cluster is None or not cluster.is_open_to(request.project_id):
            # Another project's cluster is answered like one that is not there.
            usable = sorted(
                each.id
                for each in self._state.clusters.values()
                if each.is_open_to(request.project_id)
            )
            problems.append(
                FieldProblem(
                    field="cluster_id",
                    value=request.cluster_id,
                    message=f"is not a cluster that the project {request.project_id!r} may use",
                    remedy=f"use one of {', '.join(usable)}",
                )
            )
        if request.project_id not in self._state.projects and not self._settings.create_projects:
            problems.append(
                FieldProblem(
                    field="project_id",
                    value=request.project_id,
                    message="is not a project",
                    remedy="create it first (POST /api/v1/projects, `crawlfleet projects create`), "
                    "or let the master do so with the setting tasks.create_projects = true",
                )
            )
        return problems

    def _closed(self, request: TaskRequest) -> str:
        """Return why the project or the cluster takes no new tasks; "" when both do."""
        project = self._state.projects.get(request.project_id)
        if project is not None and project.status is ProjectStatus.CLOSED:
            return (
                f"the project {project.id!r} is closed and takes no new tasks; reopen it "
                f"(POST /api/v1/projects/{project.id}:reopen), or name another"
            )
        cluster = self._state.clusters[request.cluster_id]
        if cluster.status is ClusterStatus.INACTIVE:
            return (
                f"the cluster {cluster.id!r} is inactive and takes no new tasks; reopen it "
                f"(POST /api/v1/clusters/{cluster.id}:reopen), or name another"
            )
        return ""

    async def _know_places(self, requests: Sequence[TaskRequest]) -> None:
        """Read unknown clusters and projects: another master may just have made them."""
        if any(each.cluster_id not in self._state.clusters for each in requests):
            await self._state.refresh.clusters()
        if any(each.project_id not in self._state.projects for each in requests):
            await self._state.refresh.projects()

    async def _named(self, requests: Sequence[TaskRequest]) -> Found:
        return Found([await each.look_up(requests) for each in self.checks])

    async def _ensure_projects(self, ids: set[str], *, by: str) -> None:
        now = self._system.now()
        cause = f"named by a task that {by} submitted"
        # A refusal means that somebody else has just made it: just as well.
        await self._state.commit(
            [
                projects.new_project(ProjectRequest(id=id), now=now, cause=cause)
                for id in sorted(ids - self._state.projects.keys())
            ]
        )

    async def _known_before(self, change: Change, refused: str) -> Submission:
        """Return the task of an identical earlier request, which no quota stops; else `refused`.

        A repeated request adds nothing: a client that lost the response must get its task.
        """
        for claim in change.claims:
            held = await self._store.claim(claim.scope, claim.key)
            if held is not None and held.expires_at > claim.at:
                refusal = Refusal(kind=RefusalKind.CLAIM, subject=claim.scope, claim=held)
                return await self._outcome(change, refusal)
        return Submission(conflict=refused)

    async def _outcome(self, change: Change, refusal: Refusal | None) -> Submission:
        if refusal is None:
            return Submission(task=change.tasks[0], created=True)
        claim = refusal.claim
        if claim is None:
            return Submission(conflict="the id was taken; submit again")
        wanted = next((each for each in change.claims if each.scope == claim.scope), None)
        if wanted is not None and wanted.digest == claim.digest:
            holder = next(iter(await self._store.tasks([claim.holder])), None)
            if holder is None:
                return Submission(
                    conflict=f"the key {claim.key!r} belongs to {claim.holder}, which has ended "
                    "and was removed; use a new key to do the work again"
                )
            return Submission(task=holder, deduplicated=not wanted.digest)
        return Submission(
            conflict=f"idempotency_key {claim.key!r} was used for another request "
            f"(task {claim.holder}); use a new key, or send the same request"
        )


def _too_many_shards(change: Change) -> FieldProblem:
    return FieldProblem(
        field="parameters",
        value=len(change.tasks) - 1,
        message=f"would be split into {len(change.tasks) - 1} shards, which are too many beside "
        "those of the tasks before it",
        remedy=f"submit it by itself; one submission makes up to {split.MAX_SHARDS_AT_ONCE} shards",
    )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
