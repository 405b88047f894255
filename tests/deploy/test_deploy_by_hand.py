"""The containers of the manifests, run by hand: their commands, variables, probes and signals.

What an engine would add is put in its place: addresses, folders and secrets of this machine.
"""

import contextlib
import http.client
import json
import os
import secrets
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.deploy.deploy_files import container, pod, services
from tests.support.local_fleet import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

HERE = "127.0.0.1"


class Engine:
    """Runs containers as plain processes, with something else in place of some words."""

    def __init__(self, folder: Path, words: dict[str, str], secrets: dict[str, str]) -> None:
        self._folder = folder
        self._words = words
        self._secrets = secrets
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def filled(self, text: str) -> str:
        for word, other in self._words.items():
            text = text.replace(word, other)
        return text

    def run(self, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        data = self._folder / name
        data.mkdir()
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "crawlfleet", *map(self.filled, arguments)],
                env={
                    **{key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ},
                    "CRAWLFLEET_DATA_DIR": str(data),
                    **{key: self.filled(value) for key, value in environment.items()},
                },
                cwd=data,
                stdout=log,
                stderr=log,
            )

    def run_pod(self, name: str, kind: str) -> None:
        """A container of the manifests."""
        environment = {}
        for each in container(kind)["env"]:
            source = each.get("valueFrom", {})
            if "secretKeyRef" in source:
                environment[each["name"]] = self._secrets[source["secretKeyRef"]["key"]]
            elif "fieldRef" not in source:
                environment[each["name"]] = each["value"]
        self.run(name, container(kind)["args"], environment)

    def stop(self, name: str, within_s: float) -> int:
        """As an engine does: SIGTERM, and after a while SIGKILL."""
        self._processes[name].send_signal(signal.SIGTERM)
        return self._processes[name].wait(within_s)

    def log(self) -> dict[str, str]:
        return {name: (self._folder / f"{name}.log").read_text() for name in self._processes}

    def end(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
                process.wait(10)


def until(ask: Callable[[], Any], engine: Engine, within_s: float = 90.0) -> Any:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if found := ask():
                return found
        time.sleep(0.1)
    raise AssertionError(engine.log())


@contextlib.contextmanager
def ended(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.end()


def ask(port: int, path: str, *, tls: ssl.SSLContext | None = None, **options: Any) -> Any:
    """The status of an answer, and what it says."""
    connection: http.client.HTTPConnection
    if tls is None:
        connection = http.client.HTTPConnection(HERE, port, timeout=10)
    else:
        connection = http.client.HTTPSConnection("localhost", port, timeout=10, context=tls)
    with contextlib.closing(connection):
        connection.request(options.pop("method", "GET"), path, **options)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")


def test_pods_start_answer_their_probes_work_and_end_within_their_grace(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    issued.private_key_pem.write_to_path(tmp_path / "tls.key")
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(tmp_path / "tls.crt", append=number > 0)
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    tls = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    api, health = free_port(), free_port()
    given = {
        "store": f"sqlite:///{tmp_path / 'store.db'}",
        "admin-key": secrets.token_hex(32),
        "join-token": secrets.token_hex(32),
        "secrets-key": secrets.token_hex(32),
    }
    words = {
        "crawlfleet-master:8000": f"localhost:{api}",
        "0.0.0.0": HERE,
        "8000": str(api),
        "$(POD_IP):8010": f"{HERE}:{health}",
        "/tls/": f"{tmp_path}/",
        "/var/lib/crawlfleet-output": f"{tmp_path}/output",
    }
    master, worker = container("crawlfleet-master"), container("crawlfleet-worker")
    key = {"Authorization": f"Bearer {given['admin-key']}"}

    def nodes() -> Any:
        return ask(api, "/api/v1/nodes", tls=tls, headers=key)[1]["items"]

    with ended(Engine(tmp_path, words, given)) as engine:
        engine.run_pod("master", "crawlfleet-master")
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            path = master[kind]["httpGet"]["path"]
            until(lambda path=path: ask(api, path, tls=tls)[0] == 200, engine)
        engine.run_pod("worker", "crawlfleet-worker")
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            path = worker[kind]["httpGet"]["path"]
            until(lambda path=path: ask(health, path)[0] == 200, engine)
        until(lambda: [each["status"] for each in nodes()] == ["online"], engine)
        (node,) = nodes()
        assert (node["probe"], node["port"]) == (True, health)

        body = json.dumps({"task_type": "sleep", "parameters": {"seconds": 3}})
        _, task = ask(api, "/api/v1/tasks", tls=tls, method="POST", body=body, headers=key)

        def status() -> Any:
            return ask(api, f"/api/v1/tasks/{task['id']}", tls=tls, headers=key)[1]["status"]

        until(lambda: status() == "processing", engine)
        assert engine.stop("worker", pod("crawlfleet-worker")["terminationGracePeriodSeconds"]) == 0
        assert status() == "completed", "what ran was finished within the grace"
        assert engine.stop("master", pod("crawlfleet-master")["terminationGracePeriodSeconds"]) == 0


def test_the_services_of_compose_find_each_other(tmp_path: Path) -> None:
    api, health = free_port(), free_port()
    given = {name: secrets.token_hex(32) for name in ("ADMIN_KEY", "JOIN_TOKEN")}
    words = {
        "master:8000": f"{HERE}:{api}",
        "0.0.0.0": HERE,
        "8000": str(api),
        "8010": str(health),
        "${CRAWLFLEET_ADMIN_KEY:?put it into .env}": given["ADMIN_KEY"],
        "${CRAWLFLEET_JOIN_TOKEN:?put it into .env}": given["JOIN_TOKEN"],
        "postgresql://crawlfleet:${POSTGRES_PASSWORD:?put it into .env}@postgres/crawlfleet": (
            f"sqlite:///{tmp_path / 'store.db'}"
        ),
    }
    with ended(Engine(tmp_path, words, given)) as engine:
        for name, service in services().items():
            engine.run(name, service["command"], service["environment"])
            check = [engine.filled(word) for word in service["healthcheck"]["test"][1:]]
            assert check[0] == "python"

            def is_healthy(check: list[str] = check) -> bool:
                asked = subprocess.run(
                    [sys.executable, *check[1:]], capture_output=True, check=False
                )
                return asked.returncode == 0

            until(is_healthy, engine)
        assert engine.stop("worker", 60) == 0
        assert engine.stop("master", 20) == 0
