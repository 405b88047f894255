"""Environments ahead of the work, at the master: who is asked, who may fetch, who waits."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

from crawlfleet.adapters.files.bundles import BundleFolder
from crawlfleet.core.placement.rules import default_rules
from crawlfleet.features.bundles.service import Bundles
from crawlfleet.model.bundle import BundleFetch, BundleRequest
from crawlfleet.model.settings import DispatchSettings
from crawlfleet.model.wire.node_protocol import Heartbeat, ReportKind
from crawlfleet.model.wire.services import BUNDLE
from tests.code_archives import packed
from tests.control.stage import PlayedNode, Stage, stage

ONE, TWO = (packed({"tool.py": f"print({number})"}) for number in (1, 2))
OFFERS = {"capabilities": {"bundles": True}, "task_types": ("command",)}
WORK = {"task_type": "command", "project_id": "shop", "bundle": "tools"}


def run(tmp_path: Path, scenario: Any, **dispatch: float) -> None:
    async def play() -> None:
        settings = DispatchSettings(**dispatch)
        async with stage(archives=BundleFolder(tmp_path), dispatch=settings) as at:
            async with asyncio.timeout(30):
                await scenario(at)

    asyncio.run(play())


def digest_of(archive: bytes) -> str:
    return hashlib.sha256(archive).hexdigest()


async def deploy(at: Stage, archive: bytes) -> None:
    request = BundleRequest(name="tools", archive=archive)
    await at.control.service(Bundles).deploy("shop", request, by="ann")


async def polling_node(at: Stage, name: str = "n", **fields: Any) -> PlayedNode:
    """One that has asked this master for work, and said that it has no environment."""
    node = await at.node(name, **OFFERS, **fields)
    await tell(at, node)
    await node.lease(wait_s=0)
    return node


async def submit(at: Stage) -> Any:
    return await at.submit(**WORK)


async def tell(at: Stage, node: PlayedNode, *archives: bytes) -> None:
    told = Heartbeat(session_id=node.session_id, environments=tuple(map(digest_of, archives)))
    await at.control.nodes.heartbeat(node.id, told)


def test_who_is_asked_to_make_an_environment_may_fetch_its_code_and_no_other(
    tmp_path: Path,
) -> None:
    async def scenario(at: Stage) -> None:
        node = await at.node(**OFFERS)
        await tell(at, node)
        polling = asyncio.create_task(node.lease(wait_s=20))
        await deploy(at, ONE)
        (ref,) = (await polling).warm
        assert (ref.name, ref.number, ref.digest) == ("tools", 1, digest_of(ONE))
        assert (await node.lease(wait_s=0)).warm == ()
        assert (await node.request(None, BUNDLE, BundleFetch(digest=ref.digest))).data == ONE
        await at.control.service(Bundles)._kept.put(digest_of(TWO), TWO)
        other = await node.request(None, BUNDLE, BundleFetch(digest=digest_of(TWO)))
        assert "was not asked" in other.refusal

    run(tmp_path, scenario)


def test_what_nodes_tell_is_known_until_they_tell_otherwise(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        node = await at.node(**OFFERS)
        await deploy(at, ONE)
        version = (await at.control.service(Bundles).get("shop", "tools")).versions[0]
        await tell(at, node, ONE)
        assert at.control.service(Bundles).ready_on(version) == [node.id]
        await node.beat()
        assert at.control.service(Bundles).ready_on(version) == [node.id]
        await tell(at, node)
        assert at.control.service(Bundles).ready_on(version) == []

    run(tmp_path, scenario)


def test_work_waits_for_the_environment_and_explain_says_where(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        node = await polling_node(at, "maker")
        await polling_node(at, "idler")
        await deploy(at, ONE)
        (making,) = at.control.service(Bundles).warming.making[digest_of(ONE)]
        asked = at.control.nodes.get(making)
        task = await submit(at)
        while not at.control.service(Bundles).warming.held:
            await asyncio.sleep(0)
        told = (await at.control.queries.explain(task.id)).summary
        assert told == (
            f"waits for the environment of tools@1 on {asked.name}, which is being made"
        )
        other = PlayedNode(at.control, _Who(making, asked.session_id))  # type: ignore[arg-type]
        await tell(at, other, ONE)
        assignment = await other.take()
        assert assignment.task_id == task.id
        assert node.id in at.control.state.nodes

    run(tmp_path, scenario, warm_patience_s=600.0)


class _Who:
    def __init__(self, node_id: str, session_id: str | None) -> None:
        self.node_id, self.session_id = node_id, session_id


def test_work_that_waited_long_enough_begins_elsewhere(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        node = await polling_node(at)
        await deploy(at, ONE)
        task = await submit(at)
        # Nobody says that the environment was made: the patience alone ends.
        while not (reply := await node.lease(wait_s=20)).assignments:
            assert reply.warm
        assert reply.assignments[0].task_id == task.id

    run(tmp_path, scenario, warm_patience_s=0.2)


def test_more_nodes_are_asked_when_more_work_waits(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        first = await at.node(slots=1, **OFFERS)
        await deploy(at, ONE)
        await tell(at, first, ONE)
        running = await submit(at)
        assignment = await first.take()
        await first.report(assignment, ReportKind.STARTED)
        second = await at.node("second", slots=1, **OFFERS)
        await tell(at, second)
        polling = asyncio.create_task(second.lease(wait_s=20))
        waiting = await submit(at)
        reply = await polling
        assert [str(ref) for ref in reply.warm] == ["tools@1"]
        assert reply.assignments == ()
        told = (await at.control.queries.explain(waiting.id)).summary
        assert told.startswith("waits for the environment of tools@1 on ")
        await tell(at, second, ONE)
        assert (await second.take()).task_id == waiting.id
        assert running.id != waiting.id

    run(tmp_path, scenario, warm_patience_s=600.0)


def test_nodes_that_ask_another_master_for_work_are_not_asked_here(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        elsewhere = await at.node("elsewhere", slots=9, **OFFERS)
        await elsewhere.beat()
        await deploy(at, ONE)
        warming = at.control.service(Bundles).warming
        assert warming.making == {}, "nobody would wait for what nobody makes"
        here = await polling_node(at, "here", slots=1)
        await deploy(at, TWO)
        assert warming.making == {digest_of(TWO): [here.id]}
        await tell(at, here, TWO)
        for _ in range(3):
            await submit(at)
        while not warming.held:
            await asyncio.sleep(0)
        warming._looked.clear()
        await warming.for_work(warming.held, default_rules())
        assert not warming.is_asked(elsewhere.id, digest_of(TWO))
        assert warming.making == {}

    run(tmp_path, scenario, warm_patience_s=600.0)


def test_a_deploy_asks_no_node_that_is_kept_for_another_project(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        kept = await polling_node(at, "kept", slots=9, labels={"team": "bank"})
        free = await polling_node(at, "free", slots=1)
        at.control.state.fleet.keep_nodes({"bank": (("team", "bank"),)})
        await deploy(at, ONE)
        warming = at.control.service(Bundles).warming
        assert warming.making == {digest_of(ONE): [free.id]}
        fetch = BundleFetch(digest=digest_of(ONE))
        assert "was not asked" in (await kept.request(None, BUNDLE, fetch)).refusal

    run(tmp_path, scenario)


def test_what_a_removed_node_had_is_not_kept(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        node = await at.node(**OFFERS)
        await tell(at, node, ONE)
        fleet = at.control.state.fleet
        assert fleet.ready(digest_of(ONE)) == [node.id]
        fleet.drop(node.id)
        await tell(at, node, ONE)
        assert fleet.ready(digest_of(ONE)) == []

    run(tmp_path, scenario)


def test_nodes_that_do_not_say_what_they_have_are_not_asked(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        silent = await at.node("silent", **OFFERS)
        await silent.lease(wait_s=0)
        await deploy(at, ONE)
        assert (await silent.lease(wait_s=0)).warm == ()
        await tell(at, silent)
        await deploy(at, TWO)
        assert [ref.number for ref in (await silent.lease(wait_s=0)).warm] == [2]

    run(tmp_path, scenario)
