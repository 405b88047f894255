"""Tasks as people handle them: submit, cancel, pause, resume, retry, reprioritise, clone."""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from crawlfleet.control.state import FleetState
from crawlfleet.core import admission, attempts
from crawlfleet.core.admission import AdmissionRules
from crawlfleet.core.lifecycle import TaskTrigger, move_task
from crawlfleet.errors import Conflict, FieldProblem, InvalidRequest, NotFound
from crawlfleet.model.change import NEVER, Change, Claim
from crawlfleet.model.event import Event
from crawlfleet.model.ids import TASK, make_id
from crawlfleet.model.project import Project
from crawlfleet.model.requests import CloneRequest, TaskRequest
from crawlfleet.model.task import (
    JSON_NULL,
    LEASED,
    MAX_PRIORITY,
    MIN_PRIORITY,
    TERMINAL,
    Task,
    TaskStatus,
)
from crawlfleet.ports.store import Refusal, Store
from crawlfleet.ports.system import System

ATTEMPTS_TO_CHANGE: Final = 8
"""How often a change is decided anew when somebody else was faster."""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one request of a batch: a task, or the problems that stood in its way."""

    task: Task | None = None
    created: bool = False
    deduplicated: bool = False
    problems: tuple[FieldProblem, ...] = ()
    conflict: str = ""


class Tasks:
    """Accepts tasks and carries out what people order about them."""

    def __init__(
        self, *, store: Store, state: FleetState, system: System, rules: AdmissionRules
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._rules = rules

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
        """Accept what can be accepted, in one commit; an outcome for each, in order.

        A request that could not even be decoded is passed as its problem.
        """
        outcomes: list[Submission | None] = [None] * len(requests)
        changes: list[Change] = []
        places: list[int] = []
        for place, request in enumerate(requests):
            if isinstance(request, FieldProblem):
                outcomes[place] = Submission(problems=(request,))
            elif problems := [*self._problems(request)]:
                outcomes[place] = Submission(problems=tuple(problems))
            else:
                now = self._system.now()
                changes.append(
                    admission.admit(
                        request,
                        id=make_id(TASK, now, self._system.entropy),
                        now=now,
                        cause=f"submitted by {by}",
                        digest=_digest,
                    )
                )
                places.append(place)
        await self._ensure_projects({change.tasks[0].project_id for change in changes})
        refusals = await self._state.commit(changes)
        for place, change, refusal in zip(places, changes, refusals, strict=True):
            outcomes[place] = await self._outcome(change, refusal)
        return [outcome or Submission() for outcome in outcomes]

    async def get(self, task_id: str) -> Task:
        """The task, or `NotFound`."""
        found = await self._store.tasks([task_id])
        if not found:
            raise NotFound("task", task_id)
        return found[0]

    async def wait(self, task_id: str, wait_s: float) -> Task:
        """The task when it has ended, or as it is after `wait_s`."""
        with self._state.signals.ended.listen(task_id) as ended:
            task = await self.get(task_id)
            if task.status in TERMINAL or wait_s <= 0:
                return task
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await ended.wait()
        return await self.get(task_id)

    async def cancel(self, task_id: str, *, by: str) -> Task:
        """End the task; what runs of it is stopped. Cancelling twice is no error."""
        return await self._withdraw(task_id, TaskTrigger.CANCELLED, TaskStatus.CANCELLED, by)

    async def pause(self, task_id: str, *, by: str) -> Task:
        """Take the task out of the queue, or off its node; no attempt is counted."""
        return await self._withdraw(task_id, TaskTrigger.PAUSED, TaskStatus.PAUSED, by)

    async def resume(self, task_id: str, *, by: str) -> Task:
        """Put a paused task back into the queue."""

        def decide(task: Task) -> Change | None:
            return _moved(task, TaskTrigger.RESUMED, self._system.now(), f"resumed by {by}")

        return await self._change(task_id, "resume", decide, done=_is_queued)

    async def retry(self, task_id: str, *, by: str) -> Task:
        """Send an ended task that did not succeed back to the queue, with fresh counters."""

        def decide(task: Task) -> Change | None:
            now = self._system.now()
            change = _moved(
                task,
                TaskTrigger.REQUEUED,
                now,
                f"retried by {by}",
                retry_count=0,
                loss_count=0,
                not_before=0.0,
                completed_at=None,
                result=None,
                error=None,
                dead_reason=None,
                assigned_node=None,
                assigned_at=None,
                execution_id=None,
                started_at=None,
            )
            if change is None or task.dedup_key is None:
                return change
            claim = Claim(
                scope=attempts.dedup_scope(task.project_id),
                key=task.dedup_key,
                holder=task.id,
                at=now,
                expires_at=NEVER,
            )
            return msgspec.structs.replace(change, claims=(claim,))

        return await self._change(task_id, "retry", decide, done=_is_queued)

    async def reprioritise(self, task_id: str, priority: int, *, by: str) -> Task:
        """Change the priority of a task that has not ended."""
        if not MIN_PRIORITY <= priority <= MAX_PRIORITY:
            raise InvalidRequest(
                [
                    FieldProblem(
                        field="priority",
                        value=priority,
                        message="is out of range",
                        remedy=f"use a number from {MIN_PRIORITY} to {MAX_PRIORITY}",
                    )
                ]
            )

        def decide(task: Task) -> Change | None:
            if task.status in TERMINAL or task.status in LEASED:
                return None
            now = self._system.now()
            event = Event(
                kind="task.reprioritised",
                subject=task.id,
                at=now,
                cause=f"reprioritised by {by}",
                details={"from": task.priority, "to": priority},
            )
            changed = msgspec.structs.replace(
                task, priority=priority, version=task.version + 1, updated_at=now
            )
            return Change(tasks=(changed,), events=(event,))

        return await self._change(
            task_id, "reprioritise", decide, done=lambda task: task.priority == priority
        )

    async def clone(self, task_id: str, request: CloneRequest, *, by: str) -> Submission:
        """A new task like this one, with other parameters or priority; keys are not copied."""
        task = await self.get(task_id)
        fields = {
            name: getattr(task, name)
            for name in TaskRequest.__struct_fields__
            if hasattr(task, name) and name not in {"idempotency_key", "dedup_key"}
        }
        if request.parameters != JSON_NULL:
            fields["parameters"] = request.parameters
        if request.priority is not None:
            fields["priority"] = request.priority
        return await self.submit(TaskRequest(**fields, timeout=task.timeout_s), by=by)

    def _problems(self, request: TaskRequest) -> Sequence[FieldProblem]:
        problems = admission.problems_of(request, self._rules)
        if request.cluster_id not in self._state.clusters:
            problems.append(
                FieldProblem(
                    field="cluster_id",
                    value=request.cluster_id,
                    message="is not a cluster",
                    remedy=f"use one of {', '.join(sorted(self._state.clusters))}",
                )
            )
        return problems

    async def _ensure_projects(self, ids: set[str]) -> None:
        for id in sorted(ids - self._state.known_projects):
            if await self._store.project(id) is None:
                now = self._system.now()
                # A refusal means that somebody else has just made it: just as well.
                await self._state.commit(
                    [Change(projects=(Project(id=id, name=id, created_at=now, updated_at=now),))]
                )
            self._state.known_projects.add(id)

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

    async def _withdraw(
        self, task_id: str, trigger: TaskTrigger, target: TaskStatus, by: str
    ) -> Task:
        def decide(task: Task) -> Change | None:
            lease = self._state.lease_of(task)
            return attempts.withdraw(
                task,
                lease.execution if lease else None,
                trigger,
                now=self._system.now(),
                cause=f"{trigger} by {by}",
            )

        verb = "cancel" if target is TaskStatus.CANCELLED else "pause"
        return await self._change(task_id, verb, decide, done=lambda task: task.status is target)

    async def _change(
        self,
        task_id: str,
        verb: str,
        decide: Callable[[Task], Change | None],
        *,
        done: Callable[[Task], bool],
    ) -> Task:
        """Decide on the newest state and commit, again if somebody was faster; idempotent."""
        for _ in range(ATTEMPTS_TO_CHANGE):
            task = await self.get(task_id)
            if done(task):
                return task
            if task.status in LEASED and self._state.lease_of(task) is None:
                # The store already tells of an assignment that memory does not know yet.
                await self._state.catch_up()
                continue
            change = decide(task)
            if change is None:
                raise Conflict(f"cannot {verb} {task_id}: it is {task.status}")
            refusal = (await self._state.commit([change]))[0]
            if refusal is None:
                return change.tasks[0]
            await self._state.catch_up()
            if refusal.claim is not None:
                raise Conflict(
                    f"cannot {verb} {task_id}: its dedup_key now belongs to {refusal.claim.holder}"
                )
        raise Conflict(f"{task_id} is changing too quickly; try again")


def _is_queued(task: Task) -> bool:
    return task.status is TaskStatus.PENDING


def _moved(
    task: Task, trigger: TaskTrigger, now: float, cause: str, **fields: Any
) -> Change | None:
    moved = move_task(task, trigger, now=now, cause=cause, **fields)
    return None if moved is None else Change(tasks=(moved[0],), events=(moved[1],))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
