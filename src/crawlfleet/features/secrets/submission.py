"""The secrets that submitted tasks declare or refer to."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from crawlfleet.core.tasks import admission, credentials
from crawlfleet.errors import FieldProblem
from crawlfleet.features.secrets.service import Secrets
from crawlfleet.model.requests import TaskRequest


class SecretCheck:
    """Implements `crawlfleet.control.openings.Check`: a task declares secrets that there are."""

    is_of_place = True

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def look_up(self, requests: Sequence[TaskRequest]) -> "KnownSecrets":
        wanted = [each.project_id for each in requests if admission.secrets_of(each)]
        return KnownSecrets(await self._secrets.known(wanted))


class KnownSecrets:
    """The names of the secrets of projects."""

    def __init__(self, by_project: Mapping[str, Collection[str]]) -> None:
        self._by_project = by_project

    def problems(self, request: TaskRequest) -> Iterator[FieldProblem]:
        return credentials.declared_problems(
            request.task_type,
            bytes(request.parameters),
            request.secrets,
            request.project_id,
            self._by_project.get(request.project_id, ()),
        )

    def fields(self, request: TaskRequest) -> Mapping[str, Any]:
        return {}
