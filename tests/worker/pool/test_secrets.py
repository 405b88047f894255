"""Secrets and processes: who is told one is not used again, and keeps it to itself."""

import asyncio
from typing import Any

import msgspec
import pytest

from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.settings.sandbox import SandboxSettings
from crawlfleet.model.task import JSON_NULL
from crawlfleet.model.wire.node_protocol import Assignment
from crawlfleet.model.wire.services import SECRETS, ServiceResponse, answered, refused
from crawlfleet.testing.executor_suite import WatchedRun
from crawlfleet.worker.pool.pool import ProcessPool

pytestmark = pytest.mark.slow
VALUE = "correct horse battery staple"


class Trusted(WatchedRun):
    """Has secrets for who asks."""

    def __init__(self, **values: str) -> None:
        super().__init__()
        self.values = values

    async def request(
        self, service: str, payload: msgspec.Raw = JSON_NULL, data: bytes = b""
    ) -> ServiceResponse:
        assert service == SECRETS
        return answered(self.values) if self.values else refused("they were removed")


def assignment(number: int, *secrets: str) -> Assignment:
    return Assignment(
        execution_id=f"exec-{number}",
        task_id=f"task-{number}",
        token=1,
        task_type="python",
        parameters=msgspec.Raw(b'{"function": "os:getenv", "args": ["PASSWORD"]}'),
        secrets=secrets,
    )


def test_a_process_that_knows_a_secret_does_nothing_else() -> None:
    async def scenario() -> list[Any]:
        settings = WorkerSettings(
            slots=1, python_allow=("os:getenv",), sandbox=SandboxSettings(level="off")
        )
        pool = ProcessPool(settings)
        try:
            return [
                await pool.run(assignment(1), WatchedRun()),
                await pool.run(assignment(2, "PASSWORD"), Trusted(PASSWORD=VALUE)),
                await pool.run(assignment(3), WatchedRun()),
                await pool.run(assignment(4, "PASSWORD"), Trusted()),
            ]
        finally:
            await pool.close()

    before, told, after, refused = asyncio.run(scenario())
    assert bytes(before.data) == bytes(after.data) == b"null"
    assert bytes(told.data) == b'"[secret PASSWORD]"'
    assert refused.error.error_class == "invalid"
    assert "they were removed" in refused.error.message
