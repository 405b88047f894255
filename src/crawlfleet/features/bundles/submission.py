"""The bundles that submitted tasks name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crawlfleet.errors import FieldProblem
from crawlfleet.features.bundles import rules
from crawlfleet.features.bundles.service import Bundles
from crawlfleet.model.bundle import BundleRef
from crawlfleet.model.requests import TaskRequest


class BundleCheck:
    """Implements `crawlfleet.control.openings.Check`: a task gets the version that is present."""

    is_of_place = True

    def __init__(self, bundles: Bundles) -> None:
        self._bundles = bundles

    async def look_up(self, requests: Sequence[TaskRequest]) -> "PinnedBundles":
        wanted = [
            (each.project_id, each.bundle)
            for each in requests
            if each.bundle is not None and rules.WANTED.match(each.bundle)
        ]
        return PinnedBundles(await self._bundles.pins(wanted) if wanted else {})


class PinnedBundles:
    """The versions that requests get, by project and by the bundle that they name."""

    def __init__(self, pins: Mapping[tuple[str, str], BundleRef | FieldProblem]) -> None:
        self._pins = pins

    def problems(self, request: TaskRequest) -> Iterator[FieldProblem]:
        problem = rules.wanted_problem(request.task_type, request.bundle)
        found = problem or self._pins.get((request.project_id, request.bundle or ""))
        if isinstance(found, FieldProblem):
            yield found

    def fields(self, request: TaskRequest) -> Mapping[str, Any]:
        found = self._pins.get((request.project_id, request.bundle or ""))
        return {"bundle": found} if isinstance(found, BundleRef) else {}
