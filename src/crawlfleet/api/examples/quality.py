"""Real requests and answers about quality."""

from typing import Any, Final

DECISION: Final[dict[str, Any]] = {"reason": "the shop closed its second catalogue"}
RUN: Final[dict[str, Any]] = {
    "id": "meas-01jd3b4w2q7cf6v8m2kxh5n0tz",
    "task_id": "task-01jd3b4v9e2m5r8y1ck7h4p6sa",
    "project_id": "default",
    "series": "schedule.shop-nightly",
    "at": "2026-11-16T03:12:07Z",
    "verdict": "drifted",
    "summary": "items: 412 where 1,204 are usual; expected: at least 843 and at most 1,565",
    "on_drift": "hold",
    "decision": "held",
    "decided_by": "",
    "decided_at": None,
    "reason": "",
    "items": 412,
    "pages": 431,
    "errors": 0.0,
    "fields": {
        "price": {
            "present": 412,
            "filled": 409,
            "kinds": {"number": 409},
            "distinct": 203,
            "low": 1.99,
            "high": 899.0,
            "mean": 74.12,
            "fitting": 409,
        }
    },
    "checks": [
        {
            "name": "fields.price.empty",
            "outcome": "met",
            "words": "price is empty in 0.7 % of the items; expected: at most 5 %",
            "measured": 0.0072815533980582,
            "max": 0.05,
        },
        {
            "name": "drift.items",
            "outcome": "broken",
            "words": "items: 412 where 1,204 are usual; expected: at least 843 and at most 1,565",
            "measured": 412.0,
            "min": 842.8,
            "max": 1565.2,
        },
    ],
    "run_id": "",
    "step": "",
    "version": 1,
}
RUN_PAGE: Final[dict[str, Any]] = {"items": [RUN], "next_cursor": None}
SERIES_PAGE: Final[dict[str, Any]] = {
    "items": [{"series": RUN["series"], "project_id": "default", "newest": RUN}],
    "next_cursor": None,
}
