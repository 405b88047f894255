"""Secrets as a feature of the master."""

from crawlfleet.control.kernel import Kernel
from crawlfleet.control.openings import Adapters, Feature
from crawlfleet.features.secrets.service import Secrets
from crawlfleet.features.secrets.submission import SecretCheck
from crawlfleet.model.wire import services


def secrets(kernel: Kernel, adapters: Adapters) -> Feature:
    """The secrets of projects."""
    service = Secrets(
        store=kernel.store,
        state=kernel.state,
        system=kernel.system,
        projects=kernel.projects,
        settings=kernel.settings.tasks,
        seal=adapters.seal,
    )
    kernel.node_services.register(services.SECRETS, service.give)
    return Feature(services=(service,), checks=(SecretCheck(service),))
