"""Workflows as a feature of the master."""

from collections.abc import Iterable, Sequence

from crawlfleet.control.kernel import Kernel
from crawlfleet.control.openings import Adapters, Feature, Loop
from crawlfleet.control.state.signals import EndSignals
from crawlfleet.features.webhooks.submission import CallbackCheck
from crawlfleet.features.workflows.model import Run
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.features.workflows.table import ended_runs
from crawlfleet.model.change import Change
from crawlfleet.ports.tables import Expiring


def workflows(kernel: Kernel, _: Adapters) -> Feature:
    """Tasks that follow each other."""
    service = Workflows(
        store=kernel.store,
        state=kernel.state,
        system=kernel.system,
        tasks=kernel.tasks,
        orders=kernel.orders,
        callbacks=CallbackCheck(
            store=kernel.store, allow_private=kernel.settings.webhooks.allow_private
        ),
    )
    return Feature(
        services=(service,),
        indexes=(EndedRuns(kernel.state.signals.ended),),
        hearers=(service.runner,),
        loops=(Loop("runs of workflows", service.runner.run),),
        expiring=(Expiring(kernel.settings.retention.runs_days, ended_runs),),
    )


class EndedRuns:
    """Implements `crawlfleet.control.openings.Index`: holds nothing, but wakes the callers that
    wait for the end of a run."""

    subject = ""

    def __init__(self, ended: EndSignals) -> None:
        self._ended = ended

    async def read(self, ids: Sequence[str] | None = None) -> Sequence[Run]:
        return ()

    def ids_of(self, change: Change) -> Iterable[str]:
        return ()

    def take(self, change: Change) -> None:
        for run in change.of(Run):
            if run.ended_at is not None:
                self._ended.publish(run.id)

    def clear(self) -> None:
        """Do nothing: no rows are held."""
