"""Quotas of projects: checked when tasks are submitted, dispatched and explained.

Use is not counted separately: waiting tasks are those in the queue and the delays, running ones are
in the tenancy, and the store has counted the pages and bytes of today. Only accepted tasks that
have not reached the copy yet are counted here, for as long as their commit takes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.placement.quota import QuotaRefusal, Use, holds, refusal
from crawlfleet.core.placement.tenancy import dominant_share
from crawlfleet.core.resources import UNITS, demand_of
from crawlfleet.model.quota import NO_LIMITS, Allowance, Quota
from crawlfleet.model.task import Task, TaskStatus
from crawlfleet.model.usage import DAY_S
from crawlfleet.ports.system import System


class QuotaIntake:
    """The tasks that one submission adds to projects, checked one by one."""

    def __init__(self, quotas: "Quotas") -> None:
        self._quotas = quotas
        self.accepted: list[Task] = []

    def refusal(self, tasks: Sequence[Task]) -> str:
        """Accept a task with its shards; returns why the project's quotas refuse it, or ""."""
        project_id = tasks[0].project_id
        allowance = self._quotas.allowance(project_id)
        if allowance is NO_LIMITS:
            return ""
        new = [task for task in tasks if task.status is TaskStatus.PENDING]
        if not new:
            return ""
        hold = refusal(
            allowance,
            self._quotas.use(project_id),
            lambda: self._quotas.booked(project_id),
            demand_of(new[0]),
            tasks=len(new),
            task_type=new[0].task_type,
        )
        if hold is not None:
            return _refused(project_id, hold, self._quotas.until(hold))
        self.accepted += new
        self._quotas.expect(new)
        return ""

    def release(self, since: int = 0) -> None:
        """Stop counting the accepted tasks: they have reached the copy, or will not.

        With `since`, only those accepted after the first so many.
        """
        self._quotas.expect(self.accepted[since:], step=-1)
        del self.accepted[since:]


class Quotas:
    """Knows the use and the limits of each project, and refuses tasks beyond its quotas."""

    def __init__(self, *, state: FleetState, system: System) -> None:
        self._state = state
        self._system = system
        self._coming: dict[str, list[float]] = {}
        """Number, CPU cores and memory of accepted tasks not in the copy yet, by project."""

    def allowance(self, project_id: str) -> Allowance:
        """Return the quotas and the weight of a project; no limits for an unknown project."""
        project = self._state.projects.get(project_id)
        return NO_LIMITS if project is None else project.allowance

    def use(self, project_id: str) -> Use:
        """Return the present use of a project, with the tasks that are just being accepted."""
        waiting = self._state.queue.waiting(project_id) + self._state.delays.count(project_id)
        waiting += int(self._coming.get(project_id, (0.0,))[0])
        return self._state.tenancy.tenant(project_id).use(waiting=waiting)

    def booked(self, project_id: str) -> Use:
        """Return the use that a project would have if all its waiting tasks were running."""
        use = self.use(project_id)
        _, cpu, memory = self._coming.get(project_id, (0.0, 0.0, 0.0))
        asked = [
            (requirement.demand, tasks)
            for requirement, tasks in self._state.queue.requirements(project_id).items()
        ]
        for demand, tasks in (*asked, *self._state.delays.demands(project_id).items()):
            cpu += demand.cpu_cores * tasks
            memory += demand.memory_mb * tasks
        return Use(
            running=use.running + use.waiting,
            cpu_cores=round((use.cpu_cores + cpu) * UNITS) / UNITS,
            memory_mb=round((use.memory_mb + memory) * UNITS) / UNITS,
            pages_per_day=use.pages_per_day,
            storage_mb=use.storage_mb,
        )

    def holds(self, task: Task) -> list[QuotaRefusal]:
        """Return the quotas that keep a task from a node now."""
        allowance, use = self.allowance(task.project_id), self.use(task.project_id)
        return [*holds(allowance, use, demand_of(task), task_type=task.task_type)]

    def until(self, hold: QuotaRefusal) -> datetime | None:
        """Return when a quota stops to hold by itself; `None` if that is not known."""
        if hold.quota is not Quota.PAGES_PER_DAY:
            return None
        return datetime.fromtimestamp((self._system.now() // DAY_S + 1) * DAY_S, UTC)

    def in_words(self, project_id: str, found: Sequence[QuotaRefusal]) -> str:
        """Return a sentence that names the quotas that hold a task back, and when it goes on."""
        what = "; ".join(map(str, found))
        when = dict.fromkeys(_goes_on(each, self.until(each)) for each in found)
        return (
            f"held back by the quotas of the project {project_id!r}: {what}. It goes on "
            f"{' and '.join(when)}, or when somebody raises the limit."
        )

    def share(self, project_id: str) -> float:
        """Return the part of the fleet that a project holds, by its dominant resource."""
        units = self._state.tenancy.tenant(project_id).units
        return dominant_share(units, self._state.fleet.totals())

    def due(self, project_id: str) -> float:
        """Return the part of the fleet due to a project by its weight among those with work."""
        active = {*self._state.queue.projects(), *self._state.tenancy.busy(), project_id}
        weights = {id: self.allowance(id).weight for id in active}
        return weights[project_id] / sum(weights.values())

    @contextmanager
    def intake(self) -> Iterator[QuotaIntake]:
        """Count the tasks accepted within the block, until their commit has reached the copy."""
        intake = QuotaIntake(self)
        try:
            yield intake
        finally:
            intake.release()

    def expect(self, tasks: Sequence[Task], *, step: int = 1) -> None:
        """Count tasks that are on their way into the copy; with `step` -1, stop counting them."""
        for task in tasks:
            demand = demand_of(task)
            coming = self._coming.setdefault(task.project_id, [0.0, 0.0, 0.0])
            coming[0] += step
            coming[1] += step * demand.cpu_cores
            coming[2] += step * demand.memory_mb
            if not coming[0]:
                del self._coming[task.project_id]

    def draft_refusal(self, tasks: Sequence[Task]) -> str:
        """Return why a project cannot take a task, with its shards, that others commit; or ""."""
        with self.intake() as intake:
            return intake.refusal(tasks)


def _goes_on(hold: QuotaRefusal, until: datetime | None) -> str:
    if until is not None:
        return f"at {until:%Y-%m-%d %H:%M} UTC"
    if hold.quota is Quota.STORAGE_MB:
        return "when output or bundles of the project were removed"
    return "when others of the project have ended"


def _refused(project_id: str, hold: QuotaRefusal, until: datetime | None) -> str:
    remedy = "wait until others of the project have ended"
    if until is not None:
        remedy = f"wait until {until:%Y-%m-%d %H:%M} UTC"
    elif hold.quota is Quota.STORAGE_MB:
        remedy = "remove tasks with output, or versions of bundles, that are not needed"
    elif hold.is_lasting:
        remedy = "ask for less"
    return (
        f"the project {project_id!r} is at its quota {hold.quota}: {hold}; {remedy}, or raise the "
        f"limit (PATCH /api/v1/projects/{project_id}/quotas, `crawlfleet quotas set "
        f"{project_id}`)"
    )
