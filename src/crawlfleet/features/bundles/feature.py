"""Bundles as a feature of the master."""

from crawlfleet.control.kernel import Kernel
from crawlfleet.control.openings import Adapters, Feature, Loop
from crawlfleet.features.bundles.service import Bundles
from crawlfleet.features.bundles.submission import BundleCheck
from crawlfleet.model.bundle import BundleFetch
from crawlfleet.model.wire import services


def bundles(kernel: Kernel, adapters: Adapters) -> Feature:
    """The code that projects hand over."""
    service = Bundles(
        store=kernel.store,
        state=kernel.state,
        system=kernel.system,
        projects=kernel.projects,
        settings=kernel.settings.tasks,
        archives=adapters.archives,
        warming=kernel.leases.warming,
    )
    kernel.node_services.register(services.CODE, service.give_code)
    kernel.node_services.register_for_nodes(
        services.BUNDLE, service.give_bundle, payload=BundleFetch
    )
    return Feature(
        services=(service,),
        checks=(BundleCheck(service),),
        loops=(Loop("archives of bundles", service.run),),
    )
