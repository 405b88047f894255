"""Gathers observations of the fleet for `core.attention`, which ranks them."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from crawlfleet.control.state.counters import Happening
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core import attention as core
from crawlfleet.core.placement.explanation import explain
from crawlfleet.core.placement.rules import PlacementRules
from crawlfleet.model.attention import Concern
from crawlfleet.model.crawl.figures import CrawlFigures
from crawlfleet.model.task import Task
from crawlfleet.ports.store import Store, TaskFilter
from crawlfleet.ports.system import System

MAX_REQUIREMENTS: Final = 50
"""Maximum number of kinds of waiting tasks to look at; the most frequent ones come first."""
MAX_DEAD_LETTERS: Final = 100
"""Dead letters are counted up to this number: the tasks are read whole, and people look often."""
FAILURES_WITHIN_S: Final = 300.0


class Attention:
    """Finds the concerns that people should look at."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        rules: PlacementRules,
        disk_free: Callable[[], float | None] = lambda: None,
    ) -> None:
        """`disk_free` returns the free share of the master's disk, `None` if unknown."""
        self._store = store
        self._state = state
        self._system = system
        self._rules = rules
        self._figures: Callable[[Task], CrawlFigures | None] = lambda _: None
        self._disk_free = disk_free

    def take_figures_from(self, figures: Callable[[Task], CrawlFigures | None]) -> None:
        """Register `figures`: it returns the measurements of a running crawl, or `None`."""
        self._figures = figures

    async def find(self, project_id: str | None = None) -> tuple[Concern, ...]:
        """Return the concerns of the fleet, or of the tasks of one project, in order of rank."""
        whole = project_id is None
        dead = await self._store.find_tasks(
            TaskFilter(dead=True, project_id=project_id),
            after=None,
            limit=MAX_DEAD_LETTERS + 1,
            with_results=False,
        )
        happened, failed = self._state.counters.within(
            FAILURES_WITHIN_S, now=self._system.now(), project_id=project_id
        )
        failures = Counter({str(kind): count for kind, count in failed.items()})
        return core.rank(
            core.Observed(
                nodes=[*self._state.nodes.values()] if whole else (),
                whole=whole,
                waiting=[*self._waiting()] if whole else (),
                dead_letters=min(len(dead), MAX_DEAD_LETTERS),
                more_dead_letters=len(dead) > MAX_DEAD_LETTERS,
                attempts=happened[Happening.COMPLETED] + failures.total(),
                failures=failures,
                blocked=[*self._blocked(project_id)],
                disk_free=self._disk_free() if whole else None,
                store_trouble=await self._state.trouble() if whole else "",
                clock_set_by_s=self._system.wall() - self._system.now() if whole else 0.0,
            )
        )

    def _blocked(self, project_id: str | None) -> Iterator[core.BlockedHost]:
        now = self._system.now()
        for lease in self._state.leases.values():
            if project_id not in (None, lease.task.project_id):
                continue
            figures = self._figures(lease.task)
            for host in figures.hosts if figures else ():
                if host.why and host.rests_until is not None and host.rests_until > now:
                    yield core.BlockedHost(
                        host=host.host,
                        task_id=lease.task.id,
                        why=host.why,
                        errors=host.errors,
                        waiting=host.waiting,
                    )

    def _waiting(self) -> Iterator[core.WaitingTasks]:
        queue, now = self._state.queue, self._system.now()
        asked = sorted(queue.requirements().items(), key=lambda pair: -pair[1])
        for requirement, tasks in islice(asked, MAX_REQUIREMENTS):
            first = queue.first(requirement)
            if first is None:
                continue
            why = explain(
                requirement,
                self._state.fleet,
                self._rules,
                project_id=queue.project_of(first),
                most_details=0,
            )
            yield core.WaitingTasks(
                first=first,
                tasks=tasks,
                waited_s=now - (queue.oldest(requirement) or now),
                task_type=requirement.task_type,
                feasible=why.feasible,
                causes=why.causes,
            )
