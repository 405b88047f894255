"""Bundles at the master: versions, roll-back, what tasks are pinned to, and who gets the code."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.files.bundles import BundleFolder
from crawlfleet.errors import Conflict, InvalidRequest, NotFound, PreconditionFailed
from crawlfleet.features.bundles.service import Bundles
from crawlfleet.model.bundle import BundleRequest, bundle_id
from crawlfleet.model.requests import CloneRequest
from crawlfleet.model.settings import TaskSettings
from crawlfleet.model.wire.node_protocol import ReportKind
from crawlfleet.model.wire.services import CODE
from crawlfleet.ports.kernel_tables import BUNDLES
from tests.code_archives import packed
from tests.control.stage import Stage, stage

ONE, TWO, THREE = (packed({"tool.py": f"print({number})"}) for number in (1, 2, 3))


async def deploy(at: Stage, archive: bytes, name: str = "tools", project: str = "shop") -> Any:
    request = BundleRequest(name=name, archive=archive)
    return await at.control.service(Bundles).deploy(project, request, by="ann")


def names(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def run(tmp_path: Path, scenario: Any, **sections: Any) -> None:
    async def play() -> None:
        async with stage(archives=BundleFolder(tmp_path), **sections) as at:
            await scenario(at)

    asyncio.run(play())


def test_each_archive_is_a_version_and_the_newest_is_the_present_one(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        first, is_new = await deploy(at, ONE)
        assert (first.current, first.last, is_new) == (1, 1, True)
        second, _ = await deploy(at, TWO)
        assert [each.number for each in second.versions] == [2, 1]
        assert second.current == 2
        assert await deploy(at, TWO) == (second, False)
        assert "shop" in at.control.state.projects
        kinds = [event.kind for event in await at.store.events(after=0, limit=99)]
        assert kinds.count("bundle.deployed") == 2

    run(tmp_path, scenario)


def test_what_was_deployed_before_becomes_the_present_version_again(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        await deploy(at, ONE)
        await deploy(at, TWO)
        bundle, is_new = await deploy(at, ONE)
        assert (bundle.current, bundle.last, len(bundle.versions), is_new) == (1, 2, 2, True)

    run(tmp_path, scenario)


def test_roll_back_goes_to_the_version_before_or_to_the_one_that_is_named(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        for archive in (ONE, TWO, THREE):
            await deploy(at, archive)
        bundles = at.control.service(Bundles)
        assert (await bundles.roll_back("shop", "tools", None, by="ann")).current == 2
        assert (await bundles.roll_back("shop", "tools", None, by="ann")).current == 1
        with pytest.raises(Conflict, match="an older version"):
            await bundles.roll_back("shop", "tools", None, by="ann")
        with pytest.raises(Conflict, match="a version 9"):
            await bundles.roll_back("shop", "tools", 9, by="ann")
        with pytest.raises(PreconditionFailed):
            await bundles.roll_back("shop", "tools", 3, by="ann", if_version=1)
        assert (await bundles.roll_back("shop", "tools", 3, by="ann")).current == 3
        with pytest.raises(NotFound):
            await bundles.roll_back("other", "tools", 1, by="ann")

    run(tmp_path, scenario)


def test_a_task_keeps_the_version_that_it_was_submitted_with(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        await deploy(at, ONE)
        await deploy(at, TWO)
        fields = {"task_type": "python", "project_id": "shop"}
        present = await at.submit(**fields, bundle="tools")
        named = await at.submit(**fields, bundle="tools@1")
        await at.control.service(Bundles).roll_back("shop", "tools", 1, by="ann")
        assert [str((await at.task(each)).bundle) for each in (present, named)] == [
            "tools@2",
            "tools@1",
        ]
        cloned = await at.control.tasks.clone(present.id, CloneRequest(), by="ann")
        assert str(cloned.task and cloned.task.bundle) == "tools@2"
        for wrong in ("tools@7", "none", "tools@", "../x"):
            with pytest.raises(InvalidRequest) as refused:
                await at.submit(**fields, bundle=wrong)
            assert refused.value.problems[0].field == "bundle"
        with pytest.raises(InvalidRequest):
            await at.submit(task_type="python", project_id="other", bundle="tools")
        with pytest.raises(InvalidRequest):
            await at.submit(task_type="sleep", project_id="shop", bundle="tools")
        with pytest.raises(InvalidRequest, match="missing"):
            await at.submit(task_type="scrapy_spider", project_id="shop")

    run(tmp_path, scenario)


def test_only_nodes_that_allow_it_get_code_and_only_that_of_their_tasks(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        await deploy(at, ONE)
        careful = await at.node("careful", task_types=("python",))
        task = await at.submit(task_type="python", project_id="shop", bundle="tools")
        assert await careful.take_all() == ()
        willing = await at.node("willing", task_types=("python",), capabilities={"bundles": True})
        work = await willing.take()
        assert (work.task_id, str(work.bundle)) == (task.id, "tools@1")
        given = await willing.request(work, CODE)
        assert (given.data, given.refusal) == (ONE, "")
        stolen = await careful.request(work, CODE)
        assert stolen.data == b""
        assert "not held" in stolen.refusal

    run(tmp_path, scenario)


def test_what_is_needed_cannot_be_removed(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        for archive in (ONE, TWO, THREE):
            await deploy(at, archive)
        await at.submit(task_type="python", project_id="shop", bundle="tools@2")
        bundles = at.control.service(Bundles)
        with pytest.raises(Conflict, match="present version"):
            await bundles.remove("shop", "tools", 3, by="ann")
        with pytest.raises(Conflict, match="has not ended"):
            await bundles.remove("shop", "tools", 2, by="ann")
        with pytest.raises(Conflict, match="has not ended"):
            await bundles.remove("shop", "tools", None, by="ann")
        left = await bundles.remove("shop", "tools", 1, by="ann")
        assert [each.number for each in left.versions] == [3, 2]
        with pytest.raises(NotFound):
            await bundles.remove("shop", "tools", 1, by="ann")

    run(tmp_path, scenario)


def test_a_removed_bundle_is_gone_and_its_numbers_are_not_used_again(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        await deploy(at, ONE)
        gone = await at.control.service(Bundles).remove("shop", "tools", None, by="ann")
        assert (gone.current, gone.versions) == (0, ())
        with pytest.raises(NotFound):
            await at.control.service(Bundles).get("shop", "tools")
        assert await at.control.service(Bundles).page("shop", after=None, limit=9) == []
        again, _ = await deploy(at, TWO)
        assert [each.number for each in again.versions] == [2]

    run(tmp_path, scenario)


def test_archives_that_no_version_names_are_swept_away_later(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        await deploy(at, ONE)
        await deploy(at, TWO)
        await at.control.service(Bundles).remove("shop", "tools", 1, by="ann")
        assert await at.control.service(Bundles).sweep(3600) == 0
        long_ago = time.time() - 7200
        for path in names(tmp_path):
            os.utime(path, (long_ago, long_ago))
        assert await at.control.service(Bundles).sweep(3600) == 1
        kept = await at.store.get(BUNDLES, bundle_id("shop", "tools"))
        assert kept is not None
        assert [path.stem for path in names(tmp_path)] == [kept.versions[0].digest]

    run(tmp_path, scenario)


def test_a_damaged_archive_is_not_given_to_anybody(tmp_path: Path) -> None:
    async def scenario() -> None:
        folder = BundleFolder(tmp_path)
        digest = "0" * 64
        await folder.put(digest, b"not what it should be")
        assert await folder.get(digest) is None
        with pytest.raises(ValueError, match="no digest"):
            await folder.get("../../etc/passwd")

    asyncio.run(scenario())


def test_bad_archives_and_names_are_told_by_their_field(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        with pytest.raises(InvalidRequest) as refused:
            await deploy(at, packed({"../evil.py": ""}))
        assert refused.value.problems[0].field == "archive"
        with pytest.raises(InvalidRequest) as refused:
            await deploy(at, ONE, name="a/b")
        assert refused.value.problems[0].field == "name"
        assert await at.store.find(BUNDLES.where()) == []

    run(tmp_path, scenario)


def test_a_project_is_made_only_where_tasks_may_make_one(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        with pytest.raises(NotFound):
            await deploy(at, ONE, project="misspelt")
        assert (await deploy(at, ONE, project="default"))[1]

    run(tmp_path, scenario, tasks=TaskSettings(create_projects=False))


def test_many_who_deploy_at_once_all_get_a_version(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        mine = [packed({"tool.py": str(number)}) for number in range(4)]
        await asyncio.gather(*(deploy(at, each) for each in mine))
        bundle = await at.control.service(Bundles).get("shop", "tools")
        assert [each.number for each in bundle.versions] == [4, 3, 2, 1]
        assert len({each.digest for each in bundle.versions}) == 4

    run(tmp_path, scenario)


def test_it_is_known_on_which_nodes_a_version_is_ready(tmp_path: Path) -> None:
    async def scenario(at: Stage) -> None:
        await deploy(at, ONE, project="default")
        bundle, _ = await deploy(at, TWO, project="default")
        node = await at.node(task_types=("python",), capabilities={"bundles": True})
        raw = msgspec.Raw(b'{"function": "tool:f"}')
        await at.submit(task_type="python", parameters=raw, bundle="tools@1")
        work = await node.take()
        ready = at.control.service(Bundles).ready_on
        assert [ready(each) for each in bundle.versions] == [[], []]

        await node.report(work, ReportKind.STARTED)

        assert [ready(each) for each in bundle.versions] == [[], [node.id]]

    run(tmp_path, scenario)
