"""Metrics: documented names, true numbers, and no more series than the code has words."""

import re
import time
from pathlib import Path
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from crawlfleet.api.app import ROUTES
from tests.api.plain_http import Master

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api metrics")]

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
Series = dict[str, dict[tuple[tuple[str, str], ...], float]]


def scrape(master: Master) -> Series:
    answer = master.call("GET", "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples: Series = {}
    for family in text_string_to_metric_families(answer.content.decode()):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            samples.setdefault(sample.name, {})[labels] = sample.value
    return samples


def test_every_name_is_documented_and_every_documented_name_is_there(master: Master) -> None:
    documented = set(re.findall(r"^\| `(crawlfleet_\w+)`", PAGE.read_text("utf-8"), re.MULTILINE))

    shown = {name for name in scrape(master) if name.startswith("crawlfleet_")}

    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown} == documented
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes"} <= set(scrape(master))


def test_numbers_follow_the_work(master: Master) -> None:
    before = scrape(master)
    node = master.node(task_types=["counted"], resources={"slots": 4})
    ids = [master.submit(task_type="counted", max_retries=0) for _ in range(3)]
    for _ in range(2):
        held = node.lease()["assignments"]
        if len(held) == 3:
            break
        time.sleep(0.2)
    first, second, _ = held
    node.report(first, "succeeded")
    node.report(second, "failed", error={"error_class": "network", "message": "no"})

    after = scrape(master)

    def grown(name: str, **labels: str) -> float:
        key = tuple(sorted(labels.items()))
        return after[name].get(key, 0) - before.get(name, {}).get(key, 0)

    assert grown("crawlfleet_tasks_submitted_total") == len(ids)
    assert grown("crawlfleet_assignments_total") == 3
    assert grown("crawlfleet_tasks_ended_total", state="completed") == 1
    assert grown("crawlfleet_tasks_ended_total", state="failed") == 1
    assert grown("crawlfleet_execution_failures_total", error_class="network") == 1
    assert grown("crawlfleet_tasks", state="completed") == 1
    assert grown("crawlfleet_executions_running") == 1
    assert grown("crawlfleet_nodes", status="online") == 1
    assert grown("crawlfleet_sessions") == 1
    assert grown("crawlfleet_commit_duration_seconds_count") > 5
    assert grown("crawlfleet_dispatch_duration_seconds_count") >= 1
    created = {"method": "POST", "route": "/api/v1/tasks"}
    assert grown("crawlfleet_http_requests_total", status="201", **created) == 3
    assert grown("crawlfleet_http_request_duration_seconds_count", **created) == 3
    assert after["crawlfleet_store_doubt"][()] == 0


def test_labels_are_words_of_the_code_and_never_ids(master: Master) -> None:
    for path in ("/nowhere/1", "/nowhere/2", "/api/v1/tasks/task-1", "/api/v1/tasks/task-2"):
        master.call("GET", path)
    master.call("BREW", "/api/v1/tasks")

    shown = scrape(master)

    routes = {dict(labels)["route"] for labels in shown["crawlfleet_http_requests_total"]}
    assert routes <= {route.path for route in ROUTES} | {"(none)"}
    methods = {dict(labels)["method"] for labels in shown["crawlfleet_http_requests_total"]}
    assert methods <= {"GET", "POST", "(none)"}
    everything = [str(labels) for series in shown.values() for labels in series]
    assert not [text for text in everything if re.search(r"(task|node|exec|sess)-", text)]


def test_statistics_are_served_and_say_since_when(master: Master) -> None:
    found = master.get("/api/v1/statistics")

    assert found["since"] < found["at"]
    assert set(found["throughput"]) == {"minute", "five_minutes", "hour"}
    assert found["throughput"]["minute"]["seconds"] <= 60
