"""The workflow of the guide on a real fleet, by the command line; and one that is killed."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from crawlfleet.testing.demo_shop.server import Counter, Shop
from tests.support.local_fleet import LocalFleet, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("workflows")]
EXAMPLE = Path(__file__).parents[2] / "examples" / "workflows" / "shop.yaml"
STORE = """
def save(run, products):
    return {"saved": len(products), "prices": [each["fields"]["price"] for each in products]}


def alarm(text):
    return {"told": text}
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    folder = tmp_path_factory.mktemp("workflows")
    (folder / "code").mkdir()
    (folder / "code" / "shop_store.py").write_text(STORE)
    settings = {
        "CRAWLFLEET_WORKER_PYTHON_ALLOW": json.dumps(["shop_store:*"]),
        "CRAWLFLEET_WORKER_ALLOW_PRIVATE": "true",
        "PYTHONPATH": str(folder / "code"),
    }
    with running(LocalFleet(folder / "fleet", workers=1, **settings)) as fleet:
        asyncio.run(fleet.until_ready(nodes=1))
        yield fleet


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    handler = type("Served", (Counter,), {"shop": Shop()})
    server = ThreadingHTTPServer(("127.0.0.9", 0), handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.9:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def command(fleet: LocalFleet, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "crawlfleet", "workflows", *words, "--json"],
        env={"CRAWLFLEET_URL": fleet.url, "CRAWLFLEET_KEY": fleet.key, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=False,
        timeout=120,
    )
    return done.returncode, json.loads(done.stdout or b"null"), done.stderr.decode()


def test_the_example_of_the_guide_runs_through(fleet: LocalFleet, shop: str) -> None:
    given = ("-p", f"shop={shop}", "-p", 'categories=["lamps"]')
    code, told, said = command(fleet, "submit", str(EXAMPLE), *given, "--wait")
    assert code == 0, said
    run, steps = told["run"], {each["name"]: each for each in told["steps"]}
    assert run["status"] == "completed"
    assert {name: each["status"] for name, each in steps.items()} == {
        "fetch": "completed",
        "parse": "completed",
        "save": "completed",
        "alarm": "skipped",
    }
    assert steps["parse"]["count"] == 8
    assert steps["save"]["depends_on"] == [{"step": "parse", "on": "success"}]

    async def saved() -> Any:
        async with fleet.client() as client:
            task = await client.task(steps["save"]["task_id"])
            assert task.workflow_id == run["id"]
            assert task.step is not None
            assert (task.step.step, task.step.index) == ("save", 0)
            parsed = [each async for each in client.tasks(workflow_id=run["id"])]
            assert sorted({each.priority for each in parsed}) == [5, 7]
            return task.result

    result = asyncio.run(saved())
    assert result["data"]["saved"] == 8
    assert all("€" in price for price in result["data"]["prices"])


def test_a_run_goes_on_after_everything_was_killed(fleet: LocalFleet, tmp_path: Path) -> None:
    steps = {f"s{n}": {"task_type": "sleep", "parameters": {"seconds": 0.3}} for n in range(6)}
    for number in range(1, 6):
        steps[f"s{number}"]["depends_on"] = [f"s{number - 1}"]  # type: ignore[assignment]
    path = tmp_path / "chain.json"
    path.write_text(json.dumps({"name": "chain", "steps": steps}))

    async def scene() -> tuple[str, list[Any]]:
        async with fleet.client() as client:
            run = await client.submit_workflow(json.loads(path.read_text()))
        for _ in range(2):
            await asyncio.sleep(0.5)
            fleet.kill("all")
            fleet.start()
            await fleet.until_ready(nodes=1)
        async with fleet.client() as client:
            ended = await client.wait_for_run(run.id)
            tasks = [each async for each in client.tasks(workflow_id=run.id)]
            return ended.status, tasks

    status, tasks = asyncio.run(scene())
    assert status == "completed"
    assert len(tasks) == 6
    begun = {each.step.step: each for each in tasks}
    for number in range(1, 6):
        before, after = begun[f"s{number - 1}"], begun[f"s{number}"]
        assert before.completed_at <= after.created_at


def test_what_is_wrong_is_told_at_the_command_line(fleet: LocalFleet, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "name: bad\nsteps:\n  a: {task_type: sleep, depends_on: [b]}\n"
        "  b: {task_type: sleep, depends_on: [a]}\n"
    )
    code, told, _ = command(fleet, "validate", str(path))
    assert code == 1
    assert told["problems"][0]["field"] == "steps.a.depends_on"
    assert "is a cycle: b → a → b" in told["problems"][0]["message"]
    path.write_text("name: bad\nsteps:\n  a: {task_type: sleep}\n  a: {task_type: sleep}\n")
    code, told, said = command(fleet, "submit", str(path))
    assert code == 2
    assert "stands twice" in " ".join(said.split())
