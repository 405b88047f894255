"""Real requests and answers of the dashboard."""

from typing import Any, Final

_SHOWN_ONCE: Final = "6b1f0e8c2a4d4f0c9be1a3a7d9c0f5e27c1d93b8a6e4f20511c7d8e9fa0b1c2d"
SIGN_IN: Final[dict[str, Any]] = {"link": _SHOWN_ONCE}
SESSION: Final[dict[str, Any]] = {
    "name": "ann",
    "role": "operator",
    "projects": ["shop"],
    "expires_at": "2026-11-16T09:29:04.460000Z",
    "csrf": "0f343b0931126a20f133d67c2b018a3b5c3b1f9d0e2a4c68a1d2e3f405162738",
}
SESSION_LINK: Final[dict[str, Any]] = {
    "path": f"/open#{_SHOWN_ONCE}",
    "token": _SHOWN_ONCE,
    "expires_at": "2026-11-15T09:39:04.460000Z",
}
SERIES: Final[dict[str, Any]] = {
    "step_s": 5.0,
    "points": [
        {
            "at": "2026-11-15T09:31:40Z",
            "tasks": {"completed": 1204, "processing": 4, "pending": 3},
            "finished": 11,
            "failed": 0,
            "errors": {"network": 1},
            "pages": 412,
            "queue_age_s": 7.25,
        }
    ],
}
ATTENTION: Final[dict[str, Any]] = {
    "items": [
        {
            "severity": "high",
            "kind": "nothing_can_run",
            "subject": {"kind": "task", "id": "task-1m7f8kvnx0ph9v69ycjkfks14"},
            "message": "3 render tasks wait, and no node can run them: 4 without an executor for "
            "the task type",
            "remedy": "explain the task: it names what each node lacks; add such a node, or cancel",
            "count": 3,
            "values": {"task_type": "render"},
            "because": [{"code": "task_type", "values": {"n": 4}}],
        },
        {
            "severity": "medium",
            "kind": "dead_letters",
            "subject": {"kind": "dead-letters", "id": ""},
            "message": "2 tasks were given up",
            "remedy": "mend the cause and send them back, or discard them",
            "count": 2,
            "values": {},
            "because": [],
        },
    ]
}
TASK_TYPES: Final[dict[str, Any]] = {
    "items": [
        {
            "name": "sleep",
            "summary": "does nothing for a while; for trying out a fleet and for measuring what "
            "it costs.",
            "parameters": {
                "$ref": "#/$defs/SleepParameters",
                "$defs": {
                    "SleepParameters": {
                        "title": "SleepParameters",
                        "type": "object",
                        "properties": {"seconds": {"type": "number", "minimum": 0}},
                        "required": ["seconds"],
                        "additionalProperties": False,
                    }
                },
            },
            "nodes": 4,
        }
    ],
    "next_cursor": None,
}
