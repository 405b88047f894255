"""A fleet is backed up at work, and another goes on from there, in the other database."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sampling import SOAK
from tests.support.local_fleet import LocalFleet, running
from tests.support.servers import PostgresServer, postgres_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TASKS, SECONDS = (300, 0.3) if SOAK else (160, 0.25)
LEGAL = {
    "waiting",
    "pending",
    "assigned",
    "processing",
    "paused",
    "completed",
    "failed",
    "timeout",
    "cancelled",
}


def crawlfleet(*arguments: str, store: str = "", check: bool = True) -> Any:
    clean = {name: text for name, text in os.environ.items() if not name.startswith("CRAWLFLEET_")}
    done = subprocess.run(
        [sys.executable, "-m", "crawlfleet", *arguments],
        env={**clean, **({"CRAWLFLEET_STORE": store} if store else {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if not check:
        return done
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def submit(fleet: LocalFleet) -> list[str]:
    async with fleet.client() as client:
        reply = await client.submit_batch(
            {
                "task_type": "sleep",
                "parameters": {"seconds": SECONDS},
                "max_retries": 5,
                "idempotency_key": f"task {number}",
            }
            for number in range(TASKS)
        )
    return [item.id or "" for item in reply.items]


async def until_some_are_done(fleet: LocalFleet, some: int) -> dict[str, int]:
    async with fleet.client() as client, asyncio.timeout(60):
        while True:
            tasks = (await client.status()).totals.tasks
            if tasks.get("completed", 0) >= some:
                return tasks
            await asyncio.sleep(0.02)


async def check_end(fleet: LocalFleet, ids: list[str]) -> None:
    """Every task has completed once, under the id that it was given before the backup."""
    async with fleet.client() as client:
        tasks = [task async for task in client.tasks()]
        assert {task.id for task in tasks} == {*ids}
        assert {task.status for task in tasks} == {"completed"}
        for task in tasks[::20]:
            attempts = await client.executions(task.id)
            assert [each.status for each in attempts].count("completed") == 1
        again = await client.submit(
            "sleep", {"seconds": SECONDS}, max_retries=5, idempotency_key="task 7"
        )
        assert again.id == ids[7], "claims came along"


def go_on(folder: Path, ids: list[str], store: str = "") -> None:
    settings = {"CRAWLFLEET_STORE": store} if store else {}
    fleet = LocalFleet(folder, **settings)
    with running(fleet):
        asyncio.run(fleet.until_ready(nodes=1))
        asyncio.run(fleet.until_done(TASKS, within_s=120))
        asyncio.run(check_end(fleet, ids))
        assert fleet.stop() == 0


def test_a_fleet_goes_on_from_a_backup_taken_under_load_in_either_database(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    with postgres_server() as server:
        fleet = LocalFleet(first)
        with running(fleet):
            asyncio.run(fleet.until_ready(nodes=2))
            ids = asyncio.run(submit(fleet))
            asyncio.run(until_some_are_done(fleet, 20))
            saved = crawlfleet("backup", str(tmp_path / "1"), "--data", str(first), "--json")
            asyncio.run(until_some_are_done(fleet, 60))
            refused = crawlfleet("restore", str(tmp_path / "1"), "--data", str(first), check=False)
            assert refused.returncode == 1
            assert "stop it first" in refused.stderr
        assert saved["rows"]["crawler_tasks"] == TASKS

        second.mkdir()
        restored = crawlfleet(
            "restore", str(tmp_path / "1"), "--data", str(second), "--json", store=server.url()
        )
        assert restored["rows"] == saved["rows"]
        states = dict(server.execute("select status, count(*) from crawler_tasks group by status"))
        assert set(states) <= LEGAL
        assert int(states["completed"]) < TASKS, "there was work left to do"
        fleet = LocalFleet(second, CRAWLFLEET_STORE=server.url())
        with running(fleet):
            asyncio.run(fleet.until_ready(nodes=2))
            asyncio.run(until_some_are_done(fleet, int(states["completed"]) + 10))
            middle = crawlfleet(
                "backup", str(tmp_path / "2"), "--data", str(second), "--json", store=server.url()
            )
            assert middle["rows"]["crawler_tasks"] == TASKS
            fleet.kill("all")
        go_on(second, ids, server.url())
        _once_each(server)
    third.mkdir()
    crawlfleet("restore", str(tmp_path / "2"), "--data", str(third), "--json")
    go_on(third, ids)


def _once_each(server: PostgresServer) -> None:
    twice = server.execute(
        "select subject from crawler_events where kind = 'task.completed' "
        "group by subject having count(*) <> 1"
    )
    assert twice == []


def test_commands_say_what_is_wrong(tmp_path: Path) -> None:
    nowhere = crawlfleet("backup", str(tmp_path / "x"), "--data", str(tmp_path), check=False)
    assert nowhere.returncode == 1
    assert "no store" in nowhere.stderr
    (tmp_path / "not a backup").write_text("hello")
    for name, says in (("not a backup", "is not a backup"), ("missing", "cannot be read")):
        strange = crawlfleet("restore", str(tmp_path / name), "--data", str(tmp_path), check=False)
        assert strange.returncode == 1
        assert says in strange.stderr
        assert "Traceback" not in strange.stderr
    assert not (tmp_path / "crawlfleet.db").exists()
