"""What ought to be looked at, from what a running control plane knows."""

import asyncio
from typing import Any

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.errors import StoreUnavailable
from crawlfleet.features.crawls.service import Crawls
from crawlfleet.model.task import ErrorClass, Task
from crawlfleet.model.wire.node_protocol import Note, NoteBatch, ReportKind
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import stage


def test_tasks_that_nothing_can_run_are_named_with_the_reason() -> None:
    async def scene() -> None:
        async with stage() as on:
            await on.submit()
            await asyncio.sleep(10)
            (alone,) = await on.control.attention.find()
            assert alone.kind == "no_node_online"
            node = await on.node(task_types=("work",))
            await node.take()
            odd = await on.submit(task_type="render")
            huge = await on.submit(min_resources={"cpu_cores": 512})
            for _ in range(5):
                await node.beat()
                await asyncio.sleep(2)
            found = await on.control.attention.find()
            assert {each.subject.id for each in found} == {odd.id, huge.id}
            assert {each.kind for each in found} == {"nothing_can_run"}
            (stuck,) = [each for each in found if each.subject.id == odd.id]
            assert "without an executor for the task type" in stuck.message

    run_simulated(scene())


class _Lost(MemoryStore):
    """A store whose file may be gone."""

    why = ""
    takes_s = 0.0

    async def verify(self) -> None:
        await asyncio.sleep(self.takes_s)
        if self.why:
            raise StoreUnavailable(self.why)


def test_store_that_is_lost_is_named_until_it_is_back() -> None:
    async def scene() -> None:
        store = _Lost()
        async with stage(store=store) as on:
            await on.submit()
            assert await on.control.state.trouble() == ""
            store.why = "the store is gone; put it back"
            assert await on.control.state.trouble() == store.why
            found = {each.kind: each for each in await on.control.attention.find()}
            assert found["store_unusable"].message.endswith(store.why)
            await asyncio.sleep(3)
            with pytest.raises(StoreUnavailable, match=store.why):
                await on.submit()
            store.why = ""
            await asyncio.sleep(3)
            assert await on.control.state.trouble() == ""
            await on.submit()

    run_simulated(scene())


def test_store_that_is_slow_to_answer_is_named_and_goes_on() -> None:
    async def scene() -> None:
        store = _Lost()
        async with stage(store=store) as on:
            store.takes_s = 5.0
            assert "does not answer" in await on.control.state.trouble()
            await on.submit()
            store.takes_s = 0.0
            assert await on.control.state.trouble() == ""

    run_simulated(scene())


def test_a_project_is_told_of_its_own() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            for project in ("shop", "shop", "other"):
                await on.submit(project_id=project, max_retries=0)
                await node.report(await node.take(), ReportKind.FAILED, error=ErrorClass.NETWORK)
            whole, shop = [await on.control.attention.find(each) for each in (None, "shop")]
            assert [(each.kind, each.count) for each in whole] == [("dead_letters", 3)]
            assert [(each.kind, each.count) for each in shop] == [("dead_letters", 2)]
            assert await on.control.attention.find("nobody") == ()

    run_simulated(scene())


def test_many_dead_letters_are_not_all_read_to_be_counted() -> None:
    class CountingStore(MemoryStore):
        read = 0

        async def find_tasks(self, *args: Any, **options: Any) -> list[Task]:
            found = await super().find_tasks(*args, **options)
            self.read += len(found)
            return found

    async def scene() -> None:
        store = CountingStore()
        async with stage(store) as on:
            node = await on.node(slots=150)
            for _ in range(150):
                await on.submit(max_retries=0)
            for each in await node.take_all():
                await node.report(each, ReportKind.FAILED, error=ErrorClass.NETWORK)
            store.read = 0
            (dead,) = [
                each for each in await on.control.attention.find() if each.kind == "dead_letters"
            ]
            assert (dead.count, store.read) == (100, 101)
            assert "more than 100" in dead.message

    run_simulated(scene())


def test_hosts_that_a_crawl_leaves_alone_are_named() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            await on.submit(task_type="web_crawl", project_id="shop")
            taken = await node.take()
            now = on.control.now()
            hosts = [
                {"host": "a.example", "why": "429", "waiting": 7, "rests_until": now + 60},
                {"host": "b.example", "why": "503", "waiting": 7, "rests_until": now - 60},
                {"host": "c.example", "waiting": 7},
            ]
            note = Note(execution_id=taken.execution_id, figures={"hosts": hosts})
            batch = NoteBatch(session_id=node.session_id, notes=(note,))
            reply = await on.control.logs.take(node.id, batch)
            await on.control.service(Crawls).hear(batch, reply)
            (host,) = await on.control.attention.find("shop")
            assert (host.kind, host.count, host.subject.id) == ("host_blocks", 7, taken.task_id)
            assert "a.example" in host.message
            assert await on.control.attention.find("other") == ()

    run_simulated(scene())
