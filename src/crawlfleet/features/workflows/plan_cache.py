"""Plans of workflows: made of the stored documents, and kept while they are used."""

import asyncio
from collections import OrderedDict
from typing import Final

from crawlfleet.features.workflows.model import version_row_id
from crawlfleet.features.workflows.rules import document
from crawlfleet.features.workflows.rules.plan import WorkflowPlan, plan_of
from crawlfleet.features.workflows.table import WORKFLOW_VERSIONS
from crawlfleet.ports.store import Store

KEPT_STEPS: Final = 100_000
"""Maximum number of steps of all plans in memory."""
LARGE_BYTES: Final = 50_000
"""Documents of this size or more are parsed in a thread, so that the event loop is not blocked."""


class PlanCache:
    """A cache of the plans of workflow versions, least recently used first out."""

    def __init__(self, *, store: Store) -> None:
        self._store = store
        self._plans: OrderedDict[tuple[str, int], WorkflowPlan] = OrderedDict()
        self._steps = 0

    async def get(self, workflow_id: str, number: int) -> WorkflowPlan | None:
        """The plan of a version; `None` when there is no such version."""
        name = workflow_id, number
        plan = self._plans.get(name)
        if plan is not None:
            self._plans.move_to_end(name)
            return plan
        version = await self._store.get(WORKFLOW_VERSIONS, version_row_id(workflow_id, number))
        if version is None:
            return None
        raw = bytes(version.document)
        plan = _plan(raw) if len(raw) < LARGE_BYTES else await asyncio.to_thread(_plan, raw)
        if name not in self._plans:
            self._plans[name] = plan
            self._steps += len(plan.steps)
        while self._steps > KEPT_STEPS and len(self._plans) > 1:
            self._steps -= len(self._plans.popitem(last=False)[1].steps)
        return plan


def _plan(raw: bytes) -> WorkflowPlan:
    read, problems = document.read(raw)
    assert read is not None, f"a stored document was accepted once: {problems}"
    return plan_of(read)
