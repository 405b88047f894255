"""/api/v1/usage"""

from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.api.examples import quotas as examples
from crawlfleet.api.http.parameters import invalid, seconds_of
from crawlfleet.api.http.routing import READERS, Call, Example, Route, Scope
from crawlfleet.control.this_master import ThisMaster
from crawlfleet.control.usage import UsageMeter
from crawlfleet.core.usage import in_all
from crawlfleet.model.usage import DAY_S, HOUR_S, UsageHour
from crawlfleet.views.fields import moment
from crawlfleet.views.quotas import UsageAmounts, UsageItem, UsageReport, UsageStep

STEP_S: Final = {UsageStep.HOUR: HOUR_S, UsageStep.DAY: DAY_S}
MAX_SPAN_S: Final = {UsageStep.HOUR: 31 * DAY_S, UsageStep.DAY: 400 * DAY_S}
USUAL_S: Final = {UsageStep.HOUR: DAY_S, UsageStep.DAY: 30 * DAY_S}
_AMOUNTS: Final = UsageAmounts.__struct_fields__


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Period, project and step of a usage report."""

    project_id: str | None = None
    """Report only usage of this project."""
    since: datetime | None = None
    """Beginning of the report, rounded down to a whole step; when not set, 30 days ago, or one day
    ago with `step=hour`."""
    until: datetime | None = None
    """End of the report; now when not set."""
    step: UsageStep = UsageStep.DAY
    """Length of a step: `day` (UTC) or `hour`."""


async def report(call: Call) -> UsageReport:
    query: UsageQuery = call.query
    step_s = STEP_S[query.step]
    until = call.service(ThisMaster).now() if query.until is None else seconds_of(query.until)
    since = until - USUAL_S[query.step] if query.since is None else seconds_of(query.since)
    begin = max(since, 0.0) // step_s * step_s
    if begin >= until:
        raise invalid("since", "is not before until", "let the range begin earlier")
    longest_s = MAX_SPAN_S[query.step]
    if until - begin > longest_s + step_s:
        raise invalid(
            "since",
            f"is more than {longest_s / DAY_S:g} days before until, by the {query.step}",
            "ask in several ranges, or by the day",
        )
    own, wanted = call.project_id, query.project_id
    rows: list[UsageHour] = []
    if own is None or wanted in (None, own):
        rows = await call.service(UsageMeter).report(
            since=begin, until=until, step_s=step_s, project_id=wanted if own is None else own
        )
    return UsageReport(
        step=query.step,
        since=moment(begin),
        until=moment(until),
        items=[_item(row) for row in rows],
        total=UsageAmounts(**in_all(rows)),
    )


def _item(row: UsageHour) -> UsageItem:
    return UsageItem(
        project_id=row.project_id,
        at=moment(row.at),
        peak_waiting=row.peak_waiting,
        peak_running=row.peak_running,
        storage_bytes=row.storage_bytes,
        **{name: getattr(row, name) for name in _AMOUNTS},
    )


ROUTES: Final = (
    Route(
        name="get_usage",
        method="GET",
        path="/api/v1/usage",
        roles=READERS,
        scope=Scope.OWN,
        handler=report,
        client='usage("shop", since=since, step="hour")',
        command="quotas usage",
        summary="What projects have used, by day or by hour",
        details="At most 400 days by the day, 31 days by the hour. `since` is rounded down to "
        "its step; when it is not set, it is 30 days ago (by the hour, a day ago). A key that "
        "is bound to a project sees that one.\n\n"
        "`items` are in order of `at`, when the step begins, then of `project_id`; steps in "
        "which a project used nothing are left out: fill them with zeros in a chart. Tasks that "
        "were `submitted`, `completed`, `failed` (also out of time) and `cancelled`, each shard "
        "as one; `attempts` that ended; `cpu_s` and `bytes` as far as executors tell; `run_s` "
        "from their beginning to their end; `pages` fetched, told by executions when they end; "
        "`peak_waiting` and `peak_running`, looked at every ten seconds; `storage_bytes` at the "
        "end of the step, `null` while it was never measured. `total` adds up what can be "
        "added. Usage is counted in the commits that change tasks, and kept for "
        "`retention.usage_days` ([guide](../guides/quotas.md#usage-over-time)).",
        query=UsageQuery,
        response=UsageReport,
        example=Example(response=examples.USAGE),
    ),
)
