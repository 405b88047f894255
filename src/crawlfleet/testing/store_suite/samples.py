"""Rows to commit: small ones to begin with, and ones that use every field."""

from typing import Any, Final, TypeVar

import msgspec

from crawlfleet.features.schedules.model import (
    Firing,
    Origin,
    Outcome,
    Overlap,
    Rule,
    Schedule,
    ScheduleStatus,
    WaitingFiring,
    WorkflowCall,
    firing_id,
)
from crawlfleet.model.audit import AuditEntry
from crawlfleet.model.bundle import Bundle, BundleKind, BundleRef, BundleVersion
from crawlfleet.model.event import Event
from crawlfleet.model.key import ApiKey, Role
from crawlfleet.model.node import Health, Node, NodeStatus, Session
from crawlfleet.model.project import (
    Cluster,
    ClusterConfiguration,
    ClusterSettings,
    ClusterStatus,
    Project,
    ProjectStatus,
    configuration_id,
)
from crawlfleet.model.quality import (
    CountRange,
    Drift,
    Expectations,
    FieldDrift,
    FieldExpectation,
    OnDrift,
    ShareBand,
)
from crawlfleet.model.resources import Resources, Usage
from crawlfleet.model.secret import Secret
from crawlfleet.model.task import (
    Backoff,
    Callback,
    ErrorClass,
    Execution,
    ExecutionStatus,
    RetryPolicy,
    StepRef,
    Task,
    TaskError,
    TaskStatus,
)
from crawlfleet.ports.store import Claim

S = TypeVar("S", bound=msgspec.Struct)

NOW: Final = 1_763_193_600.123456
AWKWARD: Final = "ünïcödé 爬虫 😀 '\"\\\n\t%s ?1 :ids"
"""Text that a careless store quotes, cuts or interprets."""


def _make(struct: type[S], given: dict[str, Any], /, **usual: Any) -> S:
    return struct(**(usual | given))


def make_task(number: int = 1, **fields: Any) -> Task:
    return _make(
        Task,
        fields,
        id=f"task-{number:04}",
        project_id="default",
        task_type="web_crawl",
        created_at=NOW,
        updated_at=NOW,
    )


def make_execution(number: int = 1, **fields: Any) -> Execution:
    return _make(
        Execution,
        fields,
        id=f"exec-{number:04}",
        task_id="task-0001",
        node_id="node-0001",
        session_id="sess-0001",
        token=number,
        start_time=NOW,
    )


def make_node(number: int = 1, **fields: Any) -> Node:
    row_id, name = f"node-{number:04}", f"node {number}"
    return _make(Node, fields, id=row_id, name=name, created_at=NOW, updated_at=NOW)


def make_session(number: int = 1, **fields: Any) -> Session:
    return _make(
        Session,
        fields,
        id=f"sess-{number:04}",
        node_id="node-0001",
        started_at=NOW,
        deadline=NOW + 12,
        last_heartbeat=NOW,
    )


def make_key(number: int = 1, **fields: Any) -> ApiKey:
    row_id, name = f"key-{number:04}", f"key {number}"
    usual = {"role": Role.OPERATOR, "secret_hash": "abc", "created_at": NOW}
    return _make(ApiKey, fields, id=row_id, name=name, **usual)


def make_project(number: int = 1, **fields: Any) -> Project:
    return _make(Project, fields, id=f"proj-{number:04}", name="p", created_at=NOW, updated_at=NOW)


def make_cluster(number: int = 1, **fields: Any) -> Cluster:
    return _make(
        Cluster,
        fields,
        id=f"clus-{number:04}",
        project_id="default",
        name=f"cluster {number}",
        created_at=NOW,
        updated_at=NOW,
    )


def make_configuration(
    number: int = 1, cluster_id: str = "clus-0001", **fields: Any
) -> ClusterConfiguration:
    return _make(
        ClusterConfiguration,
        fields,
        id=configuration_id(cluster_id, number),
        cluster_id=cluster_id,
        number=number,
        settings=ClusterSettings(max_slots=number),
        created_at=NOW,
        cause="a test",
    )


def make_schedule(number: int = 1, **fields: Any) -> Schedule:
    return _make(
        Schedule,
        fields,
        id=f"sched-{number:04}",
        project_id="default",
        name=f"schedule-{number}",
        created_at=NOW,
        updated_at=NOW,
        rule=Rule(cron="30 2 * * *"),
        cursor=NOW,
    )


