"""A secret on a real fleet: the code has it, and nothing else ever does."""

import asyncio
import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.local_fleet import LocalFleet, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200), pytest.mark.xdist_group("secrets")]
VALUE = "hunter2-but-rather-longer"
TOOL = """
import logging, os, sys, time

def use(seconds):
    value = os.environ["SHOP_PASSWORD"]
    print("printed", value, flush=True)
    print("cut", "x" * 1985 + value, file=sys.stderr, flush=True)
    logging.warning("logged %s", value)
    time.sleep(seconds)
    with open("/proc/self/environ") as started_with, open("/proc/self/cmdline") as said:
        is_open = value in started_with.read() + said.read()
    return {"value": value, "length": len(value), "is_open": is_open}

def fail():
    raise RuntimeError("no entry with " + os.environ["SHOP_PASSWORD"])
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    folder = tmp_path_factory.mktemp("secrets")
    tools = folder / "tools"
    tools.mkdir()
    (tools / "tool.py").write_text(TOOL)
    settings = {"CRAWLFLEET_WORKER_BUNDLES": "true"}
    with running(LocalFleet(folder / "fleet", workers=1, **settings)) as fleet:
        asyncio.run(fleet.until_ready(nodes=1))
        command(fleet, "deploy", str(tools), "--name", "tools")
        command(fleet, "secrets", "set", "SHOP_PASSWORD", value=f"{VALUE}\n")
        yield fleet


def command(fleet: LocalFleet, *words: str, value: str = "", status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "crawlfleet", *words],
        env={**os.environ, "CRAWLFLEET_URL": fleet.url, "CRAWLFLEET_KEY": fleet.key},
        input=value,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def run(fleet: LocalFleet, task_type: str, parameters: dict[str, Any], masked: int) -> Any:
    """The task when it has ended, and the lines of its log when so many were masked."""

    async def scenario() -> Any:
        async with fleet.client() as client:
            receipt = await client.submit(
                task_type,
                parameters,
                bundle="tools",
                secrets=["SHOP_PASSWORD"],
                max_retries=0,
            )
            seen = 0
            while (await client.task(receipt.id)).status not in {"completed", "failed"}:
                seen += look_at_processes(fleet)
                await asyncio.sleep(0.05)
            async with asyncio.timeout(20):  # its last words come beside its end
                lines: list[str] = []
                while sum("[secret" in line for line in lines) < masked:
                    await asyncio.sleep(0.1)
                    lines = [line.message async for line in client.task_logs(receipt.id)]
            assert seen > 0
            return await client.task(receipt.id), lines

    return asyncio.run(scenario())


def look_at_processes(fleet: LocalFleet) -> int:
    """No process of ours was started with it; how many were looked at."""
    seen = 0
    for process in fleet.processes("all"):
        try:
            told = json.dumps([process.environ(), process.cmdline()])
        except (psutil.Error, OSError):
            continue
        assert VALUE not in told
        seen += 1
    return seen


def files_with(folder: Path, needles: list[bytes]) -> list[Path]:
    found = []
    for path in folder.rglob("*"):
        try:
            content = path.read_bytes() if path.is_file() else b""
        except OSError:
            continue
        if any(needle in content for needle in needles):
            found.append(path)
    return found


def test_code_has_a_secret_and_nobody_else_ever_does(fleet: LocalFleet) -> None:
    used, lines = run(fleet, "python", {"function": "tool:use", "args": [0.5]}, 3)
    assert used.status == "completed", used.error
    data = used.result["data"]
    assert data == {"value": "[secret SHOP_PASSWORD]", "length": len(VALUE), "is_open": False}
    assert used.secrets == ("SHOP_PASSWORD",)
    assert "printed [secret SHOP_PASSWORD]" in "\n".join(lines)
    assert "logged [secret SHOP_PASSWORD]" in "\n".join(lines)

    failed, _ = run(fleet, "python", {"function": "tool:fail"}, 0)
    assert failed.error.message == "RuntimeError: no entry with [secret SHOP_PASSWORD]"
    shell = ["sh", "-c", 'echo "$SHOP_PASSWORD"; echo "bad: $SHOP_PASSWORD" >&2; exit 3']
    program, said = run(fleet, "command", {"argv": shell}, 2)
    assert "bad: [secret SHOP_PASSWORD]" in program.error.details
    assert "[secret SHOP_PASSWORD]" in said

    time.sleep(0.5)  # what is written late
    needles = [VALUE.encode(), VALUE[:12].encode(), base64.b64encode(VALUE.encode())[:20]]
    for folder in (fleet.folder, fleet.folder.with_name(f"{fleet.folder.name}-code")):
        assert files_with(folder, needles) == []
    told = command(fleet, "events", "--json") + command(fleet, "audit", "--json")
    assert "SHOP_PASSWORD" in told
    assert VALUE not in told
    assert (fleet.folder / "secrets.key").stat().st_mode & 0o077 == 0


def test_secrets_are_listed_without_values_and_forgotten(fleet: LocalFleet) -> None:
    command(fleet, "secrets", "set", "GONE_SOON", value="correct horse")
    listed = json.loads(command(fleet, "secrets", "list", "--json"))
    assert {each["name"] for each in listed} >= {"GONE_SOON", "SHOP_PASSWORD"}
    assert all("value" not in each and "sealed" not in each for each in listed)
    command(fleet, "secrets", "delete", "GONE_SOON")
    refused = ("submit", "sleep", "-p", "seconds=0", "--secret", "GONE_SOON")
    command(fleet, *refused, status=1)
