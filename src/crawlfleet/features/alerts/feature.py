"""Alerts as a feature of the master."""

from crawlfleet.control.kernel import Kernel
from crawlfleet.control.openings import Adapters, Feature, Loop
from crawlfleet.features.alerts.service import Alerts
from crawlfleet.features.alerts.watcher import AlertWatcher


def alerts(kernel: Kernel, adapters: Adapters) -> Feature:
    """Build the alerts feature: the rules, and the loop that evaluates them."""
    store, state, system = kernel.store, kernel.state, kernel.system
    watcher = AlertWatcher(store=store, state=state, system=system, disk_free=adapters.disk_free)
    return Feature(
        services=(Alerts(store=store, state=state, system=system),),
        hearers=(watcher,),
        loops=(Loop("alerts", watcher.run),),
    )
