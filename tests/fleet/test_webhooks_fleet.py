"""Call-backs to a receiver that drops, fails, dawdles and restarts, while masters are killed."""

import asyncio
import contextlib
import json
import os
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.errors import CrawlfleetError
from crawlfleet.features.webhooks.rules.signing import is_signed
from tests.support.local_fleet import LocalFleet, running

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
KILLS = 20 if SOAK else 2
TASKS = 15 if SOAK else 6

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Engine:
    """A workflow engine with moods. What it has taken in counts, whatever it answers."""

    def __init__(self) -> None:
        self._chance = random.Random(5)
        self.calls: list[tuple[str, dict[str, str], bytes]] = []
        self.answered: set[str] = set()
        self._server: asyncio.Server | None = None
        self._port = 0

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{self._port}/api/v1"

    def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = head.split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
                body = await reader.readexactly(int(headers["Content-Length"]))
                mood = self._chance.random()
                if mood < 0.1:
                    break  # drops it unread
                self.calls.append((lines[0].split()[1], headers, body))
                if mood < 0.2:
                    break  # read it, and dies
                if mood < 0.3:
                    await asyncio.sleep(1.5)  # longer than it may take
                status = "500 No" if mood < 0.4 else "200 OK"
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
                await writer.drain()
        writer.transport.abort()


async def _settled(fleet: LocalFleet, *webhook_ids: str) -> bool:
    with contextlib.suppress(CrawlfleetError):
        async with fleet.client() as client:
            found = [await client.webhook(each) for each in webhook_ids]
            return not any(each.waiting for each in found)
    return False


async def _scene(fleet: LocalFleet) -> tuple[Engine, dict[str, str], list[str]]:
    engine = Engine()
    url = await engine.start()
    await fleet.until_ready(nodes=1)
    tasks: list[str] = []
    async with fleet.client() as client:
        made = await client.create_webhook("engine", url, format="workflow")
        carrier = await client.create_webhook("callbacks", url, format="callback")

    async def submit() -> None:
        while len(tasks) < TASKS * (KILLS + 1):
            with contextlib.suppress(CrawlfleetError):
                async with fleet.client() as client:
                    number = len(tasks)
                    task = await client.submit(
                        "sleep",
                        {"seconds": 0.01},
                        workflow_id=f"inst-{number}",
                        callback_url=f"{url}/mine/{number}",
                        idempotency_key=str(number),
                    )
                    tasks.append(task.id)
            await asyncio.sleep(0.02)

    submitting = asyncio.create_task(submit())
    for number in range(KILLS):
        while len(tasks) < TASKS * (number + 1):
            await asyncio.sleep(0.02)
        fleet.kill("all")
        engine.stop()
        fleet.start()
        await asyncio.sleep(1)
        await engine.start()
        await fleet.until_ready(nodes=1)
    await submitting
    await fleet.until_done(len(tasks), within_s=120)
    async with asyncio.timeout(240):
        while not await _settled(fleet, made.webhook.id, carrier.webhook.id):
            await asyncio.sleep(0.2)
    engine.stop()
    return engine, {"workflowInstances": made.secret, "mine": carrier.secret}, tasks


def test_all_call_backs_arrive_in_order_though_everybody_is_killed(tmp_path: Path) -> None:
    fleet = LocalFleet(
        tmp_path / "fleet",
        workers=1,
        CRAWLFLEET_WEBHOOKS_ALLOW_PRIVATE="true",
        CRAWLFLEET_WEBHOOKS_TIMEOUT_S="1",
        CRAWLFLEET_WEBHOOKS_FIRST_RETRY_S="0.2",
        CRAWLFLEET_WEBHOOKS_LONGEST_RETRY_S="1",
        CRAWLFLEET_WEBHOOKS_MAX_ATTEMPTS="1000",
    )
    with running(fleet):
        engine, secrets, tasks = asyncio.run(_scene(fleet))
        told = fleet.query(
            "select subject, seq from crawler_events where kind like 'task.%' order by seq"
        )
    wanted: dict[str, list[int]] = defaultdict(list)
    for subject, seq in told:
        wanted[subject].append(seq)
    assert {*wanted} == {*tasks}
    bodies: dict[str, bytes] = {}
    came: dict[str, list[int]] = defaultdict(list)
    ends: dict[str, set[str]] = defaultdict(set)
    latest: dict[str, int] = defaultdict(int)
    own_ends: dict[str, set[str]] = defaultdict(set)
    for path, headers, body in engine.calls:
        document: dict[str, Any] = json.loads(body)
        stamp = int(headers["Crawlfleet-Timestamp"])
        whose = path.split("/")[3]
        assert is_signed(headers["Crawlfleet-Signature"], secrets[whose], stamp, body)
        assert headers["Idempotency-Key"] == document["id"]
        # What comes twice is the same, to the byte.
        assert bodies.setdefault(document["id"], body) == body
        if whose == "mine":
            # Not each state comes, but none comes after a newer one, and the end always does.
            assert document["seq"] >= latest[document["task_id"]]
            latest[document["task_id"]] = document["seq"]
            if path.endswith(":complete"):
                own_ends[document["task_id"]].add(document["id"])
            continue
        came[document["task_id"]].append(document["seq"])
        assert path.startswith(f"/api/v1/workflowInstances/{document['workflow_id']}:")
        if path.endswith(":complete"):
            ends[document["task_id"]].add(document["id"])
            assert document["status"] == "completed"
    assert {task: sorted({*seqs}) for task, seqs in came.items()} == wanted
    assert all(seqs == sorted(seqs) for seqs in came.values())
    assert all(len(ends[task]) == 1 for task in tasks)
    assert all(len(own_ends[task]) == 1 for task in tasks)
    assert all(latest[task] == wanted[task][-1] for task in tasks)
    assert len(engine.calls) > len(bodies), "the engine was too kind"
