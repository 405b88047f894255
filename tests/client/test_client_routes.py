"""The client has a method for every route that is not spoken by nodes, with the route's answer."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from crawlfleet.api.app import ROUTES
from crawlfleet.api.http.routing import Route
from crawlfleet.client import Client
from crawlfleet.model.key import Role

NOW = datetime(2026, 11, 15, tzinfo=UTC)
Use = Callable[[Client], Awaitable[Any]]


async def first(things: Any) -> Any:
    async for thing in things:
        return thing
    return None


CALLS: dict[str, Use] = {
    "create_task": lambda fleet: fleet.submit("sleep"),
    "create_tasks": lambda fleet: fleet.submit_batch([{"task_type": "sleep"}]),
    "list_tasks": lambda fleet: first(fleet.tasks(status="failed")),
    "get_task": lambda fleet: fleet.task("x"),
    "list_task_executions": lambda fleet: fleet.executions("x"),
    "list_task_events": lambda fleet: fleet.events("x"),
    "explain_task": lambda fleet: fleet.explain("x"),
    "clone_task": lambda fleet: fleet.clone("x"),
    "cancel_task": lambda fleet: fleet.act("x", "cancel"),
    "pause_task": lambda fleet: fleet.act("x", "pause"),
    "resume_task": lambda fleet: fleet.act("x", "resume"),
    "retry_task": lambda fleet: fleet.act("x", "retry"),
    "reprioritise_task": lambda fleet: fleet.reprioritise("x", 9),
    "cancel_tasks": lambda fleet: fleet.act_on("cancel", ["x"]),
    "pause_tasks": lambda fleet: fleet.act_on("pause", ["x"]),
    "resume_tasks": lambda fleet: fleet.act_on("resume", status=["paused"]),
    "retry_tasks": lambda fleet: fleet.act_on("retry", dead=True),
    "reprioritise_tasks": lambda fleet: fleet.act_on("reprioritise", ["x"], priority=9),
    "list_dead_letters": lambda fleet: first(fleet.dead_letters(error_class="network")),
    "requeue_dead_letters": lambda fleet: fleet.requeue_dead_letters(project_id="shop"),
    "discard_dead_letters": lambda fleet: fleet.discard_dead_letters(["x"]),
    "list_crawls": lambda fleet: first(fleet.crawls(status="processing")),
    "get_crawl": lambda fleet: fleet.crawl("x"),
    "get_crawl_work": lambda fleet: fleet.crawl_work("x"),
    "list_crawl_items": lambda fleet: first(fleet.crawl_items("x", kind="products")),
    "get_crawl_output": lambda fleet: first(fleet.download_crawl("x", format="csv")),
    "explain_crawl_url": lambda fleet: fleet.explain_url("x", "https://shop.example/"),
    "list_quotas": lambda fleet: first(fleet.quotas()),
    "get_quotas": lambda fleet: fleet.project_quotas("shop"),
    "get_usage": lambda fleet: fleet.usage("shop", since=NOW, step="hour"),
    "change_quotas": lambda fleet: fleet.set_quotas("shop", running=3),
    "list_series": lambda fleet: first(fleet.quality(project_id="shop")),
    "list_measured_runs": lambda fleet: first(fleet.measured_runs("shop")),
    "list_task_quality": lambda fleet: fleet.task_quality("x"),
    "accept_task": lambda fleet: fleet.accept("x", reason="fine"),
    "reject_task": lambda fleet: fleet.reject("x"),
    "list_hosts": lambda fleet: fleet.hosts("shop"),
    "list_breakers": lambda fleet: fleet.breakers(all=True, project_id="shop"),
    "close_breaker": lambda fleet: fleet.close_breaker("shop.example", project_id="shop"),
    "pause_crawl": lambda fleet: fleet.steer("x", "pause"),
    "resume_crawl": lambda fleet: fleet.steer("x", "resume"),
    "stop_crawl": lambda fleet: fleet.steer("x", "stop"),
    "list_workflows": lambda fleet: first(fleet.workflows(name="shop")),
    "save_workflow": lambda fleet: fleet.save_workflow({}),
    "validate_workflow": lambda fleet: fleet.validate_workflow({}),
    "submit_workflow": lambda fleet: fleet.submit_workflow({}, {"a": 1}, idempotency_key="k"),
    "get_workflow_schema": lambda fleet: fleet.workflow_schema(),
    "get_workflow": lambda fleet: fleet.workflow("x"),
    "get_workflow_document": lambda fleet: fleet.workflow_document("x", 2),
    "list_workflow_versions": lambda fleet: first(fleet.workflow_versions("x")),
    "start_workflow": lambda fleet: fleet.start_workflow("x", {"a": 1}, version=2),
    "list_runs": lambda fleet: first(fleet.runs(status="failed")),
    "get_run": lambda fleet: fleet.workflow_run("x", wait_s=1.0),
    "list_run_steps": lambda fleet: first(fleet.run_steps("x")),
    "cancel_run": lambda fleet: fleet.cancel_run("x", if_version=2),
    "rerun_run": lambda fleet: fleet.rerun("x", ["a"]),
    "list_schedules": lambda fleet: first(fleet.schedules(name="nightly")),
    "create_schedule": lambda fleet: fleet.create_schedule("n", {}, cron="@daily", start_at=NOW),
    "preview_schedule": lambda fleet: fleet.preview_schedule(cron="@daily", after=NOW),
    "get_schedule": lambda fleet: fleet.schedule("x"),
    "change_schedule": lambda fleet: fleet.change_schedule("x", every_s=60, if_version=2),
    "pause_schedule": lambda fleet: fleet.pause_schedule("x"),
    "resume_schedule": lambda fleet: fleet.resume_schedule("x"),
    "run_schedule": lambda fleet: fleet.run_schedule("x", force=True),
    "backfill_schedule": lambda fleet: fleet.backfill_schedule("x", NOW, NOW, dry_run=True),
    "remove_schedule": lambda fleet: fleet.remove_schedule("x"),
    "list_schedule_next": lambda fleet: fleet.schedule_next("x", count=3),
    "list_schedule_history": lambda fleet: first(fleet.schedule_history("x")),
    "explain_schedule": lambda fleet: fleet.explain_schedule("x"),
    "list_webhooks": lambda fleet: first(fleet.webhooks(name="engine")),
    "create_webhook": lambda fleet: fleet.create_webhook("w", "https://x/", kinds=["task."]),
    "get_webhook": lambda fleet: fleet.webhook("x"),
    "change_webhook": lambda fleet: fleet.change_webhook("x", kinds=[], if_version=2),
    "pause_webhook": lambda fleet: fleet.pause_webhook("x"),
    "resume_webhook": lambda fleet: fleet.resume_webhook("x"),
    "rotate_webhook": lambda fleet: fleet.rotate_webhook("x", grace_s=60),
    "test_webhook": lambda fleet: fleet.test_webhook("x"),
    "resend_deliveries": lambda fleet: fleet.resend_deliveries("x", ["y"]),
    "remove_webhook": lambda fleet: fleet.remove_webhook("x"),
    "list_deliveries": lambda fleet: first(fleet.deliveries("x", status="dead")),
    "get_delivery": lambda fleet: fleet.delivery("x", "y"),
    "list_alerts": lambda fleet: fleet.alerts(status="firing"),
    "create_alert": lambda fleet: fleet.create_alert("a", "nodes_online", below=3),
    "get_alert": lambda fleet: fleet.alert("x"),
    "change_alert": lambda fleet: fleet.change_alert("x", above=1.0, if_version=2),
    "silence_alert": lambda fleet: fleet.silence_alert("x", 60, subject="node-1"),
    "unsilence_alert": lambda fleet: fleet.unsilence_alert("x"),
    "remove_alert": lambda fleet: fleet.remove_alert("x"),
    "list_nodes": lambda fleet: fleet.nodes(status="online"),
    "get_node": lambda fleet: fleet.node("x"),
    "drain_node": lambda fleet: fleet.drain("x", deadline_s=5),
    "remove_node": lambda fleet: fleet.order("x", "remove"),
    "maintain_node": lambda fleet: fleet.order("x", "maintenance"),
    "resume_node": lambda fleet: fleet.order("x", "resume"),
    "unregister_node": lambda fleet: fleet.order("x", "unregister"),
    "change_node": lambda fleet: fleet.change_node("x", labels={"rack": "7"}, version=2),
    "get_node_history": lambda fleet: fleet.node_history("x"),
    "get_execution": lambda fleet: fleet.execution("x"),
    "list_execution_logs": lambda fleet: first(fleet.logs("x")),
    "list_task_logs": lambda fleet: first(fleet.task_logs("x")),
    "list_projects": lambda fleet: first(fleet.projects()),
    "create_project": lambda fleet: fleet.create_project("x", name="X"),
    "get_project": lambda fleet: fleet.project("x"),
    "change_project": lambda fleet: fleet.change_project("x", name="Y", if_version=2),
    "close_project": lambda fleet: fleet.close_project("x"),
    "reopen_project": lambda fleet: fleet.reopen_project("x"),
    "list_bundles": lambda fleet: first(fleet.bundles("x")),
    "deploy_bundle": lambda fleet: fleet.deploy("x", b"PK", note="n"),
    "get_bundle": lambda fleet: fleet.bundle("x"),
    "roll_back_bundle": lambda fleet: fleet.roll_back_bundle("x", 1),
    "remove_bundle": lambda fleet: fleet.remove_bundle("x", 1, "shop"),
    "list_secrets": lambda fleet: first(fleet.secrets("x")),
    "set_secret": lambda fleet: fleet.set_secret("X", "correct horse", "shop"),
    "remove_secret": lambda fleet: fleet.remove_secret("X", "shop"),
    "list_clusters": lambda fleet: first(fleet.clusters()),
    "create_cluster": lambda fleet: fleet.create_cluster("x", configuration={"max_slots": 1}),
    "get_cluster": lambda fleet: fleet.cluster("x"),
    "change_cluster": lambda fleet: fleet.change_cluster("x", status="maintenance"),
    "close_cluster": lambda fleet: fleet.close_cluster("x"),
    "reopen_cluster": lambda fleet: fleet.reopen_cluster("x"),
    "roll_back_cluster": lambda fleet: fleet.roll_back_cluster("x", 1),
    "list_cluster_versions": lambda fleet: first(fleet.cluster_versions("x")),
    "get_cluster_health": lambda fleet: fleet.cluster_health("x"),
    "list_keys": lambda fleet: fleet.keys(),
    "get_key": lambda fleet: fleet.key("x"),
    "create_key": lambda fleet: fleet.create_key("x", "viewer", project_id="shop"),
    "rotate_key": lambda fleet: fleet.rotate_key("x", grace_s=60),
    "revoke_key": lambda fleet: fleet.revoke_key("x"),
    "get_session": lambda fleet: fleet.session(),
    "create_session_link": lambda fleet: fleet.create_session_link(),
    "list_join_tokens": lambda fleet: fleet.join_tokens(),
    "get_join_token": lambda fleet: fleet.join_token("x"),
    "create_join_token": lambda fleet: fleet.create_join_token(uses=2),
    "revoke_join_token": lambda fleet: fleet.revoke_join_token("x"),
    "rotate_node_token": lambda fleet: fleet.order("x", "rotate-token"),
    "revoke_node": lambda fleet: fleet.order("x", "revoke"),
    "list_audit": lambda fleet: first(fleet.audit(actor="ann")),
    "list_settings": lambda fleet: fleet.settings(),
    "list_events": lambda fleet: first(fleet.events_after(7)),
    "get_status": lambda fleet: fleet.status(),
    "get_statistics": lambda fleet: fleet.statistics(),
    "get_series": lambda fleet: fleet.series(5),
    "list_attention": lambda fleet: fleet.attention(),
    "list_task_types": lambda fleet: fleet.task_types(),
    "get_liveness": lambda fleet: fleet.liveness(),
    "get_readiness": lambda fleet: fleet.readiness(),
    "get_metrics": lambda fleet: fleet.metrics(),
    "get_openapi": lambda fleet: fleet.openapi(),
    "get_reference": lambda fleet: fleet.reference(),
}


OF_ANOTHER_API = "/api/distribution/"
"""Has a client of its own, elsewhere; ours speaks `/api/v1`."""
FOR_BROWSERS = {"open_session", "close_session"}
"""A program shows its key with each request, and keeps no cookie."""


def is_spoken_by_nodes(route: Route) -> bool:
    """Whether only nodes (and admins, who may everything) ask for it."""
    return route.roles == {Role.NODE, Role.ADMIN}


class Sent(Exception):
    """What a client was about to send."""

    def __init__(self, method: str, path: str, type: Any, options: dict[str, Any]) -> None:
        self.method, self.path, self.type, self.options = method, path, type, options
        super().__init__(method, path)


class Recorder:
    """In place of the transport."""

    async def call(self, method: str, path: str, type: Any, **options: Any) -> Any:
        raise Sent(method, path, type, options)

    async def chunks(self, path: str, **options: Any) -> Any:
        raise Sent("GET", path, str, options)
        yield b""


def sent(use: Use) -> Sent:
    async def scenario() -> None:
        client = Client("http://127.0.0.1:9", "k", patience_s=0)
        client._transport = Recorder()
        await use(client)

    with pytest.raises(Sent) as caught:
        asyncio.run(scenario())
    return caught.value


def test_every_route_for_people_has_a_method() -> None:
    wanted = {
        route.name
        for route in ROUTES
        if not is_spoken_by_nodes(route) and not route.path.startswith(OF_ANOTHER_API)
    }
    assert wanted == set(CALLS) | FOR_BROWSERS


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.name in CALLS], ids=lambda route: route.name
)
def test_a_method_asks_for_its_route_and_expects_its_answer(route: Route) -> None:
    asked = sent(CALLS[route.name])

    assert asked.method == route.method
    assert re.fullmatch(re.sub(r"\{\w+\}", "[^/:]+", route.path), asked.path), asked.path
    assert asked.type == route.response
    body = asked.options.get("body")
    assert set(body or ()) <= set(route.body.__struct_fields__)
    assert set(asked.options.get("query") or ()) <= set(route.query.__struct_fields__)


def test_a_version_becomes_a_header() -> None:
    for use in (
        lambda fleet: fleet.change_project("x", name="Y", if_version=2),
        lambda fleet: fleet.act("x", "cancel", if_version=2),
        lambda fleet: fleet.order("x", "drain", if_version=2),
        lambda fleet: fleet.roll_back_cluster("x", 1, if_version=2),
    ):
        assert sent(use).options["headers"] == {"If-Match": '"2"'}


def test_an_id_cannot_leave_its_place_in_the_path() -> None:
    assert sent(lambda fleet: fleet.task("a/b?c:d")).path == "/api/v1/tasks/a%2Fb%3Fc%3Ad"
