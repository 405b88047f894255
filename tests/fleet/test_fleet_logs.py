"""Logs and progress of real executors in a real fleet: live, kept, capped, and told by the CLI."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlfleet.errors import CrawlfleetError
from crawlfleet.views.executions import LogLineView
from tests.support.local_fleet import LocalFleet, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.xdist_group("fleet logs")]

LINES = 10_000
USER_CODE = """
import os, time
from crawlfleet.executors.python import log, progress

def talk(lines, pause_every=1000, pause_s=0.2):
    for number in range(1, lines + 1):
        print(f"line {number}")
        progress(number, lines)
        if number % pause_every == 0:
            time.sleep(pause_s)
    log("all said", level="warning", lines=lines)
    return lines

def talk_when_told(file):
    print("line 1")
    while not os.path.exists(file):
        time.sleep(0.02)
    for number in range(2, 31):
        print(f"line {number}")
    time.sleep(0.1)
    log("all said", level="warning", lines=30)

def talk_for_ever(pause_s):
    number = 0
    while True:
        number += 1
        print(f"line {number}")
        time.sleep(pause_s)

def flood(megabytes):
    for number in range(megabytes * 10_000):
        print(f"{number:09}", "x" * 89)

def fail_once(file):
    print("attempt", "second" if os.path.exists(file) else "first")
    if not os.path.exists(file):
        open(file, "w").close()
        raise RuntimeError("once")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def fleet(folder: Path) -> Iterator[LocalFleet]:
    (folder / "code").mkdir()
    (folder / "code" / "talking.py").write_text(USER_CODE)
    (folder / "shared").mkdir()
    fleet = LocalFleet(
        folder / "fleet",
        # A node that falls silent on a busy machine loses its last lines; none here is about that.
        CRAWLFLEET_SESSION_TIMEOUT_S="30",
        CRAWLFLEET_SESSION_RECONNECT_S="30",
        CRAWLFLEET_WORKER_PYTHON_ALLOW=json.dumps(["talking:*"]),
        CRAWLFLEET_WORKER_SANDBOX_WRITABLE=json.dumps([str(folder / "shared")]),
        PYTHONPATH=str(folder / "code"),
    )
    with running(fleet):
        asyncio.run(fleet.until_ready(nodes=2))
        yield fleet


def call(function: str, *args: object) -> dict[str, object]:
    return {"function": f"talking:{function}", "args": list(args)}


def command(fleet: LocalFleet, *words: str) -> list[str]:
    return [
        *(sys.executable, "-m", "crawlfleet", *words),
        *("--url", fleet.url, "--key", fleet.key),
    ]


def test_ten_thousand_lines_and_progress_are_seen_live_and_kept(fleet: LocalFleet) -> None:
    async def scene() -> None:
        async with fleet.client() as client:
            receipt = await client.submit("python", call("talk", LINES))
            seen: list[LogLineView] = []
            steps: list[float] = []
            while_running = 0
            async for _, line in client.follow_task(receipt.id):
                seen.append(line)
                if len(seen) % 1000 == 0:
                    task = await client.task(receipt.id)
                    if task.status == "processing":
                        while_running = len(seen)
                        steps += [task.progress.done] if task.progress else []
            assert while_running >= 1000, "lines must come while the work runs"
            assert steps
            assert steps == sorted(steps)
            assert [line.seq for line in seen] == [*range(1, LINES + 2)]
            told = [line.message for line in seen if line.level == "info"]
            assert told == [f"line {number}" for number in range(1, LINES + 1)]
            (loud,) = [line for line in seen if line.level == "warning"]
            assert (loud.message, loud.fields) == ("all said", {"lines": LINES})

            (attempt,) = await client.executions(receipt.id)
            kept = [line async for line in client.logs(attempt.id)]
            assert kept == seen
            assert attempt.metrics["progress_done"] == LINES
            assert attempt.metrics["progress_total"] == LINES
            assert (await client.task(receipt.id)).progress is None

    asyncio.run(scene())


