"""`crawlfleet distribute` and `/api/distribution`, as somebody uses them who knows no other."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_fleet import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

KEY = "a-secure-api-key-for-this-test"
TIMING = {
    "heartbeat_interval": 1,
    "device_timeout": 15,
    "timeout_check_interval": 60,
    "dispatch_interval": 10,
}


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if "CRAWLFLEET" not in name}


class Distribution:
    """Processes of `distribute`, and plain HTTP to their master."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def config(self, name: str, **keys: Any) -> str:
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(keys))
        return str(path)

    def start(self, name: str, *flags: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "crawlfleet", "distribute", *flags],
                env=clean_environment(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def ask(self, method: str, path: str, body: Any = None, *, key: str = KEY) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request(
                method,
                f"/api/distribution/{path}",
                body=None if body is None else json.dumps(body),
                headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")

    def must(self, method: str, path: str, body: Any = None, *, key: str = KEY) -> Any:
        status, answer = self.ask(method, path, body, key=key)
        assert status in (200, 201), (status, answer)
        return answer

    def until(self, ready: Callable[[], Any], within_s: float = 90.0) -> Any:
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if found := ready():
                    return found
            time.sleep(0.1)
        raise AssertionError({name: self.log(name) for name in self.processes})

    def device(self, device_id: str) -> Any:
        devices = self.must("GET", "devices")["devices"]
        return next((each for each in devices if each["device_id"] == device_id), None)

    def ended(self, task_id: str) -> Any:
        tasks = self.must("GET", "tasks")["tasks"]
        task = next(each for each in tasks if each["task_id"] == task_id)
        return task if task["status"] in ("completed", "failed") else None

    def end(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Distribution]:
    system = Distribution(tmp_path)
    try:
        yield system
    finally:
        system.end()


def start_master(system: Distribution) -> None:
    path = system.config(
        "master",
        mode="master",
        host="127.0.0.1",
        port=system.port,
        api_key=KEY,
        load_balance_strategy="least_tasks",
        task_timeout=60,
        max_retry_count=2,
        enable_monitoring=True,
        **TIMING,
    )
    system.start("master", "--config", path, "--data", str(system.folder / "m"))
    system.until(lambda: system.ask("GET", "system/overview")[0] == 200)


def test_a_master_and_a_worker_from_json_files(system: Distribution) -> None:
    start_master(system)
    path = system.config(
        "worker",
        mode="worker",
        master_url=f"http://127.0.0.1:{system.port}",
        concurrent_tasks=2,
        api_key=KEY,
        **TIMING,
    )
    flags = ["--config", path, "--data", str(system.folder / "w")]
    named = ["--device-id", "worker-001", "--device-name", "Worker Node 1"]
    system.start("worker", "--mode", "worker", *named, *flags)
    device = system.until(lambda: system.device("worker-001"))
    assert device["device_name"] == "Worker Node 1"
    assert device["concurrent_tasks"] == 2

    made = system.must("POST", "tasks", {"task_type": "sleep", "parameters": {"seconds": 0.1}})
    assert (made["task_timeout"], made["max_retry_count"]) == (60.0, 2)
    task = system.until(lambda: system.ended(made["task_id"]))
    assert (task["status"], task["device_id"]) == ("completed", "worker-001")
    assert task["result"]["success"] is True

    system.until(lambda: system.must("GET", "devices/worker-001/stats")["ended"] == 1)
    assert system.must("GET", "tasks/stats")["by_status"] == {"completed": 1}
    overview = system.must("GET", "system/overview")
    assert (overview["devices"], overview["running_tasks"]) == ({"online": 1}, 0)
    assert "dispatch_interval has no effect" in system.log("master")

    path = system.config("status", api_key=KEY, port=system.port)
    shown = subprocess.run(
        [sys.executable, "-m", "crawlfleet", "distribute", "--status", "--json", "--config", path],
        env=clean_environment(),
        cwd=system.folder,
        capture_output=True,
        check=True,
    )
    assert json.loads(shown.stdout)["totals"]["tasks"] == {"completed": 1}

    assert system.must("PUT", "devices/worker-001/status", {"status": "maintenance"})
    held = system.must("POST", "tasks", {"task_type": "sleep", "parameters": {"seconds": 0}})
    status, refusal = system.ask(
        "PUT", f"tasks/{held['task_id']}/assign", {"device_id": "worker-001"}
    )
    assert (status, "the node is maintenance" in refusal["detail"]) == (409, True)
    system.must("PUT", "devices/worker-001/status", {"status": "online"})
    system.until(lambda: system.ended(held["task_id"]))


def test_a_device_of_somebody_else_pulls_works_and_reports(system: Distribution) -> None:
    start_master(system)
    who = {"device_id": "probe-7", "concurrent_tasks": 2, "task_types": ["measure"]}
    registered = system.must("POST", "devices/register", who)
    own = registered["api_key"]
    assert registered["device_timeout"] == 15.0

    def beat(*tasks: str) -> Any:
        said = {"cpu_usage": 0.2, "memory_usage": 0.3, "current_tasks": tasks}
        return system.must("POST", "devices/probe-7/heartbeat", said, key=own)

    def pull() -> Any:
        return system.must("GET", "tasks/pull?device_id=probe-7&wait=5", key=own)["tasks"]

    def say(task: Any, expected: int = 200, **said: Any) -> Any:
        path = f"tasks/{task['task_id']}/status"
        status, answer = system.ask("PUT", path, {"token": task["token"], **said}, key=own)
        assert status == expected, answer
        return answer

    assert beat()["registered"] is True
    made = system.must(
        "POST", "tasks", {"task_type": "measure", "parameters": {"what": "rain"}, "priority": 9}
    )
    (task,) = pull()
    assert (task["task_id"], task["parameters"]) == (made["task_id"], {"what": "rain"})
    assert [each["task_id"] for each in pull()] == [made["task_id"]], "given again until it runs"
    assert say(task, status="running")["status"] == "processing"
    assert system.must("GET", "tasks/pull?device_id=probe-7", key=own)["tasks"] == []
    assert beat(task["task_id"])["stop_tasks"] == []
    assert say(task, status="completed", result={"mm": 3})["result"]["data"] == {"mm": 3}
    assert say(task, status="completed")["status"] == "completed", "saying it again is fine"

    # What fails is tried again, under another token; the old one is worth nothing.
    system.must("POST", "tasks", {"task_type": "measure"})
    (first,) = pull()
    assert say(first, status="failed", error="no sensor")["status"] == "pending"
    (second,) = system.until(pull)
    assert (second["token"], second["attempt"]) == (first["token"] + 1, 2)
    say(first, 409, status="completed")
    assert say(second, status="failed", error="no sensor")["retry_count"] == 2
    (third,) = system.until(pull)
    cancelled = system.must("PUT", f"tasks/{third['task_id']}/status", {"status": "cancelled"})
    assert cancelled["status"] == "cancelled"
    assert beat(third["task_id"])["stop_tasks"] == [third["task_id"]]

    # A device speaks for itself alone, and nobody takes its place.
    assert system.ask("POST", "devices/probe-8/heartbeat", {}, key=own)[0] == 403
    assert system.ask("POST", "tasks", {"task_type": "measure"}, key=own)[0] == 403
    again = system.must("POST", "devices/register", who, key=own)
    assert (again["node_id"], again["api_key"]) == (registered["node_id"], None)
    assert system.must("GET", "devices")["total"] == 1


def test_standalone_is_all_in_one_place(system: Distribution) -> None:
    path = system.config("alone", mode="standalone", api_key=KEY, concurrent_tasks=1, **TIMING)
    flags = ["--config", path, "--port", str(system.port), "--data", str(system.folder / "s")]
    system.start("standalone", *flags)
    system.until(lambda: system.must("GET", "devices")["total"] == 2)
    made = system.must("POST", "tasks", {"task_type": "sleep", "parameters": {"seconds": 0}})
    assert system.until(lambda: system.ended(made["task_id"]))["status"] == "completed"
    system.processes["standalone"].send_signal(signal.SIGTERM)
    assert system.processes["standalone"].wait(30) == 0


def test_on_one_machine_a_worker_needs_no_key(system: Distribution) -> None:
    data = ["--data", str(system.folder / "d")]
    system.start("master", "--mode", "master", "--port", str(system.port), *data)
    key_file = system.folder / "d" / "admin.key"
    system.until(lambda: key_file.exists() and (system.folder / "d" / "join.key").exists())
    path = system.config("worker", master_url=f"http://127.0.0.1:{system.port}")
    system.start("worker", "--mode", "worker", "--device-id", "w-1", "--config", path, *data)
    key = key_file.read_text().strip()
    system.until(lambda: system.must("GET", "system/overview", key=key)["devices"] == {"online": 1})
