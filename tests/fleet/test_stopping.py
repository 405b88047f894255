"""Whatever way a command is asked to end, nothing that it started is left."""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from crawlfleet.client import Client
from crawlfleet.testing.known_site import ServedSite, SiteSpec
from tests.crawl.crawling import Command
from tests.handled_signals import handled
from tests.support.local_fleet import LocalFleet, running
from tests.support.several_masters import SeveralMasters, running_all

pytestmark = pytest.mark.slow

OF_TERMINALS = (signal.SIGINT, signal.SIGHUP)
WAYS = [
    pytest.param(signal.SIG_DFL, signal.SIGHUP, id="its terminal goes"),
    # As with `nohup COMMAND &` in a script.
    pytest.param(signal.SIG_IGN, signal.SIGTERM, id="in the background"),
]
WITHIN_S = 60.0


def ignores(processes: Sequence[psutil.Process]) -> None:
    """Send them what a terminal sends, which they have ignored from the beginning."""
    for process in processes:
        for number in OF_TERMINALS:
            process.send_signal(number)


def left_of(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Those that do not end."""
    return psutil.wait_procs(processes, WITHIN_S)[1]


async def is_at_work(client: Client, id: str) -> bool:
    return (await client.task(id)).status == "processing"


@pytest.mark.parametrize(("handler", "ending"), WAYS)
def test_a_fleet_ends_with_all_that_it_started(
    tmp_path: Path, handler: signal.Handlers, ending: signal.Signals
) -> None:
    async def scene() -> None:
        await fleet.until_ready(nodes=1)
        async with fleet.client() as client, asyncio.timeout(WITHIN_S):
            task = await client.submit("sleep", {"seconds": 600})
            while not await is_at_work(client, task.id):
                await asyncio.sleep(0.05)
            if handler is signal.SIG_IGN:
                ignores([each for kind in ("up", "master", "worker") for each in of(kind)])
                assert await is_at_work(client, task.id)

    def of(kind: str) -> list[psutil.Process]:
        found = fleet.processes(kind)
        assert found
        return found

    with handled(handler, *OF_TERMINALS), running(LocalFleet(tmp_path, workers=1)) as fleet:
        asyncio.run(scene())
        family, (top,) = of("all"), of("up")
        assert len(family) >= 4, "the executor is one of them"
        top.send_signal(ending)
        assert top.wait(WITHIN_S) == 0
        assert not left_of(family)
        assert not (tmp_path / "connection.json").exists()


@pytest.mark.parametrize(("handler", "ending"), WAYS)
def test_a_crawl_ends_with_the_processes_that_work_for_it(
    tmp_path: Path, handler: signal.Handlers, ending: signal.Signals
) -> None:
    site = ServedSite(SiteSpec(pages=600, hosts=4, links=12, latency_ms=50))
    with site, handled(handler, *OF_TERMINALS):
        command = Command(tmp_path, site.spec.url(0), "--fast", "--scope=any", "--workers=2")
        with command.start() as process:
            family = until_asked(site, process.pid, 10)
            if handler is signal.SIG_IGN:
                ignores(family[:1])
                until_asked(site, process.pid, len(site.hits()) + 10)
            family[0].send_signal(ending)
            said, _ = process.communicate(timeout=WITHIN_S)
        assert process.returncode == 130, said
        assert "the same command goes on from here" in said
        assert len(family) == 3
        assert not left_of(family)


def until_asked(site: ServedSite, pid: int, requests: int) -> list[psutil.Process]:
    """Wait until a site has had so many requests; the process with its descendants."""

    async def scene() -> list[psutil.Process]:
        async with asyncio.timeout(WITHIN_S):
            while len(site.hits()) < requests:
                await asyncio.sleep(0.05)
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]

    return asyncio.run(scene())


def test_a_master_and_a_worker_leave_in_order_when_their_terminal_goes(tmp_path: Path) -> None:
    async def scene() -> None:
        await fleet.until_ready("master-1", nodes=1)
        worker, master = fleet.process("worker-1"), fleet.process("master-1")
        family = [worker, *worker.children(recursive=True), master]
        async with fleet.client() as client, asyncio.timeout(WITHIN_S):
            worker.send_signal(signal.SIGHUP)
            while [node.status for node in await client.nodes()] != ["offline"]:
                await asyncio.sleep(0.05)
        master.send_signal(signal.SIGHUP)
        assert not await asyncio.to_thread(left_of, family)

    # Long enough for the worker to be offline because it said so.
    settings = {"CRAWLFLEET_SESSION_TIMEOUT_S": "300"}
    store = f"sqlite:///{tmp_path / 'fleet.db'}"
    fleet = SeveralMasters(tmp_path, store=store, masters=1, workers=1, **settings)
    with handled(signal.SIG_DFL, *OF_TERMINALS), running_all(fleet):
        asyncio.run(scene())