def make_firing(due_at: float = NOW + 60, schedule_id: str = "sched-0001", **fields: Any) -> Firing:
    return _make(
        Firing,
        fields,
        id=firing_id(schedule_id, 1, due_at),
        schedule_id=schedule_id,
        project_id="default",
        due_at=due_at,
        at=due_at,
        outcome=Outcome.STARTED,
        edition=1,
        task_id="task-0001",
    )


def make_bundle(number: int = 1, **fields: Any) -> Bundle:
    return _make(
        Bundle,
        fields,
        id=f"shop/bundle-{number:04}",
        project_id="shop",
        name=f"bundle-{number:04}",
        created_at=NOW,
        updated_at=NOW,
    )


def make_secret(number: int = 1, **fields: Any) -> Secret:
    return _make(
        Secret,
        fields,
        id=f"shop/SECRET_{number:04}",
        project_id="shop",
        name=f"SECRET_{number:04}",
        created_at=NOW,
        updated_at=NOW,
        cause="set by ann",
    )


def make_entry(number: int = 1, **fields: Any) -> AuditEntry:
    return _make(
        AuditEntry,
        fields,
        id=f"audit-{number:04}",
        at=NOW + number,
        actor="ann",
        actor_id="key-0001",
        role="operator",
        address="10.0.0.7",
        action="cancel_tasks",
    )


def make_event(subject: str = "task-0001", **fields: Any) -> Event:
    return _make(Event, fields, kind="task.pending", subject=subject, at=NOW, cause="a test")


def make_claim(holder: str = "task-0001", **fields: Any) -> Claim:
    usual = {"scope": "dedup:default", "key": "k", "at": NOW, "expires_at": NOW + 60}
    return _make(Claim, fields, holder=holder, **usual)


ERROR: Final = TaskError(error_class=ErrorClass.NETWORK, message=AWKWARD, details="line 1\nline 2")
AMOUNT: Final = Resources(cpu_cores=0.1, memory_mb=512.5, gpu=1, bandwidth_mbps=3, slots=2)

