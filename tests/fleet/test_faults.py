"""What can go wrong around a fleet: after each, every task has completed once, by itself."""

import asyncio
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.client import Client
from crawlfleet.errors import CrawlfleetError
from tests.support.crowds import crowds
from tests.support.local_fleet import STOCK_SESSION, LocalFleet, running
from tests.support.lossy_proxy import LossyProxy
from tests.support.machines import SetClock, filled, network, small_disk, wrong_clock
from tests.support.promises import check_completed_once, submit_sleeps, until_completed
from tests.support.servers import postgres_server
from tests.support.several_masters import SeveralMasters, running_all

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
TASKS = 3_000 if SOAK else 400
ROUNDS = 10 if SOAK else 2
SEED = int(os.environ.get("CRAWLFLEET_SEED") or (random.randrange(10**6) if SOAK else 5))
SECONDS = 0.02
WITHIN_S = 300

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def _tell_seed() -> None:
    print(f"CRAWLFLEET_SEED={SEED}")


def _one_master(folder: Path, **settings: Any) -> SeveralMasters:
    return SeveralMasters(folder, store=f"sqlite:///{folder}/fleet.db", masters=1, **settings)


def _asking(folder: Path) -> Callable[[str], list[tuple[Any, ...]]]:
    def ask(sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{folder / 'fleet.db'}?mode=ro", uri=True)) as file:
            return file.execute(sql).fetchall()

    return ask


def test_answers_that_are_lost_after_the_commit_change_nothing(tmp_path: Path) -> None:
    async def scene(fleet: SeveralMasters) -> LossyProxy:
        fleet.start("master-1")
        await fleet.until_ready("master-1")
        url = fleet.urls["master-1"]
        proxy = LossyProxy(int(url.rpartition(":")[2]), loss=0.05, seed=SEED)
        async with proxy.listening() as lossy:
            for worker in fleet.workers:
                fleet.start(worker, masters=[lossy])
            async with fleet.client_at(lossy) as client:
                for first in range(0, TASKS, 20):
                    tasks = range(first, first + 20)
                    await submit_sleeps(client, tasks, seconds=SECONDS, tries=100)
                await until_completed(client, TASKS, within_s=WITHIN_S)
        return proxy

    fleet = _one_master(tmp_path)
    try:
        proxy = asyncio.run(scene(fleet))
    finally:
        fleet.end()
    assert proxy.lost > 10, "answers must have been lost"
    check_completed_once(_asking(tmp_path), TASKS)


def test_a_node_that_is_cut_off_comes_back_and_repeats_nothing(tmp_path: Path) -> None:
    async def scene(fleet: SeveralMasters, cable: Any) -> int:
        fleet.start("master-1")
        await fleet.until_ready("master-1")
        fleet.start("worker-1", within=cable.within)
        fleet.start("worker-2")
        await fleet.until_ready("master-1", nodes=2)
        silent = 0
        async with fleet.client("master-1") as client:
            await submit_sleeps(client, range(TASKS), seconds=SECONDS * 10)
            for _ in range(ROUNDS):
                await asyncio.sleep(1.0)
                cable.cut()
                try:
                    silent += await _is_missed(client, within_s=60)
                finally:
                    cable.heal()
                await fleet.until_ready("master-1", nodes=2)
            await until_completed(client, TASKS, within_s=WITHIN_S)
        return silent

    async def _is_missed(client: Any, *, within_s: float) -> bool:
        async with asyncio.timeout(within_s):
            while (await client.status()).totals.nodes.get("online", 0) > 1:
                await asyncio.sleep(0.1)
        return True

    with network(1) as cable:
        fleet = _one_master(tmp_path, host=cable.near, CRAWLFLEET_SERVER_PLAIN_HTTP="true")
        try:
            silent = asyncio.run(scene(fleet, cable))
        finally:
            fleet.end()
    assert silent == ROUNDS
    check_completed_once(_asking(tmp_path), TASKS)


def test_a_node_whose_disk_is_full_goes_on_and_loses_nothing(tmp_path: Path) -> None:
    async def scene(fleet: SeveralMasters, disk: Path) -> None:
        await fleet.until_ready("master-1", nodes=1)
        async with fleet.client("master-1") as client:
            with filled(disk):
                await submit_sleeps(client, range(TASKS), seconds=SECONDS)
                for _ in range(ROUNDS):
                    await asyncio.sleep(0.5)
                    fleet.kill("master-1")
                    # Long enough that what has ended would be kept on the disk.
                    await asyncio.sleep(1.0)
                    fleet.start("master-1")
                    await fleet.until_ready("master-1", nodes=1)
            await until_completed(client, TASKS, within_s=WITHIN_S)

    fleet = _one_master(tmp_path, workers=1)
    with small_disk(fleet.folder("worker-1"), megabytes=1) as disk, running_all(fleet):
        asyncio.run(scene(fleet, disk))
        fleet.end()
    check_completed_once(_asking(tmp_path), TASKS)


def test_a_node_that_joins_while_its_disk_is_full_works_and_stays_who_it_is(
    tmp_path: Path,
) -> None:
    async def scene(fleet: SeveralMasters, disk: Path) -> None:
        fleet.start("worker-1")
        async with asyncio.timeout(60):
            while "cannot register yet" not in fleet.log("worker-1"):
                await asyncio.sleep(0.05)
        with filled(disk):
            fleet.start("master-1")
            await fleet.until_ready("master-1", nodes=1)
            async with fleet.client("master-1") as client:
                await submit_sleeps(client, range(TASKS), seconds=SECONDS)
                await until_completed(client, TASKS, within_s=WITHIN_S)
        async with asyncio.timeout(60):
            while not (disk / "nodes" / "worker-1.json").exists():
                await asyncio.sleep(0.05)
        fleet.kill("worker-1")
        fleet.start("worker-1")
        async with asyncio.timeout(60), fleet.client("master-1") as client:
            while fleet.log("worker-1").count("session opened") < 2:
                await asyncio.sleep(0.05)
            assert len(await client.nodes()) == 1

    fleet = _one_master(tmp_path, workers=1)
    try:
        with small_disk(fleet.folder("worker-1"), megabytes=1) as disk:
            asyncio.run(scene(fleet, disk))
            fleet.end()
    finally:
        fleet.end()
    check_completed_once(_asking(tmp_path), TASKS)


async def _submit_until_refused(client: Client) -> None:
    """Until the refusal names the disk; others may come first, while the store is read again."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client.submit("sleep", {"seconds": 0})
            except CrawlfleetError as error:
                if "full" in str(error):
                    raise
                await asyncio.sleep(0.1)


def test_a_master_whose_disk_is_full_says_so_and_goes_on_when_it_is_not(tmp_path: Path) -> None:
    async def scene(fleet: LocalFleet, disk: Path) -> None:
        await fleet.until_ready(nodes=2)
        async with fleet.client() as client:
            await submit_sleeps(client, range(TASKS), seconds=SECONDS)
            with filled(disk):
                with pytest.raises(CrawlfleetError) as refusal:
                    await _submit_until_refused(client)
                assert "full" in str(refusal.value), refusal.value
                await asyncio.sleep(2.0)
            counts = await fleet.until_done(TASKS, within_s=WITHIN_S)
            assert set(counts) == {"completed"}
            # What was refused may be submitted again; what was accepted is known.
            await submit_sleeps(client, range(TASKS), seconds=SECONDS)

    with small_disk(tmp_path / "fleet", megabytes=32) as disk:
        fleet = LocalFleet(disk)
        with running(fleet):
            asyncio.run(scene(fleet, disk))
            assert fleet.stop() == 0
            ((tasks,),) = fleet.query("select count(*) from crawler_tasks")
            check_completed_once(fleet.query, tasks)


def test_a_master_whose_store_is_removed_accepts_nothing_and_says_why(tmp_path: Path) -> None:
    async def scene(fleet: LocalFleet) -> None:
        await fleet.until_ready()
        async with fleet.client() as client:
            await submit_sleeps(client, range(20), seconds=SECONDS)
            store.rename(away)
            with pytest.raises(CrawlfleetError, match="moved away while it was open"):
                await client.submit("sleep", {"seconds": 0})
            (found,) = [e for e in await client.attention() if e.kind == "store_unusable"]
            assert "Move the file back" in found.message
            away.rename(store)
            await submit_sleeps(client, range(20, 40), seconds=SECONDS, tries=100)

    fleet = LocalFleet(tmp_path / "fleet", workers=0)
    store = fleet.folder / "crawlfleet.db"
    away = store.with_suffix(".away")
    with running(fleet):
        asyncio.run(scene(fleet))
        assert fleet.stop() == 0
        ((tasks,),) = fleet.query("select count(*) from crawler_tasks")
        assert tasks == 40


# What plays the wrong clock breaks `time.sleep`, by which the standard library waits for processes.
NO_CELLS = {"CRAWLFLEET_WORKER_SANDBOX_LEVEL": "off"}


def test_nodes_with_wrong_clocks_work_like_others(tmp_path: Path) -> None:
    async def scene(fleet: SeveralMasters) -> None:
        fleet.start("master-1")
        fleet.start("worker-1", environment=wrong_clock("+1d") | NO_CELLS)
        fleet.start("worker-2", environment=wrong_clock("-3h") | NO_CELLS)
        await fleet.until_ready("master-1", nodes=2)
        async with fleet.client("master-1") as client:
            await submit_sleeps(client, range(TASKS), seconds=SECONDS, timeout=30)
            await until_completed(client, TASKS, within_s=WITHIN_S)
            for node in await client.nodes():
                assert node.status == "online"

    fleet = _one_master(tmp_path)
    try:
        asyncio.run(scene(fleet))
        for name in (*fleet.workers, *fleet.urls):
            fleet.kill(name, signal.SIGTERM)
    finally:
        fleet.end()
    ask = _asking(tmp_path)
    check_completed_once(ask, TASKS)
    ((first, last, longest),) = ask(
        "select min(started_at - created_at), max(completed_at), max(completed_at - started_at) "
        "from crawler_tasks"
    )
    assert first >= -1.0, "nothing began before it was submitted"
    assert last < time.time() + 60.0, "nothing ends in the future"
    assert 0.0 <= longest < 120.0


def test_clocks_that_are_set_while_tasks_run_end_none_of_them(tmp_path: Path) -> None:
    async def scene(fleet: SeveralMasters) -> None:
        for name in ("master-1", "worker-1"):
            fleet.start(name, environment=clock.environment | NO_CELLS)
        await fleet.until_ready("master-1", nodes=1)
        async with fleet.client("master-1") as client:
            for offset in ("+1h", "-1h"):
                task = await client.submit("sleep", {"seconds": 10}, timeout=160, max_retries=0)
                async with asyncio.timeout(WITHIN_S):
                    while (await client.task(task.id)).status != "processing":
                        await asyncio.sleep(0.1)
                clock.set(offset)
                ended = await client.wait(task.id)
                assert ended.status == "completed"
                found = {each.kind: each for each in await client.attention()}
                assert "set" in found["clock_set"].message

    clock = SetClock(tmp_path / "clock")
    fleet = _one_master(tmp_path, workers=1)
    try:
        asyncio.run(scene(fleet))
    finally:
        fleet.end()


def test_a_worker_and_the_leading_master_that_die_together_cost_nothing(tmp_path: Path) -> None:
    async def scene(fleet: SeveralMasters) -> None:
        chance = random.Random(SEED)
        for name in fleet.urls:
            await fleet.until_ready(name, nodes=len(fleet.workers))
        async with fleet.client() as client:
            await submit_sleeps(client, range(TASKS), seconds=SECONDS * 5, tries=100)
            for _ in range(ROUNDS):
                leader = await fleet.leader()
                await asyncio.sleep(chance.uniform(0.1, 0.8))
                worker = chance.choice(fleet.workers)
                fleet.kill(leader)
                fleet.kill(worker)
                await fleet.leader(other_than=leader)
                fleet.start(leader)
                fleet.start(worker)
                await fleet.until_ready(leader, nodes=len(fleet.workers))
            await until_completed(client, TASKS, within_s=WITHIN_S)

    with postgres_server() as server:
        with running_all(SeveralMasters(tmp_path, store=server.url())) as fleet:
            asyncio.run(scene(fleet))
            for name in (*fleet.workers, *fleet.urls):
                fleet.kill(name, signal.SIGTERM)
        check_completed_once(server.execute, TASKS)


def test_five_hundred_nodes_that_register_at_once_are_all_taken(tmp_path: Path) -> None:
    fleet = LocalFleet(tmp_path / "fleet", workers=0, **STOCK_SESSION)
    with running(fleet):
        asyncio.run(fleet.until_ready())
        with crowds(fleet, 1) as crowd:
            crowd.add(500)
            asyncio.run(fleet.until_ready(nodes=500, within_s=120))
            # One that has no answer yet does not know which node it is.
            answered, deadline = 0, time.monotonic() + 60
            while answered < 500 and time.monotonic() < deadline:
                time.sleep(0.1)
                answered += len(crowd.figures()["times"].get("register", ()))
            assert answered == 500
            for _ in range(ROUNDS // 2):
                fleet.kill("master")
                # Longer than their sessions, so that all of them must register.
                time.sleep(13.0)
                asyncio.run(fleet.until_ready(nodes=500, within_s=120))
            crowd.figures()
        ((nodes,),) = fleet.query("select count(*) from crawler_nodes")
    assert nodes == 500, "each came back as the node that it was"
