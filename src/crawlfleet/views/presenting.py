"""From the model to what the API shows."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec

from crawlfleet.control.tasks.queries import NodeState
from crawlfleet.core.access.keys import status_of
from crawlfleet.core.placement.regions import locate
from crawlfleet.features.webhooks.rules import callbacks
from crawlfleet.model.audit import AuditEntry
from crawlfleet.model.event import Event
from crawlfleet.model.key import ApiKey
from crawlfleet.model.log import LogLine, Progress
from crawlfleet.model.node_sample import NodeSample
from crawlfleet.model.task import Execution, RetryPolicy, Shard, Task
from crawlfleet.views.access import JoinTokenView, KeyView
from crawlfleet.views.audit_views import AuditView
from crawlfleet.views.tasks import (
    ConditionView,
    EventView,
    ExecutionView,
    Location,
    LogLineView,
    NodeSampleView,
    NodeView,
    ProgressView,
    TaskReceipt,
    TaskView,
)

MOST_BRIEF_BYTES: Final = 2000
"""Of parameters in a brief list."""


def instant(at: float | None) -> datetime | None:
    """An instant for people and other programs."""
    return None if at is None else datetime.fromtimestamp(at, UTC)


def moment(at: float) -> datetime:
    """The same for one that is always known."""
    return datetime.fromtimestamp(at, UTC)


def present_task(
    task: Task, progress: Progress | None = None, shards: Sequence[Shard] = ()
) -> TaskView:
    return TaskView(
        id=task.id,
        project_id=task.project_id,
        cluster_id=task.cluster_id,
        task_type=task.task_type,
        parameters=task.parameters,
        priority=task.priority,
        status=str(task.status),
        created_at=moment(task.created_at),
        updated_at=moment(task.updated_at),
        retry_count=task.retry_count,
        max_retries=task.max_retries,
        workflow_id=task.workflow_id,
        step=task.step,
        min_resources=task.min_resources,
        capabilities=task.capabilities,
        node_type=task.node_type,
        schedule_strategy=task.schedule_strategy,
        target_region=task.target_region,
        content_features=task.content_features,
        categories=task.categories,
        timeout=task.timeout_s,
        deadline=instant(task.deadline),
        retry_policy=None if task.retry_policy == RetryPolicy() else task.retry_policy,
        idempotency_key=task.idempotency_key,
        dedup_key=task.dedup_key,
        loss_count=task.loss_count,
        not_before=None if task.is_held else instant(task.not_before or None),
        assigned_node=task.assigned_node,
        assigned_at=instant(task.assigned_at),
        started_at=instant(task.started_at),
        completed_at=instant(task.completed_at),
        result=task.result,
        error=task.error,
        dead_reason=task.dead_reason,
        progress=present_progress(progress),
        parent_id=task.parent_id,
        shard=task.shard,
        shards=task.shards,
        shard_states=dict(Counter(str(each.status) for each in shards)) if shards else {},
        bundle=None if task.bundle is None else str(task.bundle),
        secrets=task.secrets,
        expectations=task.expectations,
        callback_url=callbacks.shown(task.callback),
        target=task.target,
        version=task.version,
    )


def present_brief(task: Task) -> TaskView:
    """A task for a long list: without its result, and without parameters that are long."""
    parameters = task.parameters if len(bytes(task.parameters)) <= MOST_BRIEF_BYTES else None
    return msgspec.structs.replace(present_task(task), parameters=parameters, result=None)


def present_receipt(task: Task, *, deduplicated: bool = False) -> TaskReceipt:
    return TaskReceipt(
        id=task.id,
        status=str(task.status),
        created_at=moment(task.created_at),
        priority=task.priority,
        deduplicated=int(deduplicated),
        shards=task.shards,
    )


def present_progress(progress: Progress | None) -> ProgressView | None:
    if progress is None:
        return None
    return ProgressView(done=progress.done, total=progress.total, at=moment(progress.at))


def present_line(line: LogLine) -> LogLineView:
    return LogLineView(
        seq=line.seq,
        at=moment(line.at),
        level=str(line.level),
        message=line.message,
        fields=line.fields,
    )


def present_sample(sample: NodeSample) -> NodeSampleView:
    return NodeSampleView(
        at=moment(sample.at),
        count=sample.count,
        cpu_usage=sample.cpu_usage,
        memory_usage=sample.memory_usage,
        gpu_usage=sample.gpu_usage,
        network_io=sample.network_io,
        disk_io=sample.disk_io,
        load=sample.load,
        active_tasks=sample.active_tasks,
        ended=sample.ended,
        errors=sample.errors,
        latency_s=sample.latency_s,
        disk_usage=sample.disk_usage,
        wait_s=sample.wait_s,
    )


def present_execution(execution: Execution, progress: Progress | None = None) -> ExecutionView:
    return ExecutionView(
        id=execution.id,
        task_id=execution.task_id,
        node_id=execution.node_id,
        token=execution.token,
        status=str(execution.status),
        start_time=moment(execution.start_time),
        running_at=instant(execution.running_at),
        end_time=instant(execution.end_time),
        retry_count=execution.retry_count,
        allocation=execution.allocation,
        error=execution.error,
        metrics=execution.metrics,
        progress=present_progress(progress),
    )


def present_node(state: NodeState) -> NodeView:
    node, session = state.node, state.session
    return NodeView(
        id=node.id,
        name=node.name,
        description=node.description,
        cluster_id=node.cluster_id,
        ip_address=node.ip_address,
        port=node.port,
        node_type=node.node_type,
        region=node.region,
        labels=node.labels,
        capabilities=node.capabilities,
        task_types=node.task_types,
        resources=node.resources,
        status=str(node.status),
        health=str(node.health),
        health_reason=node.health_reason,
        health_at=instant(node.health_at),
        conditions=tuple(
            ConditionView(
                kind=each.kind,
                health=str(each.health),
                reason=each.reason,
                since=moment(each.since),
                value=each.value,
                limit=each.limit,
            )
            for each in node.conditions
        ),
        usage=msgspec.structs.asdict(session.usage) if session else {},
        load=session.load if session else 0.0,
        active_tasks=state.active_tasks,
        last_heartbeat=instant(session.last_heartbeat) if session else None,
        created_at=moment(node.created_at),
        updated_at=moment(node.updated_at),
        version=node.version,
        configuration_version=session.configuration_version if session else None,
        location=_location(node.region),
        probe=node.probe,
        drain_until=instant(node.drain_until),
    )


@lru_cache(maxsize=1000)
def _location(region: str | None) -> Location | None:
    place = locate(region) if region else None
    if place is None:
        return None
    return Location(latitude=place.latitude, longitude=place.longitude)


def present_event(event: Event) -> EventView:
    return EventView(
        seq=event.seq,
        kind=event.kind,
        subject=event.subject,
        at=moment(event.at),
        cause=event.cause,
        from_state=event.from_state,
        to_state=event.to_state,
        details=event.details,
    )


def present_key(key: ApiKey, *, now: float) -> KeyView:
    is_old_good = key.old_secret_hash and key.old_expires_at > now
    return KeyView(
        id=key.id,
        name=key.name,
        role=str(key.role),
        status=status_of(key, now=now),
        created_at=moment(key.created_at),
        created_by=key.created_by,
        project_id=key.project_id,
        expires_at=instant(key.expires_at),
        rotated_at=instant(key.rotated_at),
        old_valid_until=instant(key.old_expires_at) if is_old_good else None,
        revoked_at=instant(key.revoked_at),
        last_used_at=instant(key.last_used_at),
        last_used_from=key.last_used_from,
    )


def present_join_token(key: ApiKey, *, now: float) -> JoinTokenView:
    return JoinTokenView(
        id=key.id,
        name=key.name,
        status=status_of(key, now=now),
        created_at=moment(key.created_at),
        created_by=key.created_by,
        cluster_id=key.cluster_id,
        uses=key.uses,
        max_uses=key.max_uses,
        expires_at=instant(key.expires_at),
        revoked_at=instant(key.revoked_at),
        last_used_at=instant(key.last_used_at),
        last_used_from=key.last_used_from,
    )


def present_entry(entry: AuditEntry) -> AuditView:
    return AuditView(
        id=entry.id,
        at=moment(entry.at),
        actor=entry.actor,
        actor_id=entry.actor_id,
        role=entry.role,
        action=entry.action,
        count=entry.count,
        subjects=entry.subjects,
        address=entry.address,
        project_id=entry.project_id,
    )