def test_the_command_line_follows_a_log_and_filters_it(fleet: LocalFleet, folder: Path) -> None:
    go_on = folder / "shared" / "go on"

    async def submit() -> str:
        async with fleet.client() as client:
            return (await client.submit("python", call("talk_when_told", str(go_on)))).id

    task = asyncio.run(submit())
    with subprocess.Popen(
        command(fleet, "logs", task, "--follow", "--json"), stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        # The rest is only said when the first line has been seen.
        first = json.loads(following.stdout.readline())
        go_on.touch()
        rest = [json.loads(line) for line in following.stdout]
    assert following.returncode == 0
    assert first["message"] == "line 1"
    assert [line["message"] for line in rest] == [
        *(f"line {number}" for number in range(2, 31)),
        "all said",
    ]

    loud = subprocess.run(
        command(fleet, "logs", task, "--level", "warning"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert loud.stdout.count("\n") == 1
    assert loud.stdout.rstrip().endswith("warning  all said  lines=30")
    sought = subprocess.run(
        command(fleet, "logs", task, "--grep", "^LINE [12]0$|lines=", "--regex", "--since", "1h"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert sought.stdout.count("\n") == 1, sought.stdout
    assert sought.stdout.rstrip().endswith("all said  lines=30")


def test_following_goes_on_with_the_next_attempt(fleet: LocalFleet, folder: Path) -> None:
    async def scene() -> None:
        async with fleet.client() as client:
            receipt = await client.submit(
                "python",
                call("fail_once", str(folder / "shared" / "failed")),
                retry_policy={"initial_delay_s": 0.1},
            )
            told = [(id, line.message) async for id, line in client.follow_task(receipt.id)]
            assert [message for _, message in told] == ["attempt first", "attempt second"]
            assert len({id for id, _ in told}) == 2

    asyncio.run(scene())


def test_a_flood_is_capped_and_says_so_and_the_others_are_heard(fleet: LocalFleet) -> None:
    async def scene() -> None:
        async with fleet.client() as client:
            flood = await client.submit("python", call("flood", 20))
            quiet = await client.submit("python", call("talk", 10))
            assert (await client.wait(flood.id)).status == "completed"
            assert (await client.wait(quiet.id)).status == "completed"
            attempt = (await client.executions(flood.id))[-1]
            followed = [line.seq async for line in client.stream_logs(attempt.id)]
            assert followed == sorted(set(followed))
            async with asyncio.timeout(60):
                while True:
                    lines = [line async for line in client.logs(attempt.id)]
                    if lines[-1].message.startswith("000199999"):
                        break
                    await asyncio.sleep(0.2)
            assert 500_000 < sum(len(line.message) for line in lines) < 1_000_000
            said = [line for line in lines if not line.fields]
            numbers = [int(line.message[:9]) for line in said]
            assert numbers[0] == 0
            assert numbers == sorted(set(numbers))
            (left_out,) = [line for line in lines if line.fields]
            assert "left out" in left_out.message
            assert left_out.fields["left_out"] == 200_000 - len(numbers)
            spoken = (await client.executions(quiet.id))[-1]
            assert len([line async for line in client.logs(spoken.id)]) == 11

    asyncio.run(scene())


def test_lines_that_were_seen_survive_the_death_of_their_node_and_of_the_master(
    folder: Path,
) -> None:
    fleet = LocalFleet(
        folder / "mortal",
        workers=1,
        CRAWLFLEET_WORKER_PYTHON_ALLOW=json.dumps(["talking:*"]),
        PYTHONPATH=str(folder / "code"),
    )

    async def watch() -> list[LogLineView]:
        await fleet.until_ready(nodes=1)
        seen: list[LogLineView] = []
        async with fleet.client() as client:
            receipt = await client.submit("python", call("talk_for_ever", 0.01))
            while not (attempts := await client.executions(receipt.id)):
                await asyncio.sleep(0.05)
            async for line in client.stream_logs(attempts[0].id):
                seen.append(line)
                if len(seen) == 200:
                    assert fleet.kill("worker") == 1
                    break
        return seen

    async def read(execution: str) -> list[LogLineView]:
        await fleet.until_ready()
        async with fleet.client() as client:
            return [line async for line in client.logs(execution)]

    with running(fleet):
        seen = asyncio.run(watch())
        fleet.kill("all")
    ((execution,),) = fleet.query("select id from crawler_task_executions order by token limit 1")
    with running(fleet):
        kept = asyncio.run(read(execution))
    assert kept[:200] == seen


def test_nodes_have_a_history_and_labels(fleet: LocalFleet) -> None:
    async def scene() -> str:
        async with fleet.client() as client:
            node = (await client.nodes())[0]
            async with asyncio.timeout(30):
                while True:
                    history = await client.node_history(node.id, resolution="raw")
                    if len(history.items) > 3:
                        break
                    await asyncio.sleep(0.5)
            assert all(0 < sample.memory_usage <= 1 for sample in history.items)
            node = (await client.nodes())[0]  # its health is judged by now
            changed = await client.change_node(node.id, labels={"rack": "7"}, version=node.version)
            assert changed.labels["rack"] == "7"
            with pytest.raises(CrawlfleetError, match="changed since"):
                await client.change_node(node.id, labels={"rack": "8"}, version=node.version)
            return node.id

    node = asyncio.run(scene())

    def run(*words: str) -> str:
        environ = {**os.environ, "COLUMNS": "200"}
        return subprocess.run(
            command(fleet, "nodes", *words),
            capture_output=True,
            text=True,
            check=True,
            env=environ,
        ).stdout

    assert "memory" in run("history", node, "--resolution", "raw")
    labelled = json.loads(run("label", node, "zone=a", "rack-", "--json"))
    assert labelled["labels"]["zone"] == "a"
    assert "rack" not in labelled["labels"]