FULL_TASK: Final = make_task(
    step=StepRef(run_id="run-0001", step="fetch", attempt=2, index=9),
    cluster_id="clus-1",
    workflow_id="wf-1",
    parameters=msgspec.Raw(('{"u":"' + "爬虫 \\u0000" + '","n":1.10, "z":[]}').encode()),
    priority=9,
    min_resources={"cpu_cores": 0.1, "memory_mb": 100.0},
    capabilities={"javascript": True, "level": 2.5, "proxies": ["a", "b"], AWKWARD: {"x": [1]}},
    content_features={"language": "zh"},
    categories=("news", AWKWARD),
    node_type="browser",
    schedule_strategy="geo_location",
    target_region="eu",
    max_retries=7,
    retry_policy=RetryPolicy(
        initial_delay_s=0.5,
        on=(ErrorClass.NETWORK,),
        classes={ErrorClass.BLOCKED: Backoff(initial_delay_s=5.0)},
        max_total_s=3600.0,
    ),
    timeout_s=12.5,
    idempotency_key=AWKWARD,
    dedup_key="d",
    dedup_window_s=3600.0,
    parent_id="task-0000",
    shard=255,
    shards=256,
    bundle=BundleRef(name="quotes", number=3, digest="0" * 64),
    secrets=("SHOP_PASSWORD", "SHOP_KEY"),
    expectations=Expectations(
        items=CountRange(min=1),
        fields={AWKWARD: FieldExpectation(empty=0.5, pattern=AWKWARD)},
        drift=Drift(fields={"url": FieldDrift(changed=ShareBand(max=0.5))}),
        series="shop",
        on_drift=OnDrift.HOLD,
    ),
    target="shop.example",
    callback=Callback(url="https://flow.example/x?y=1", webhook_id="hook-0001"),
    status=TaskStatus.FAILED,
    token=2**62,
    not_before=NOW + 0.1,
    retry_count=3,
    loss_count=1,
    assigned_node="node-0001",
    assigned_at=NOW + 1,
    execution_id="exec-0001",
    started_at=NOW + 2,
    completed_at=NOW + 3,
    result=msgspec.Raw(b'{"success": false}'),
    error=ERROR,
    dead_reason=AWKWARD,
)
FULL_BUNDLE: Final = make_bundle(
    current=2,
    last=2**62,
    versions=(
        BundleVersion(
            number=2,
            digest="0" * 64,
            bytes=2**40,
            files=1,
            unpacked_bytes=2**41,
            kind=BundleKind.SCRAPY,
            created_at=NOW,
            cause=AWKWARD,
            note=AWKWARD,
        ),
    ),
)
FULL_EXECUTION: Final = make_execution(
    reserved=AMOUNT,
    allocation=Resources(cpu_cores=2),
    status=ExecutionStatus.FAILED,
    running_at=NOW + 1,
    end_time=NOW + 2,
    retry_count=2,
    error=ERROR,
    metrics={"pages_crawled": 3.0, "processing_time": 0.1},
)
FULL_NODE: Final = make_node(
    cluster_id="clus-1",
    description=AWKWARD,
    ip_address="2001:db8::1",
    port=65535,
    node_type="browser",
    region="cn",
    labels={"rack": "7"},
    capabilities={"javascript": True, "proxies": ["a"]},
    task_types=("web_crawl", "python"),
    resources=AMOUNT,
    status=NodeStatus.DRAINING,
    health=Health.DEGRADED,
    health_reason=AWKWARD,
    session_id="sess-0001",
    token_hash="0" * 64,
    old_token_hash="1" * 64,
    old_token_until=NOW + 0.1,
    token_due=True,
    revoked_at=NOW + 1,
    joined_by="join-0001",
)
FULL_SESSION: Final = make_session(
    usage=Usage(cpu_usage=0.5, memory_usage=0.25, gpu_usage=0.0, network_io=1e9, disk_io=3.5),
    load=0.75,
    ended_at=NOW + 5,
    end_cause=AWKWARD,
    timeout_s=4.5,
    beat=7,
    configuration_version=2,
)
FULL_KEY: Final = make_key(
    expires_at=NOW + 1,
    revoked_at=NOW + 2,
    role=Role.NODE,
    created_by=AWKWARD,
    project_id="shop",
    rotated_at=NOW + 0.1,
    old_secret_hash="0" * 64,
    old_expires_at=NOW + 3,
    last_used_at=NOW + 4,
    last_used_from="2001:db8::1",
    cluster_id="clus-1",
    max_uses=5,
    uses=2,
)
FULL_CLUSTER: Final = make_cluster(
    description=AWKWARD,
    configuration=ClusterSettings(
        default_strategy="bin_pack",
        heartbeat_interval_s=0.5,
        session_timeout_s=4.5,
        log_level="debug",
        max_slots=0,
    ),
    configuration_version=3,
    status=ClusterStatus.MAINTENANCE,
)
FULL_PROJECT: Final = make_project(description=AWKWARD, status=ProjectStatus.CLOSED)
FULL_FIRING: Final = make_firing(
    at=NOW + 61.5,
    outcome=Outcome.REFUSED,
    origin=Origin.BACKFILL,
    edition=7,
    task_id=None,
    count=2**40,
    first_due_at=NOW - 0.25,
    run_id="run-0001",
    reason=AWKWARD,
)
FULL_SCHEDULE: Final = make_schedule(
    project_id="shop",
    name="nightly",
    description=AWKWARD,
    status=ScheduleStatus.PAUSED,
    cause=AWKWARD,
    rule=Rule(
        every_s=1.5,
        time_zone="Europe/Berlin",
        start_at=NOW - 0.5,
        end_at=NOW + 1e9,
        coalesce=False,
        misfire_grace_s=0.5,
        max_instances=1000,
        overlap=Overlap.QUEUE,
        jitter_s=0.25,
    ),
    task=msgspec.Raw(('{"task_type": "work", "parameters": {"u":"爬虫","n":1.10}}').encode()),
    workflow=WorkflowCall(
        id="flow-0001", name="shop", number=2, parameters={"名": [AWKWARD, 1.5, None]}
    ),
    edition=3,
    cursor=NOW + 0.125,
    waiting=WaitingFiring(due_at=NOW + 0.5, edition=2, count=5, first_due_at=NOW),
    running=("task-0001", "run-0002"),
    last=FULL_FIRING,
)
FULL_EVENT: Final = make_event(
    cause=AWKWARD,
    from_state="pending",
    to_state="assigned",
    details={"node": "n", "n": [1]},
    project_id="shop",
)
