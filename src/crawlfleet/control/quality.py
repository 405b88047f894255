"""What was measured of tasks, series by series, and what people say about it."""

from crawlfleet.control.measuring import Measurement
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.quality.recording import decided, undecidable
from crawlfleet.errors import Conflict
from crawlfleet.model.change import Change
from crawlfleet.model.quality import Decision, MeasuredRun, series_key
from crawlfleet.ports.kernel_tables import measured_runs_in, measured_runs_of, newest_of_series
from crawlfleet.ports.output import OutputStore
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System


class Quality:
    """Reads the history of series, and takes decisions about their runs."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        output: OutputStore | None = None,
    ) -> None:
        self.measuring = Measurement(store=store, state=state, system=system, output=output)
        self._store = store
        self._state = state
        self._system = system

    async def series(
        self, *, project_id: str | None, after: str | None, limit: int
    ) -> list[MeasuredRun]:
        """The newest run of each series, in order of project and name."""
        return await self._store.find(
            newest_of_series(project_id=project_id, after=after, limit=limit)
        )

    async def runs(
        self, project_id: str, series: str, *, after: str | None, limit: int
    ) -> list[MeasuredRun]:
        """The runs of a series, newest first."""
        key = series_key(project_id, series)
        return await self._store.find(measured_runs_in(key, after=after, limit=limit))

    async def of_task(self, task_id: str) -> list[MeasuredRun]:
        """What was measured of a task whenever it ended, newest first."""
        return (await self._store.find(measured_runs_of([task_id])))[::-1]

    async def decide(
        self, task_id: str, decision: Decision, *, by: str, reason: str = ""
    ) -> MeasuredRun:
        """Accept or reject what a task found; saying the same again changes nothing. Raises
        `Conflict` when there is nothing to decide, or when somebody said otherwise before."""

        async def decide() -> tuple[MeasuredRun, Change | None]:
            run = await self._newest(task_id)
            change = decided(run, decision, now=self._system.now(), by=by, reason=reason)
            if change is None:
                return run, None
            if why := undecidable(run):
                raise Conflict(why)
            return change.of(MeasuredRun)[0], change

        return await self._state.decide(task_id, decide)

    async def _newest(self, task_id: str) -> MeasuredRun:
        found = await self.of_task(task_id)
        if not found:
            raise Conflict(
                f"nothing was measured of {task_id}: it has not ended, or has no `expectations`"
            )
        return found[0]
