"""Workflows for programs."""

import uuid
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from crawlfleet.client.http.calls import Calls, as_query, segment
from crawlfleet.client.http.ids import listed
from crawlfleet.client.http.retries import within
from crawlfleet.features.workflows.views import (
    LIVE,
    RunPage,
    RunStepPage,
    RunStepView,
    RunView,
    Validation,
    VersionPage,
    VersionView,
    WorkflowPage,
    WorkflowView,
)

LONG_POLL_S: Final = 25.0


class WorkflowCalls(Calls):
    """Calls about workflows and their runs.

    With `if_version` a change is made only if that is still the version; `PreconditionFailed` if
    not.
    """

    def workflows(
        self, limit: int | None = None, *, project_id: str | None = None, name: str | None = None
    ) -> AsyncIterator[WorkflowView]:
        """Iterate over the workflows, in order of their creation."""
        query = {"project_id": project_id, "name": name}
        return self._pages("/workflows", WorkflowPage, query, limit=limit)

    async def workflow(self, workflow_id: str) -> WorkflowView:
        """Return one workflow."""
        return await self._get(_path(workflow_id), WorkflowView)

    async def workflow_document(self, workflow_id: str, version: int | None = None) -> VersionView:
        """Return the document of a workflow, the newest when no version is named."""
        query = as_query({"version": version})
        return await self._get(f"{_path(workflow_id)}/document", VersionView, query)

    def workflow_versions(
        self, workflow_id: str, limit: int | None = None
    ) -> AsyncIterator[VersionView]:
        """Iterate over the versions of a workflow without their documents, newest first."""
        return self._pages(f"{_path(workflow_id)}/versions", VersionPage, {}, limit=limit)

    async def workflow_schema(self) -> dict[str, Any]:
        """Return the JSON schema of documents."""
        return await self._get("/workflows:schema", dict[str, Any])

    async def validate_workflow(self, document: dict[str, Any]) -> Validation:
        """Check a document and return its problems; nothing is created."""
        return await self._post("/workflows:validate", Validation, {"document": document})

    async def save_workflow(self, document: dict[str, Any]) -> WorkflowView:
        """Keep a document as the newest version of its workflow, without running it."""
        return await self._post("/workflows", WorkflowView, {"document": document})

    async def submit_workflow(
        self,
        document: dict[str, Any],
        parameters: dict[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        callback_url: str | None = None,
    ) -> RunView:
        """Keep a document, and run it; the same key gives the same run."""
        body = {
            "document": document,
            "parameters": parameters or {},
            "idempotency_key": idempotency_key or uuid.uuid4().hex,
            **({} if callback_url is None else {"callback_url": callback_url}),
        }
        return await self._post("/workflows:submit", RunView, body)

    async def start_workflow(
        self,
        workflow_id: str,
        parameters: dict[str, Any] | None = None,
        *,
        version: int | None = None,
        idempotency_key: str | None = None,
        callback_url: str | None = None,
    ) -> RunView:
        """Run a workflow that is kept; the same key gives the same run."""
        body = {
            "parameters": parameters or {},
            "version": version,
            "idempotency_key": idempotency_key or uuid.uuid4().hex,
            **({} if callback_url is None else {"callback_url": callback_url}),
        }
        return await self._post(f"{_path(workflow_id)}:start", RunView, body)

    def runs(
        self,
        limit: int | None = None,
        *,
        project_id: str | None = None,
        workflow_id: str | None = None,
        status: str | None = None,
    ) -> AsyncIterator[RunView]:
        """Runs, newest first."""
        query = {"project_id": project_id, "workflow_id": workflow_id, "status": status}
        return self._pages("/runs", RunPage, query, limit=limit)

    async def workflow_run(self, run_id: str, *, wait_s: float = 0.0) -> RunView:
        """Return one run, as it is, or when it has ended within `wait_s`."""
        query = as_query({"wait": f"{wait_s:g}" if wait_s else None})
        return await self._get(_run(run_id), RunView, query, wait_s=wait_s)

    async def wait_for_run(self, run_id: str, *, timeout_s: float | None = None) -> RunView:
        """The run once it has ended; raises `TimeoutError` if it has not within `timeout_s`."""
        async with within(timeout_s, run_id):
            while True:
                run = await self.workflow_run(run_id, wait_s=LONG_POLL_S)
                if run.status not in LIVE:
                    return run

    def run_steps(
        self, run_id: str, limit: int | None = None, *, status: str | None = None
    ) -> AsyncIterator[RunStepView]:
        """The steps of a run in the order of its document, or those of them in one state."""
        query = {"status": status}
        return self._pages(f"{_run(run_id)}/steps", RunStepPage, query, limit=limit)

    async def cancel_run(self, run_id: str, *, if_version: int | None = None) -> RunView:
        """Begin no more of its steps, and stop those at work."""
        return await self._post(f"{_run(run_id)}:cancel", RunView, None, if_version)

    async def rerun(
        self, run_id: str, steps: Iterable[str] = (), *, if_version: int | None = None
    ) -> RunView:
        """Let a run go on from the steps that failed, or from these steps."""
        body = {"steps": listed(steps, "steps")}
        return await self._post(f"{_run(run_id)}:rerun", RunView, body, if_version)


def _path(workflow_id: str) -> str:
    return f"/workflows/{segment(workflow_id)}"


def _run(run_id: str) -> str:
    return f"/runs/{segment(run_id)}"
