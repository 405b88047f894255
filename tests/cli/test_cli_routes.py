"""Every route can be used from the command line, or there is a reason why not."""

from typing import Any

import pytest
from typer.main import get_command

from crawlfleet.api.app import ROUTES
from crawlfleet.cli.program import create_app

pytestmark = pytest.mark.slow

COMMANDS = {
    "create_task": "submit",
    "create_tasks": "submit",
    "list_tasks": "tasks list",
    "get_task": "tasks show",
    "list_task_executions": "tasks executions",
    "list_task_events": "tasks events",
    "explain_task": "explain",
    "clone_task": "tasks clone",
    "cancel_task": "tasks cancel",
    "pause_task": "tasks pause",
    "resume_task": "tasks resume",
    "retry_task": "tasks retry",
    "reprioritise_task": "tasks priority",
    "cancel_tasks": "tasks cancel",
    "pause_tasks": "tasks pause",
    "resume_tasks": "tasks resume",
    "retry_tasks": "tasks retry",
    "reprioritise_tasks": "tasks priority",
    "list_quotas": "quotas list",
    "get_quotas": "quotas show",
    "change_quotas": "quotas set",
    "get_usage": "quotas usage",
    "list_series": "quality list",
    "list_measured_runs": "quality show",
    "list_task_quality": "quality task",
    "accept_task": "quality accept",
    "reject_task": "quality reject",
    "list_hosts": "hosts",
    "list_breakers": "breakers list",
    "close_breaker": "breakers close",
    "list_dead_letters": "dead-letters list",
    "requeue_dead_letters": "dead-letters requeue",
    "discard_dead_letters": "dead-letters discard",
    "list_crawls": "crawls list",
    "get_crawl": "crawls show",
    "get_crawl_work": "crawls work",
    "list_crawl_items": "crawls items",
    "get_crawl_output": "crawls download",
    "explain_crawl_url": "crawls why",
    "pause_crawl": "crawls pause",
    "resume_crawl": "crawls resume",
    "stop_crawl": "crawls stop",
    "list_workflows": "workflows list",
    "save_workflow": "workflows save",
    "validate_workflow": "workflows validate",
    "submit_workflow": "workflows submit",
    "get_workflow_schema": "workflows schema",
    "get_workflow": "workflows show",
    "get_workflow_document": "workflows show",
    "list_workflow_versions": "workflows versions",
    "start_workflow": "workflows start",
    "list_runs": "workflows runs",
    "get_run": "workflows show",
    "list_run_steps": "workflows show",
    "cancel_run": "workflows cancel",
    "rerun_run": "workflows rerun",
    "list_schedules": "schedules list",
    "create_schedule": "schedules create",
    "preview_schedule": "schedules next",
    "get_schedule": "schedules show",
    "change_schedule": "schedules change",
    "pause_schedule": "schedules pause",
    "resume_schedule": "schedules resume",
    "run_schedule": "schedules run",
    "backfill_schedule": "schedules backfill",
    "remove_schedule": "schedules remove",
    "list_schedule_next": "schedules next",
    "list_schedule_history": "schedules history",
    "explain_schedule": "schedules explain",
    "list_webhooks": "webhooks list",
    "create_webhook": "webhooks create",
    "get_webhook": "webhooks show",
    "change_webhook": "webhooks change",
    "pause_webhook": "webhooks pause",
    "resume_webhook": "webhooks resume",
    "rotate_webhook": "webhooks rotate",
    "test_webhook": "webhooks test",
    "resend_deliveries": "webhooks resend",
    "remove_webhook": "webhooks remove",
    "list_deliveries": "webhooks deliveries",
    "get_delivery": "webhooks deliveries",
    "list_alerts": "alerts list",
    "create_alert": "alerts create",
    "get_alert": "alerts show",
    "change_alert": "alerts change",
    "silence_alert": "alerts silence",
    "unsilence_alert": "alerts unsilence",
    "remove_alert": "alerts remove",
    "list_nodes": "nodes list",
    "get_node": "nodes show",
    "drain_node": "nodes drain",
    "remove_node": "nodes remove",
    "maintain_node": "nodes maintenance",
    "resume_node": "nodes resume",
    "unregister_node": "nodes unregister",
    "change_node": "nodes label",
    "get_node_history": "nodes history",
    "list_execution_logs": "logs",
    "list_task_logs": "logs",
    "get_execution": "tasks executions",
    "list_projects": "projects list",
    "create_project": "projects create",
    "get_project": "projects show",
    "change_project": "projects change",
    "close_project": "projects close",
    "reopen_project": "projects reopen",
    "list_bundles": "bundles list",
    "deploy_bundle": "deploy",
    "get_bundle": "bundles show",
    "roll_back_bundle": "bundles rollback",
    "remove_bundle": "bundles remove",
    "list_secrets": "secrets list",
    "set_secret": "secrets set",
    "remove_secret": "secrets delete",
    "list_clusters": "clusters list",
    "create_cluster": "clusters create",
    "get_cluster": "clusters show",
    "change_cluster": "clusters change",
    "close_cluster": "clusters close",
    "reopen_cluster": "clusters reopen",
    "roll_back_cluster": "clusters rollback",
    "list_cluster_versions": "clusters versions",
    "get_cluster_health": "clusters health",
    "list_keys": "keys list",
    "create_key": "keys create",
    "rotate_key": "keys rotate",
    "revoke_key": "keys revoke",
    "create_session_link": "open",
    "list_join_tokens": "join-tokens list",
    "create_join_token": "join-tokens create",
    "revoke_join_token": "join-tokens revoke",
    "rotate_node_token": "nodes rotate-token",
    "revoke_node": "nodes revoke",
    "list_audit": "audit",
    "list_settings": "config master",
    "list_events": "events",
    "get_status": "status",
    "get_statistics": "statistics",
    "list_attention": "attention",
}
REASONS = {
    "register_node": "said by `worker`",
    "heartbeat": "said by `worker`",
    "lease": "said by `worker`",
    "report": "said by `worker`",
    "note": "said by `worker`",
    "keep_segment": "said by `worker`",
    "ask_frontier": "said by `worker`",
    "inquire": "said by `worker`",
    "give_bundle": "said by `worker`",
    "give_secrets": "said by `worker`",
    "renew_node_token": "said by `worker`",
    "get_key": "`keys list` shows all that there is to a key",
    "open_session": "for a browser; a command shows its key",
    "get_session": "for a browser; `keys list` says what keys are",
    "close_session": "for a browser; `keys revoke` ends all sessions of a key",
    "get_series": "for charts; `statistics` says how the fleet does",
    "list_task_types": "for forms; the guide to executors says more",
    "get_liveness": "for whatever supervises the process; `doctor` asks the master more",
    "get_readiness": "for a load balancer; `doctor` asks the master more",
    "get_metrics": "for Prometheus; `statistics` is for people",
    "get_openapi": "for generators of clients",
    "get_reference": "for a browser",
}


REASONS |= {
    route.name: "for those who know that API alone; `nodes` and `tasks` do the same"
    for route in ROUTES
    if route.path.startswith("/api/distribution/")
}


def exists(command: Any, words: list[str]) -> bool:
    for word in words:
        command = getattr(command, "commands", {}).get(word)
    return command is not None and not getattr(command, "commands", {})


def test_every_route_has_a_command_or_a_reason() -> None:
    assert {route.name for route in ROUTES} == {*COMMANDS, *REASONS}
    assert not {*COMMANDS} & {*REASONS}
    assert all(REASONS.values())


@pytest.mark.parametrize("path", sorted({*COMMANDS.values()}))
def test_the_command_is_there(path: str) -> None:
    assert exists(get_command(create_app()), path.split())
