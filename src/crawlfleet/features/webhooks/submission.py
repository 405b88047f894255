"""Who carries the call-backs that tasks and runs ask for."""

from collections.abc import Iterable, Mapping

from crawlfleet.errors import FieldProblem
from crawlfleet.features.webhooks.rules import callbacks
from crawlfleet.features.webhooks.table import WEBHOOKS
from crawlfleet.model.task import Callback
from crawlfleet.ports.store import Store

Carriers = Mapping[tuple[str, str], Callback | FieldProblem]
"""By project, and the address that is wanted there."""


async def carriers(
    store: Store, wanted: Iterable[tuple[str, str | None]], *, allow_private: bool
) -> Carriers:
    """Who carries what is wanted, by project and address, or what is wrong; nothing is read when
    nobody wants any."""
    asked = {(project_id, url) for project_id, url in wanted if url is not None}
    if not asked:
        return {}
    known = await store.find(WEBHOOKS.where())
    return {
        (project_id, url): callbacks.choose(known, project_id, url, allow_private=allow_private)
        for project_id, url in asked
    }
