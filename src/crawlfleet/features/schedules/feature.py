"""Schedules as a feature of the master."""

from crawlfleet.control.kernel import Kernel
from crawlfleet.control.openings import Adapters, Feature, Loop
from crawlfleet.features.schedules.schedule_index import ScheduleIndex
from crawlfleet.features.schedules.service import Schedules
from crawlfleet.features.schedules.table import old_firings, removed_schedules
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.ports.tables import Expiring


def schedules(kernel: Kernel, _: Adapters) -> Feature:
    """Tasks and runs that start by the clock."""
    index = ScheduleIndex(store=kernel.store)
    kernel.state.signals.wake_with_all(index.changed)
    service = Schedules(
        store=kernel.store,
        state=kernel.state,
        system=kernel.system,
        tasks=kernel.tasks,
        workflows=kernel.services.get(Workflows),
        index=index,
    )
    return Feature(
        services=(service,),
        indexes=(index,),
        loops=(Loop("schedules", service.runner.run),),
        expiring=(
            Expiring(kernel.settings.retention.schedules_days, old_firings),
            Expiring(kernel.settings.retention.schedules_days, removed_schedules),
        ),
    )
