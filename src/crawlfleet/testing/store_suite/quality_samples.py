"""Measured runs to commit."""

from typing import Any, Final

from crawlfleet.model.quality import (
    Check,
    CheckOutcome,
    Decision,
    FieldProfile,
    MeasuredRun,
    OnDrift,
    Profile,
    Verdict,
    series_key,
)
from crawlfleet.testing.store_suite.samples import AWKWARD, NOW


def make_measured(number: int = 1, **fields: Any) -> MeasuredRun:
    usual: dict[str, Any] = {
        "id": f"meas-{number:04}",
        "series": series_key("default", "shop"),
        "project_id": "default",
        "task_id": f"task-{number:04}",
        "at": NOW,
        "verdict": Verdict.OK,
    }
    return MeasuredRun(**(usual | fields))


FULL_MEASURED: Final = make_measured(
    1,
    series=series_key("shop", "workflow.prices.crawl.3"),
    project_id="shop",
    at=NOW + 0.25,
    verdict=Verdict.FAILED,
    decision=Decision.REJECTED,
    on_drift=OnDrift.HOLD,
    checks=(
        Check(
            name="fields.price.empty",
            outcome=CheckOutcome.BROKEN,
            words=AWKWARD,
            measured=0.5,
            min=0.0,
            max=0.1,
        ),
        Check(name="items", outcome=CheckOutcome.UNKNOWN, words="?"),
    ),
    profile=Profile(
        items=2**40,
        pages=3,
        errors=0.125,
        fields={
            AWKWARD: FieldProfile(
                present=3,
                filled=2,
                kinds={"text": 1, "number": 1},
                numbers=1,
                low=-1.5,
                high=1e9,
                mean=0.1,
                fitting=1,
                distinct=2,
                sketch="AAAAAAAAAAE=",
            ),
            "": FieldProfile(),
        },
        trouble=AWKWARD,
    ),
    run_id="run-0001",
    step="crawl",
    index=3,
    decided_by=AWKWARD,
    decided_at=NOW + 1.5,
    reason=AWKWARD,
)
