"""What authors of plug-ins import: strategies, filters, executors and sinks of their own.

Only the names in this module, the entry points, `crawlfleet.client`, `crawlfleet.executors.python`
and the suites in `crawlfleet.testing` are kept from one release to the next; every other module may
move. A name is loaded when it is first used, so that an executor does not load the scheduler.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from crawlfleet.adapters.sinks.folder import SinkFolder as SinkFolder
    from crawlfleet.core.placement.columns import NodeColumns as NodeColumns
    from crawlfleet.core.placement.filters import NodeClass as NodeClass
    from crawlfleet.core.placement.strategies import Ranking as Ranking
    from crawlfleet.errors import CrawlfleetError as CrawlfleetError
    from crawlfleet.model.crawl.extraction import Item as Item
    from crawlfleet.model.crawl.parameters import NodeSink as NodeSink
    from crawlfleet.model.crawl.parameters import SinkSpec as SinkSpec
    from crawlfleet.model.settings import WorkerSettings as WorkerSettings
    from crawlfleet.model.task import Requirement as Requirement
    from crawlfleet.ports.execution import Context as Context
    from crawlfleet.ports.execution import Executor as Executor
    from crawlfleet.ports.execution import Measured as Measured
    from crawlfleet.ports.sink import PageRecord as PageRecord
    from crawlfleet.ports.sink import Sink as Sink

_HOMES: Final = {
    "Context": "crawlfleet.ports.execution",
    "CrawlfleetError": "crawlfleet.errors",
    "Executor": "crawlfleet.ports.execution",
    "Item": "crawlfleet.model.crawl.extraction",
    "Measured": "crawlfleet.ports.execution",
    "NodeClass": "crawlfleet.core.placement.filters",
    "NodeColumns": "crawlfleet.core.placement.columns",
    "NodeSink": "crawlfleet.model.crawl.parameters",
    "PageRecord": "crawlfleet.ports.sink",
    "Ranking": "crawlfleet.core.placement.strategies",
    "Requirement": "crawlfleet.model.task",
    "Sink": "crawlfleet.ports.sink",
    "SinkFolder": "crawlfleet.adapters.sinks.folder",
    "SinkSpec": "crawlfleet.model.crawl.parameters",
    "WorkerSettings": "crawlfleet.model.settings",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
