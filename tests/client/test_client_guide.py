"""The examples of the guide run as they stand, against a real fleet that restarts meanwhile."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlfleet.client import Client
from tests.support.local_fleet import LocalFleet, running

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("client guide"), pytest.mark.timeout(300)]

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "python-client.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    with running(LocalFleet(tmp_path_factory.mktemp("guide") / "fleet")) as fleet:
        asyncio.run(fleet.until_ready(nodes=1))
        yield fleet


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs_as_it_stands(number: int, fleet: LocalFleet, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXAMPLES[number]],
        env={**os.environ, "CRAWLFLEET_URL": fleet.url, "CRAWLFLEET_KEY": fleet.key},
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""


def test_a_client_waits_for_results_through_a_restart_of_the_master(fleet: LocalFleet) -> None:
    async def scenario() -> None:
        async with Client(fleet.url, fleet.key, patience_s=60) as client:
            reply = await client.submit_batch(
                {"task_type": "sleep", "parameters": {"seconds": 0.1}, "max_retries": 50}
                for _ in range(60)
            )
            ids = [item.id or "" for item in reply.items]
            heard: list[int] = []

            async def listen() -> None:
                async for event in client.stream_events(after=0, kind="task.completed"):
                    heard.append(event.seq)
                    if len(heard) >= 60:
                        return

            async with asyncio.timeout(120), asyncio.TaskGroup() as group:
                group.create_task(listen())
                ends = group.create_task(client.wait_for_all(ids))
                await asyncio.sleep(1.0)
                assert fleet.kill("master") == 1
            tasks = ends.result()
            assert [task.id for task in tasks] == ids
            assert {task.status for task in tasks} == {"completed"}
            assert heard == sorted({*heard}), "each event once, in order"

    asyncio.run(scenario())
