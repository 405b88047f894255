"""The master answers for frontiers on Redis: begun once, restored when lost, gone at the end."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.files.output import OutputFolder
from crawlfleet.adapters.frontier.folder import CHECKPOINT, FolderShelf
from crawlfleet.adapters.frontier.redis.frontier import RedisFrontier
from crawlfleet.adapters.frontier.redis.server import RedisFrontiers
from crawlfleet.control.leases.services import ServiceCall
from crawlfleet.core.crawls import frontier_codec
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.errors import Busy, FrontierLost, StoreUnavailable
from crawlfleet.features.crawls import remote_frontiers
from crawlfleet.features.crawls import remote_frontiers as placing_module
from crawlfleet.features.crawls.frontiers import Frontiers
from crawlfleet.features.crawls.remote_frontiers import RemoteCrawl, RemoteFrontiers
from crawlfleet.model import ids
from crawlfleet.model.crawl.frontier import Commit, FrontierRules
from crawlfleet.model.crawl.frontier_place import PlaceState
from crawlfleet.model.task import Execution, Task, TaskStatus
from crawlfleet.model.wire.frontier import (
    FrontierLocation,
    FrontierRequest,
    Open,
    Place,
)
from crawlfleet.model.wire.output import Segment
from crawlfleet.testing.frontier_suite.harness import NOW, A, commit, lease, link, links, visit
from tests.support.servers import RedisServer, redis_server

pytestmark = pytest.mark.slow
RULES = FrontierRules(dedup_capacity=1_000_000)


class Fleet:
    """A master that leads, and executions that live while the test says so."""

    def __init__(self, folder: Path, url: str, **parameters: Any) -> None:
        body = "".join(secrets.choice(ids.ALPHABET) for _ in range(ids.BODY_LENGTH))
        self.task = Task(
            id=f"{ids.TASK}-{body}",
            project_id="default",
            task_type="web_crawl",
            created_at=0.0,
            updated_at=0.0,
            parameters=msgspec.Raw(
                msgspec.json.encode({"url": A, "frontier": "redis", **parameters})
            ),
        )
        self.leases: dict[str, Lease] = {}
        self.status = TaskStatus.PROCESSING
        self.shelf = FolderShelf(folder / "frontiers")
        self.output = OutputFolder(folder)
        self.url = url
        self.remote = self.master()

    def master(self) -> RemoteFrontiers:
        state: Any = SimpleNamespace(leases=self.leases)
        system: Any = SimpleNamespace(entropy=secrets.token_bytes)
        store: Any = self
        return RemoteFrontiers(
            store=store,
            state=state,
            system=system,
            shelf=self.shelf,
            server=RedisFrontiers(self.url) if self.url else None,
            output=self.output,
        )

    @property
    def crawl(self) -> RemoteCrawl:
        found = self.remote._crawls.get(self.task.id)
        assert found is not None
        return found

    async def task_states(self, ids: list[str]) -> dict[str, TaskStatus]:
        return dict.fromkeys(ids, self.status)

    def begin(self, name: str) -> str:
        execution = Execution(
            id=name,
            task_id=self.task.id,
            node_id="node",
            session_id="session",
            token=1,
            start_time=0.0,
        )
        self.leases[name] = Lease(self.task, execution)
        return name

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.remote.run())
        await asyncio.sleep(0.02)
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def open(self, placed: FrontierLocation) -> RedisFrontier:
        assert placed.url, placed
        frontier = RedisFrontier(
            url=placed.url, crawl=placed.crawl, rules=RULES, epoch=placed.epoch
        )
        await frontier.open()
        return frontier


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing_module, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(placing_module, "SAVE_EVERY_S", 0.1)


async def until(holds: Any) -> None:
    async with asyncio.timeout(20):
        while not await holds():
            await asyncio.sleep(0.02)


def test_a_frontier_is_begun_once_by_whoever_leads(redis: RedisServer, tmp_path: Path) -> None:
    async def scene() -> None:
        fleet = Fleet(tmp_path, redis.url())
        with pytest.raises(Busy):
            await fleet.remote.place(fleet.task)
        async with fleet.leading():
            placed = [await fleet.remote.place(fleet.task) for _ in range(3)]
            assert len({each.epoch for each in placed}) == 1
            assert placed[0].crawl == fleet.task.id
            assert "redis" not in repr(placed[0])
        # The next leader goes on with the same, and does not begin what is not there.
        fleet.remote = fleet.master()
        async with fleet.leading():
            again = await fleet.remote.place(fleet.task)
            assert again.epoch == placed[0].epoch

    asyncio.run(scene())


def test_one_that_was_about_to_begin_begins_under_the_same_epoch(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        fleet = Fleet(tmp_path, redis.url())

        async def fail(self: RedisFrontier) -> Any:
            raise StoreUnavailable("not now")

        async with fleet.leading():
            with monkeypatch.context() as broken:
                broken.setattr(RedisFrontier, "open", fail)
                assert (await fleet.remote.place(fleet.task)).wait == "not now"
            crawl = fleet.crawl
            assert crawl.place.state is PlaceState.BEGINNING
            epoch = crawl.place.epoch
            assert (await fleet.remote.place(fleet.task)).epoch == epoch

    asyncio.run(scene())


def test_only_crawls_that_want_it_are_told(redis: RedisServer, tmp_path: Path) -> None:
    async def scene() -> None:
        fleet = Fleet(tmp_path, redis.url())
        other = msgspec.structs.replace(fleet.task, task_type="python")
        alone = Fleet(tmp_path, redis.url(), frontier=None)
        part = msgspec.structs.replace(alone.task, parent_id=Fleet(tmp_path, "").task.id)
        async with fleet.leading():
            assert await fleet.remote.place(other) == FrontierLocation()
            assert await fleet.remote.place(alone.task) == FrontierLocation()
            assert (await fleet.remote.place(part)).url

    asyncio.run(scene())


def test_what_is_wrong_with_redis_is_said(tmp_path: Path) -> None:
    async def scene(careless: str) -> None:
        fleet = Fleet(tmp_path, "")
        assert "set `frontier` at the masters" in (await fleet.remote.place(fleet.task)).refusal
        fleet = Fleet(tmp_path, careless)
        async with fleet.leading():
            refusal = (await fleet.remote.place(fleet.task)).refusal
            assert refusal.startswith("`frontier`: ")
            assert "CONFIG SET appendfsync always" in refusal
        fleet = Fleet(tmp_path, "redis://127.0.0.1:9/0")
        async with fleet.leading():
            assert "does not answer" in (await fleet.remote.place(fleet.task)).wait

    with redis_server(fsync=False) as server:
        asyncio.run(scene(server.url()))


def test_leases_of_executions_that_are_over_end(redis: RedisServer, tmp_path: Path) -> None:
    async def scene() -> None:
        fleet = Fleet(tmp_path, redis.url())
        mine, other = fleet.begin("exec-1"), fleet.begin("exec-2")
        async with fleet.leading():
            frontier = await fleet.open(await fleet.remote.place(fleet.task))
            await frontier.add(links("abc"), NOW)
            assert await lease(frontier, worker=mine)
            await asyncio.sleep(0.2)
            assert not await lease(frontier, worker=other)
            del fleet.leases[mine]
            await until(lambda: lease(frontier, worker=other))
            await frontier.close()

    asyncio.run(scene())


def test_a_lost_frontier_is_restored_and_its_output_cut(redis: RedisServer, tmp_path: Path) -> None:
    async def scene() -> None:
        fleet = Fleet(tmp_path, redis.url())
        mine = fleet.begin("exec-1")

        async def put(sequence: int) -> None:
            segment = Segment(sequence=sequence, first=sequence, counted=sequence - 1, shared=True)
            await fleet.output.append(fleet.task.id, 1, mine, "items", segment, b"")

        def receipt(last: int) -> dict[str, Any]:
            runs = [{"execution_id": mine, "last": last, "items": 0}]
            return {f"fleet:items@{mine}": {"runs": runs}}

        async with fleet.leading():
            placed = await fleet.remote.place(fleet.task)
            frontier = await fleet.open(placed)
            await frontier.add(links("abc"), NOW)
            one = (await lease(frontier, worker=mine, urls=2))[A]
            await put(1)
            found = [link("d")]
            done = visit("a", links=found)
            assert not await commit(frontier, one, done, receipts=receipt(1), worker=mine)

            async def is_saved() -> bool:
                return "exec-1" in str(await fleet.crawl.checkpoint.receipts())

            await until(is_saved)
            fleet.crawl.not_before = float("inf")  # saves no more
            await put(2)
            assert not await commit(frontier, one, visit("b"), receipts=receipt(2), worker=mine)
            redis.execute("FLUSHALL")
            with pytest.raises(FrontierLost) as lost:
                await frontier.counts()
            await frontier.close()
            await fleet.remote.lost(fleet.task, placed.epoch, str(lost.value))
            again = await fleet.remote.place(fleet.task)
            assert again.epoch != placed.epoch
            frontier = await fleet.open(again)
            counts = await frontier.counts()
            assert (counts.known, counts.done, counts.leased) == (4, 1, 0)
            assert await frontier.open() == receipt(1)
            cut = fleet.output._cut(fleet.task.id, "items")
            assert cut == {mine: 1}
            await frontier.close()
            # Who comes late with the old epoch changes nothing.
            await fleet.remote.lost(fleet.task, placed.epoch, "again")
            assert (await fleet.remote.place(fleet.task)).epoch == again.epoch

    asyncio.run(scene())


def test_a_crawl_that_has_ended_is_taken_off_redis_and_can_be_tried_again(
    redis: RedisServer, tmp_path: Path
) -> None:
    async def scene() -> None:
        fleet = Fleet(tmp_path, redis.url())
        mine = fleet.begin("exec-1")
        keys = "KEYS", f"crawlfleet:{{{fleet.task.id}*"
        async with fleet.leading():
            frontier = await fleet.open(await fleet.remote.place(fleet.task))
            await frontier.add(links("abc"), NOW)
            one = (await lease(frontier, worker=mine, urls=2))[A]
            assert not await commit(frontier, one, visit("a"), worker=mine)
            await frontier.commit("", Commit(hosts=(), receipts={"notes": 7}))
            await frontier.close()
            fleet.leases.clear()
            await asyncio.sleep(0.2)
            assert redis.execute(*keys) != "*0", "it may be tried again at any moment"
            fleet.status = TaskStatus.FAILED

            async def is_gone() -> bool:
                return redis.execute(*keys) == "*0"

            await until(is_gone)
            async with fleet.remote.reading(fleet.task) as knowing:
                record = await knowing.record(link("a").id)
                assert record is not None
                assert record.status == "done"

            fleet.status = TaskStatus.PENDING
            fleet.begin("exec-2")
            frontier = await fleet.open(await fleet.remote.place(fleet.task))
            counts = await frontier.counts()
            assert (counts.known, counts.done) == (3, 1)
            assert (await frontier.open())["notes"] == 7
            await frontier.close()

            await fleet.remote.discard(fleet.task.id)
            await fleet.shelf.remove(fleet.task.id)
            assert redis.execute(*keys) == "*0"
            assert await fleet.shelf.tasks() == []

    asyncio.run(scene())


def test_who_reads_what_became_of_urls_holds_up_nobody(redis: RedisServer, tmp_path: Path) -> None:
    async def scene() -> None:
        fleet = Fleet(tmp_path, redis.url())
        fleet.begin("exec-1")
        async with fleet.leading():
            frontier = await fleet.open(await fleet.remote.place(fleet.task))
            await frontier.add(links("abc"), NOW)
            await frontier.close()
            async with asyncio.timeout(20), fleet.remote.reading(fleet.task):
                assert (await fleet.remote.place(fleet.task)).url
                await fleet.remote.lost(fleet.task, "of another beginning", "not this one")
            fleet.leases.clear()
            fleet.status = TaskStatus.COMPLETED

            async def is_stored() -> bool:
                return redis.execute("KEYS", f"crawlfleet:{{{fleet.task.id}*") == "*0"

            async with fleet.remote.reading(fleet.task):
                await until(is_stored)
                # It goes when it is not read any more, and was not closed meanwhile.
                async with fleet.remote.reading(fleet.task) as knowing:
                    await asyncio.sleep(0.2)
                    assert await knowing.record(link("a").id) is not None
            assert len(fleet.remote._turns) <= 1, "nothing is kept of crawls that nobody asks for"

    asyncio.run(scene())


def test_a_restore_that_nobody_waited_for_ends_all_the_same(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = RedisFrontier.restore

    async def slowly(self: RedisFrontier, checkpoint: Any) -> None:
        await asyncio.sleep(0.3)
        await restore(self, checkpoint)

    async def scene() -> None:
        fleet = Fleet(tmp_path, redis.url())
        fleet.begin("exec-1")
        async with fleet.leading():
            placed = await fleet.remote.place(fleet.task)
            crawl = fleet.crawl
            await fleet.remote.lost(fleet.task, placed.epoch, "emptied")
            monkeypatch.setattr(RedisFrontier, "restore", slowly)
            monkeypatch.setattr(remote_frontiers, "ANSWER_S", 0.01)
            assert (await fleet.remote.place(fleet.task)).wait == remote_frontiers.RESTORING
            restoring = crawl.restoring
            assert restoring is not None
            await asyncio.wait([restoring])
            saved_at = crawl.saved_at

            again = await fleet.remote.place(fleet.task)
            assert again.epoch not in ("", placed.epoch)

            async def is_saved() -> bool:
                return crawl.saved_at > saved_at

            await until(is_saved)
            await fleet.remote.discard(fleet.task.id)

    asyncio.run(scene())


def test_a_crawl_that_is_discarded_while_another_is_attended_to_ends_nothing_else(
    redis: RedisServer, tmp_path: Path
) -> None:
    async def scene() -> None:
        fleet, other = Fleet(tmp_path, redis.url()), Fleet(tmp_path, redis.url())
        fleet.begin("exec-1")
        async with fleet.leading():
            for task in (fleet.task, other.task):
                assert (await fleet.remote.place(task)).epoch
            first = fleet.crawl
            frontier = first.frontier
            assert frontier is not None
            counts, asked = frontier.counts, asyncio.Event()

            async def slowly() -> Any:
                asked.set()
                await asyncio.sleep(0.3)
                return await counts()

            frontier.counts = slowly  # type: ignore[method-assign]
            await asyncio.wait_for(asked.wait(), 20)
            await fleet.remote.discard(other.task.id)
            saved_at = first.saved_at

            async def is_saved() -> bool:
                return first.saved_at > saved_at and fleet.remote._leads

            await until(is_saved)
            await asyncio.sleep(0.2)
            assert fleet.remote._leads

    asyncio.run(scene())


def test_a_crawl_is_restored_with_the_partitions_that_it_was_begun_with(
    redis: RedisServer, tmp_path: Path
) -> None:
    async def scene() -> None:
        fleet = Fleet(tmp_path, f"{redis.url()}?partitions=4")
        fleet.begin("exec-1")
        seeds = [link("a", f"https://{number}.example") for number in range(12)]
        async with fleet.leading():
            placed = await fleet.remote.place(fleet.task)
            frontier = await fleet.open(placed)
            await frontier.add(seeds, NOW)
            await frontier.close()

            async def is_saved() -> bool:
                checkpoint = fleet.crawl.checkpoint
                found = [await checkpoint.record(seed.id) for seed in seeds]
                return None not in found

            await until(is_saved)
        fleet.url = f"{redis.url()}?partitions=2"
        fleet.remote = fleet.master()
        redis.execute("FLUSHALL")
        async with fleet.leading():
            frontier = await fleet.open(await fleet.remote.place(fleet.task))
            assert frontier.partitions == 4
            assert (await frontier.counts()).known == len(seeds)
            await frontier.close()

    asyncio.run(scene())


def test_one_checkpoint_that_cannot_be_read_keeps_no_other_from_being_looked_after(
    redis: RedisServer, tmp_path: Path
) -> None:
    async def scene() -> None:
        fleet = Fleet(tmp_path, redis.url())
        async with fleet.leading():
            for task in (fleet.task, Fleet(tmp_path, "").task):
                assert (await fleet.remote.place(task)).epoch
        bad, good = await fleet.shelf.tasks()
        (tmp_path / "frontiers" / bad / CHECKPOINT).write_bytes(b"no database" * 1000)
        fleet.remote = fleet.master()
        async with fleet.leading():

            async def is_known() -> bool:
                return good in fleet.remote._crawls

            await until(is_known)
            assert bad not in fleet.remote._crawls

    asyncio.run(scene())


def test_one_that_is_seen_to_be_lost_is_told_to_nobody_meanwhile(
    redis: RedisServer, tmp_path: Path
) -> None:
    async def scene() -> None:
        fleet = Fleet(tmp_path, redis.url())
        fleet.begin("exec-1")
        async with fleet.leading():
            placed = await fleet.remote.place(fleet.task)
            crawl = fleet.crawl
            assert crawl.frontier is not None
            asked, told = asyncio.Event(), asyncio.Event()

            async def is_lost() -> Any:
                asked.set()
                await told.wait()
                raise FrontierLost("emptied")

            crawl.frontier.workers = is_lost  # type: ignore[method-assign]
            await asyncio.wait_for(asked.wait(), 20)
            waiting = asyncio.create_task(fleet.remote.place(fleet.task))
            await asyncio.sleep(0.1)
            told.set()
            again = await waiting
            await asyncio.sleep(0.2)
            assert again.epoch != placed.epoch
            assert (crawl.place.epoch, crawl.place.state) == (again.epoch, PlaceState.BEGUN)

    asyncio.run(scene())


def test_no_frontier_is_begun_at_the_master_beside_one_on_redis(
    redis: RedisServer, tmp_path: Path
) -> None:
    async def scene() -> None:
        fleet = Fleet(tmp_path, redis.url())
        mine = fleet.begin("exec-1")
        state: Any = SimpleNamespace(leases=fleet.leases)

        frontiers = Frontiers(state=state, shelf=fleet.shelf, remote=fleet.remote)
        frontiers._leads = True

        async def ask(what: Any) -> str:
            data = frontier_codec.written(FrontierRequest(asks=[what]))
            call = ServiceCall(fleet.leases[mine], None, data)
            return (await frontiers.answer(call)).refusal

        async with fleet.leading():
            assert await ask(Place()) == ""
            assert "is in Redis" in await ask(Open())
            assert not await fleet.shelf.has(fleet.task.id)

    asyncio.run(scene())


def test_a_crawl_moves_to_another_redis_when_nobody_works_on_the_old_one(
    redis: RedisServer, tmp_path: Path
) -> None:
    async def scene(elsewhere: str) -> None:
        fleet = Fleet(tmp_path, redis.url())
        old = fleet.begin("exec-1")
        async with fleet.leading():
            placed = await fleet.remote.place(fleet.task, old)
        fleet.url = elsewhere
        fleet.remote = fleet.master()
        new = fleet.begin("exec-2")
        async with fleet.leading():
            for _ in range(2):
                waiting = await fleet.remote.place(fleet.task, new)
                assert "1 of its executions may still work" in waiting.wait
            del fleet.leases[old]
            moved = await fleet.remote.place(fleet.task, new)
            assert (moved.url, moved.wait) == (elsewhere, "")
            assert moved.epoch != placed.epoch
            third = fleet.begin("exec-3")
            assert (await fleet.remote.place(fleet.task, third)).epoch == moved.epoch

    with redis_server() as other:
        asyncio.run(scene(other.url()))
