"""What is written together: the unit of every decision that changes the store."""

import math
from typing import Final

import msgspec

from crawlfleet.features.alerts.model import AlertRule
from crawlfleet.features.schedules.model import Firing, Schedule
from crawlfleet.features.webhooks.model import Delivery, Webhook
from crawlfleet.features.workflows.model import Run, RunStep, Workflow, WorkflowVersion
from crawlfleet.model.audit import MOST_SUBJECTS, AuditEntry
from crawlfleet.model.bundle import Bundle
from crawlfleet.model.event import Event
from crawlfleet.model.key import ApiKey
from crawlfleet.model.node import Node, Session
from crawlfleet.model.project import Cluster, ClusterConfiguration, Project
from crawlfleet.model.quality import MeasuredRun
from crawlfleet.model.secret import Secret
from crawlfleet.model.task import Execution, Task
from crawlfleet.model.usage import UsageHour

NEVER: Final = math.inf
"""The instant that does not come: a claim that lasts as long as its holder."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A name that only one task may hold until it expires (idempotency and dedup keys).

    Claiming fails while another holder's claim is alive at `at`; the holder may move its expiry.
    """

    scope: str
    key: str
    holder: str
    at: float
    expires_at: float
    digest: str = ""
    """What the holder was made from, to tell a repeated request from a different one."""


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Rows that become true together or not at all."""

    projects: tuple[Project, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    nodes: tuple[Node, ...] = ()
    sessions: tuple[Session, ...] = ()
    tasks: tuple[Task, ...] = ()
    executions: tuple[Execution, ...] = ()
    keys: tuple[ApiKey, ...] = ()
    configurations: tuple[ClusterConfiguration, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    firings: tuple[Firing, ...] = ()
    bundles: tuple[Bundle, ...] = ()
    secrets: tuple[Secret, ...] = ()
    workflows: tuple[Workflow, ...] = ()
    workflow_versions: tuple[WorkflowVersion, ...] = ()
    runs: tuple[Run, ...] = ()
    run_steps: tuple[RunStep, ...] = ()
    webhooks: tuple[Webhook, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    alert_rules: tuple[AlertRule, ...] = ()
    measured_runs: tuple[MeasuredRun, ...] = ()
    claims: tuple[Claim, ...] = ()
    events: tuple[Event, ...] = ()
    usage: tuple[UsageHour, ...] = ()
    """What it adds to what projects have used; no two for the same project and hour."""
    audit: AuditEntry | None = None
    """On whose behalf. What a commit makes under one entry's id is added up in one row of the audit
    log, which begins with this entry's own numbers and replaces what an earlier commit wrote."""
    epoch: int | None = None
    """Refused unless this is the store's present leader epoch (dispatch and timers set it)."""
    under: str | None = None
    """Refused unless this node session has not ended (assignments and reports set it)."""
    usual: bool = False
    """Whether its rows are tasks and executions alone that go their usual way: made with what is in
    `TASK_BLANKS` and `EXECUTION_BLANKS` not set, or changed in what `TASK_STEPS` and
    `EXECUTION_STEPS` name for their new state, and in nothing else. A store may write no more."""


class Signed:
    """Adds up what the changes of a commit that were made come to in the audit log."""

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[str, tuple[AuditEntry, list[str], list[int]]] = {}

    def take(self, change: Change) -> None:
        """A change that was made."""
        entry = change.audit
        if entry is None:
            return
        found = self._sums.get(entry.id)
        if found is None:
            found = self._sums[entry.id] = entry, [*entry.subjects], [entry.count]
        for rows in (
            change.schedules,
            change.runs,
            change.workflows,
            change.tasks,
            change.nodes,
            change.keys,
            change.clusters,
            change.bundles,
            change.secrets,
            change.projects,
            change.webhooks,
            change.alert_rules,
            change.deliveries,
        ):
            if rows:
                found[2][0] += len(rows)
                if len(found[1]) < MOST_SUBJECTS:
                    found[1].extend(row.id for row in rows)
                return
        # What no row tells: something was ordered of what runs elsewhere, or said of a task.
        found[2][0] += len(change.events)
        if len(found[1]) < MOST_SUBJECTS:
            found[1].extend(event.subject for event in change.events)

    def entries(self) -> list[AuditEntry]:
        """The entries as they are after the commit."""
        return [
            msgspec.structs.replace(entry, subjects=tuple(subjects[:MOST_SUBJECTS]), count=count)
            for entry, subjects, (count,) in self._sums.values()
        ]
