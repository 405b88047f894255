"""Real requests and answers about workflows."""

from typing import Any, Final

_FLOW: Final = "flow-1m7f8kvnx0ph9v69ycjkfks14"
_RUN: Final = "run-1m7g4xv0c0ph9v69ycjkfks15"
_TASK: Final = "task-1m7g4xv0c4r7s8y2m9k0c3w6qt"

DOCUMENT: Final[dict[str, Any]] = {
    "name": "shop",
    "parameters": {"url": {"type": "text", "default": "https://shop.example/"}},
    "steps": {
        "index": {
            "task_type": "http_fetch",
            "parameters": {"url": "${parameters.url}"},
            "max_retries": 5,
        },
        "pages": {
            "task_type": "http_fetch",
            "depends_on": ["index"],
            "for_each": "${range(3)}",
            "parameters": {"url": "${parameters.url}?page=${index}"},
            "timeout": 30,
        },
        "alarm": {
            "task_type": "http_fetch",
            "depends_on": [{"step": "pages", "on": "failure"}],
            "parameters": {"url": "https://ops.example/alarm?run=${run.id}"},
            "optional": True,
        },
    },
}
WORKFLOW_REQUEST: Final[dict[str, Any]] = {"document": DOCUMENT}
SUBMIT_REQUEST: Final[dict[str, Any]] = {
    "document": DOCUMENT,
    "parameters": {"url": "https://other.example/"},
    "idempotency_key": "shop-2026-11-16",
}
START_REQUEST: Final[dict[str, Any]] = {"parameters": {"url": "https://other.example/"}}
RERUN_REQUEST: Final[dict[str, Any]] = {"steps": ["pages"]}
WORKFLOW: Final[dict[str, Any]] = {
    "id": _FLOW,
    "name": "shop",
    "project_id": "default",
    "description": "",
    "latest": 1,
    "steps": 3,
    "created_at": "2026-11-16T01:30:00.004210Z",
    "updated_at": "2026-11-16T01:30:00.004210Z",
}
VALIDATION: Final[dict[str, Any]] = {
    "valid": False,
    "problems": [
        {
            "field": "steps.pages.depends_on[0]",
            "message": "names no step: 'indx'",
            "remedy": "did you mean 'index'?",
        }
    ],
    "steps": 3,
    "order": [],
}
RUN: Final[dict[str, Any]] = {
    "id": _RUN,
    "name": "shop",
    "workflow_id": _FLOW,
    "workflow_version": 1,
    "project_id": "default",
    "status": "completed",
    "parameters": {"url": "https://other.example/"},
    "steps": 3,
    "counts": {"completed": 2, "skipped": 1},
    "attempt": 1,
    "cause": "its steps have ended",
    "error": "",
    "idempotency_key": "shop-2026-11-16",
    "callback_url": None,
    "created_at": "2026-11-16T01:30:00.004210Z",
    "updated_at": "2026-11-16T01:30:02.118500Z",
    "ended_at": "2026-11-16T01:30:02.118500Z",
    "version": 4,
}
STEP_PAGE: Final[dict[str, Any]] = {
    "items": [
        {
            "name": "pages",
            "status": "completed",
            "task_type": "http_fetch",
            "depends_on": [{"step": "index", "on": "success"}],
            "for_each": True,
            "optional": False,
            "attempt": 1,
            "count": 3,
            "done": 3,
            "undone": 0,
            "task_id": _TASK,
            "started_at": "2026-11-16T01:30:00.410300Z",
            "ended_at": "2026-11-16T01:30:02.118500Z",
            "reason": "",
        }
    ],
    "next_cursor": None,
}
