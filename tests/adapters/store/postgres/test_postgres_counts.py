"""Tasks are counted on PostgreSQL no more often than it takes, and as they are."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from crawlfleet.adapters.store.postgres.counts import ByProject, Counting
from crawlfleet.adapters.store.postgres.store import PostgresStore
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.task import TaskStatus
from crawlfleet.ports.store import Change
from crawlfleet.testing.store_suite.harness import must
from crawlfleet.testing.store_suite.samples import make_task

PENDING = TaskStatus.PENDING


class Server:
    """Counts how often it is asked; an answer takes a few turns of the loop."""

    def __init__(self) -> None:
        self.snapshot = 1
        self.counts = 0
        self.down = False

    async def see(self) -> str:
        await asyncio.sleep(0)
        if self.down:
            raise StoreUnavailable("down")
        return str(self.snapshot)

    async def count(self) -> ByProject:
        self.counts += 1
        seen = self.snapshot
        for _ in range(3):
            await asyncio.sleep(0)
        return {"p": {PENDING: seen}}


def on_server(scenario: Callable[[Server, Counting], Awaitable[None]]) -> None:
    server = Server()
    asyncio.run(scenario(server, Counting(snapshot=server.see, count=server.count)))


def test_nothing_is_counted_twice_while_nothing_is_committed() -> None:
    async def scenario(server: Server, counting: Counting) -> None:
        for _ in range(3):
            assert await counting.by_project() == {"p": {PENDING: 1}}
        assert server.counts == 1
        server.snapshot = 2
        assert await counting.by_project() == {"p": {PENDING: 2}}
        assert server.counts == 2

    on_server(scenario)


def test_all_who_ask_together_share_a_count_that_began_after_they_asked() -> None:
    async def scenario(server: Server, counting: Counting) -> None:
        async def ask(number: int) -> None:
            for _ in range(number % 7):
                await asyncio.sleep(0)
            server.snapshot += 1
            mine = server.snapshot
            assert (await counting.by_project())["p"][PENDING] >= mine

        await asyncio.gather(*(ask(number) for number in range(100)))
        assert server.counts <= 5

    on_server(scenario)


def test_one_who_goes_away_leaves_the_turn_to_the_next() -> None:
    async def scenario(server: Server, counting: Counting) -> None:
        first, second = (asyncio.ensure_future(counting.by_project()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == {"p": {PENDING: 1}}

    on_server(scenario)


def test_trouble_is_told_to_all_who_wait_and_passes() -> None:
    async def scenario(server: Server, counting: Counting) -> None:
        server.down = True
        asked = [counting.by_project() for _ in range(10)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(answer, StoreUnavailable) for answer in answers)
        server.down = False
        assert await counting.by_project() == {"p": {PENDING: 1}}

    on_server(scenario)


@pytest.mark.slow
def test_each_master_counts_what_all_of_them_have_committed(url: str) -> None:
    async def scenario() -> None:
        stores = [PostgresStore(url=url) for _ in range(3)]
        for store in stores:
            await store.open()
        try:
            tasks = []
            for number in range(12):
                tasks.append(make_task(number, completed_at=1.0))
                await must(stores[number % 3], Change(tasks=(tasks[-1],)))
                for store in stores:
                    assert await store.count_tasks() == {PENDING: number + 1}
            ended = [replace(each, version=2, status=TaskStatus.FAILED) for each in tasks[:4]]
            await must(stores[0], *(Change(tasks=(each,)) for each in ended))
            for store in stores:
                expected = {PENDING: 8, TaskStatus.FAILED: 4}
                assert await store.count_tasks_by_project() == {"default": expected}
            assert await stores[1].remove_finished(before=2.0, limit=3) == 3
            for store in stores:
                expected = {PENDING: 8, TaskStatus.FAILED: 1}
                assert await store.count_tasks("default") == expected
        finally:
            for store in stores:
                await store.close()

    asyncio.run(scenario())


@pytest.mark.slow
def test_quiet_store_is_asked_often_and_counted_seldom(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        store = PostgresStore(url=url)
        await store.open()
        try:
            await must(store, Change(tasks=(make_task(),)))
            counting = store._counting
            assert counting is not None
            count, counts = counting._count, 0

            async def counted() -> ByProject:
                nonlocal counts
                counts += 1
                return await count()

            monkeypatch.setattr(counting, "_count", counted)
            for _ in range(20):
                assert await store.count_tasks() == {PENDING: 1}
            # Not once: a server has transactions of its own, such as those of its vacuum.
            assert 1 <= counts < 10
        finally:
            await store.close()

    asyncio.run(scenario())
