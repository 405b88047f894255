"""The call-backs that tasks and runs ask for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from crawlfleet.errors import FieldProblem
from crawlfleet.features.webhooks.rules import callbacks
from crawlfleet.features.webhooks.table import WEBHOOKS
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.task import Callback
from crawlfleet.ports.store import Store


class CallbackCheck:
    """Implements `crawlfleet.control.openings.Check`: a webhook of the project carries the
    call-back."""

    is_of_place = False

    def __init__(self, *, store: Store, allow_private: bool) -> None:
        """Set up the check. With `allow_private` call-backs may lead to private addresses below a
        webhook's URL."""
        self._store = store
        self._allow_private = allow_private

    async def look_up(self, requests: Sequence[TaskRequest]) -> "ChosenCallbacks":
        return await self.choose((each.project_id, each.callback_url) for each in requests)

    async def choose(self, wanted: Iterable[tuple[str, str | None]]) -> "ChosenCallbacks":
        """Look up the webhooks for pairs of project and address; nothing is read without any."""
        asked = {(project_id, url) for project_id, url in wanted if url is not None}
        if not asked:
            return ChosenCallbacks({})
        known = await self._store.find(WEBHOOKS.where())
        return ChosenCallbacks(
            {
                (project_id, url): callbacks.choose(
                    known, project_id, url, allow_private=self._allow_private
                )
                for project_id, url in asked
            }
        )


class ChosenCallbacks:
    """The call-backs of requests, or their problems."""

    def __init__(self, chosen: Mapping[tuple[str, str], Callback | FieldProblem]) -> None:
        self._chosen = chosen

    def get(self, project_id: str, url: str | None) -> Callback | FieldProblem | None:
        """The call-back to an address for a project; `None` when none is wanted."""
        return self._chosen.get((project_id, url or ""))

    def problems(self, request: TaskRequest) -> Iterator[FieldProblem]:
        found = self.get(request.project_id, request.callback_url)
        if isinstance(found, FieldProblem):
            yield found

    def fields(self, request: TaskRequest) -> Mapping[str, Any]:
        found = self.get(request.project_id, request.callback_url)
        return {"callback": found} if isinstance(found, Callback) else {}
