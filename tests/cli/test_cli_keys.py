"""Keys, join tokens and the audit log from the command line, against a real fleet."""

import asyncio
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import Result

from crawlfleet.cli.shell.arguments import parse_span
from tests.support.local_fleet import LocalFleet, running

RENEWED_WITHIN_S = 60.0

Run = Callable[..., Result]
Call = Callable[..., Result]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("90", 90), ("15m", 900), ("1.5h", 5400), ("24h", 86_400), ("30d", 2_592_000)],
)
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_span(text, "--expires") == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5s", "0", "0h", "5 weeks", "1e3", "h"])
def test_what_is_no_time_is_told_so(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="24h"):
        parse_span(text, "--expires")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    fleet = LocalFleet(tmp_path_factory.mktemp("keys") / "fleet", workers=1)
    with running(fleet):
        asyncio.run(fleet.until_ready(nodes=1))
        yield fleet


@pytest.fixture
def call(run: Run, fleet: LocalFleet) -> Call:
    def call(*arguments: str, key: str = fleet.key) -> Result:
        return run(*arguments, "--url", fleet.url, "--key", key)

    return call


def made(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.slow
@pytest.mark.xdist_group("cli keys")
def test_a_key_from_its_making_to_its_end(call: Call) -> None:
    secret = call("keys", "create", "ann", "--role", "viewer", "--expires", "1h").stdout.strip()
    assert len(secret) == 64
    assert call("tasks", "list", key=secret).exit_code == 0
    assert call("keys", "list", key=secret).exit_code == 1

    listed = call("keys", "list")
    assert secret not in listed.stdout
    assert "ann" in listed.stdout
    assert "127.0.0.1" in listed.stdout

    rotated = made(call("keys", "rotate", "ann", "--grace", "1h", "--json"))
    assert rotated["key"]["name"] == "ann"
    assert call("tasks", "list", key=rotated["secret"]).exit_code == 0
    assert call("tasks", "list", key=secret).exit_code == 0

    assert "revoked" in call("keys", "revoke", "ann").stdout
    refused = call("tasks", "list", key=rotated["secret"])
    assert refused.exit_code == 1
    assert "revoked" in refused.stderr
    assert "no living key" in call("keys", "revoke", "ann").stderr
    assert call("keys", "revoke", "nobody").exit_code == 1


@pytest.mark.slow
@pytest.mark.xdist_group("cli keys")
def test_the_line_that_join_tokens_prints_starts_a_worker(
    call: Call, fleet: LocalFleet, tmp_path: Path
) -> None:
    result = call("join-tokens", "create", "--uses", "1", "--expires", "24h")
    words = shlex.split(result.stdout)
    assert words[:4] == ["crawlfleet", "worker", "--master", fleet.url]
    worker = subprocess.Popen(
        [sys.executable, "-m", *words, "--name", "by-token", "--data", str(tmp_path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        asyncio.run(fleet.until_ready(nodes=2))
    finally:
        worker.terminate()
        worker.wait(30)
    (token,) = [t for t in made(call("join-tokens", "list", "--json")) if t["name"] != "join"]
    assert (token["status"], token["uses"]) == ("used_up", 1)
    assert "used_up" in call("join-tokens", "list").stdout
    assert "revoked" in call("join-tokens", "revoke", token["id"]).stdout


@pytest.mark.slow
@pytest.mark.xdist_group("cli keys")
def test_a_worker_changes_its_token_and_goes_on(call: Call, fleet: LocalFleet) -> None:
    def token() -> str:
        (identity,) = fleet.folder.glob("nodes/*.json")
        return str(json.loads(identity.read_text())["node_token"])

    (node,) = [n for n in made(call("nodes", "list", "--json")) if n["status"] == "online"]
    before = token()
    assert call("nodes", "rotate-token", node["id"]).exit_code == 0
    until = time.monotonic() + RENEWED_WITHIN_S
    while token() == before and time.monotonic() < until:
        time.sleep(0.1)
    assert token() != before
    assert call("submit", "sleep", "-p", "seconds=0.1", "--wait").exit_code == 0
    assert call("nodes", "show", node["id"], key=token()).exit_code == 0
    assert call("nodes", "show", node["id"], key=before).exit_code == 1
    (again,) = [n for n in made(call("nodes", "list", "--json")) if n["status"] == "online"]
    assert again["id"] == node["id"]


@pytest.mark.slow
@pytest.mark.xdist_group("cli keys")
def test_the_audit_log_tells_who_did_what(call: Call) -> None:
    key = made(call("keys", "create", "doer", "--role", "operator", "--project", "p", "--json"))
    task_id = call("submit", "nobodys", key=key["secret"]).stdout.strip()
    found = made(call("audit", "--actor", "doer", "--since", "1h", "--json"))
    assert [(entry["action"], entry["project_id"]) for entry in found] == [("create_task", "p")]
    assert task_id in found[0]["subjects"]
    shown = call("audit", "--subject", key["key"]["id"]).stdout
    assert "create_key" in shown
    assert key["secret"] not in shown
    assert made(call("audit", "--actor", "doer", "--until", "1h", "--json")) == []
    assert call("audit", "--since", "sometime").exit_code == 2
