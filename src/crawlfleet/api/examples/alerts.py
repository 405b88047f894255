"""Real requests and answers about alerts."""

from typing import Any, Final

ALERT_REQUEST: Final[dict[str, Any]] = {
    "name": "shop-blocked",
    "source": "events",
    "project_id": "shop",
    "event": "task.failed",
    "above": 10,
    "window_s": 900,
    "clear_s": 300,
    "severity": "critical",
    "description": "the shop does not let us in",
}
ALERT_PATCH: Final[dict[str, Any]] = {"above": 1800, "clear_at": 900, "repeat_s": 3600}
SILENCE: Final[dict[str, Any]] = {
    "for_s": 7200,
    "subject": "node-1m7f8kvnq3d8c5r2t9w6y4z1b",
    "reason": "its rack is being moved",
}
UNSILENCE: Final[dict[str, Any]] = {"subject": "node-1m7f8kvnq3d8c5r2t9w6y4z1b"}
ALERT: Final[dict[str, Any]] = {
    "id": "alert-node-lost",
    "name": "node-lost",
    "is_built_in": True,
    "is_on": True,
    "status": "firing",
    "fired_at": "2026-11-15T09:40:10.450000Z",
    "told_at": "2026-11-15T09:40:20.461000Z",
    "summary": "node-lost: 1 nodes that fell silent (more than 0): node-1m7f8kvnq3d8c5r2t9w6y4z1b",
    "value": 1.0,
    "subjects": ["node-1m7f8kvnq3d8c5r2t9w6y4z1b"],
    "count": 1,
    "source": "nodes_lost",
    "project_id": None,
    "above": 0.0,
    "below": None,
    "clear_at": None,
    "for_s": 0.0,
    "clear_s": 60.0,
    "window_s": 300.0,
    "event": "",
    "least": 0,
    "severity": "critical",
    "group_s": 10.0,
    "repeat_s": 14400.0,
    "description": "a node fell silent; its work went back into the queue",
    "cause": "built in",
    "silences": [],
    "version": 2,
}
ALERTS: Final[dict[str, Any]] = {"items": [ALERT], "next_cursor": None}
