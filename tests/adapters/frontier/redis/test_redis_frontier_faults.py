"""What a Redis frontier says and does when Redis, a worker or a set-up is not as it should be."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from crawlfleet.adapters.frontier.redis import frontier as frontier_module
from crawlfleet.adapters.frontier.redis import handover
from crawlfleet.adapters.frontier.redis.connection import Line
from crawlfleet.adapters.frontier.redis.frontier import RedisFrontier
from crawlfleet.errors import ConfigError, FrontierLost, StoreUnavailable
from crawlfleet.model.crawl.frontier import Commit, FrontierRules
from crawlfleet.testing.frontier_suite.harness import (
    ME,
    NOW,
    A,
    commit,
    lease,
    link,
    links,
    neighbours,
    paths,
    visit,
)
from tests.support.servers import RedisServer, redis_server

pytestmark = pytest.mark.slow

PARTITIONS = pytest.mark.parametrize("partitions", [1, 4])


@pytest.fixture
def crawl() -> str:
    return secrets.token_hex(4)


def made(server: RedisServer, crawl: str, *, partitions: int = 1, **given: Any) -> RedisFrontier:
    fields = {name: given.pop(name) for name in ("epoch", "begin") if name in given}
    return RedisFrontier(
        url=f"{server.url()}?partitions={partitions}",
        crawl=crawl,
        rules=FrontierRules(**given),
        **fields,
    )


def run(
    frontier: RedisFrontier, scenario: Callable[[RedisFrontier], Awaitable[None]]
) -> RedisFrontier:
    async def main() -> None:
        await frontier.open()
        try:
            await scenario(frontier)
        finally:
            await frontier.close()

    asyncio.run(main())
    return frontier


async def every_call(frontier: RedisFrontier, wanted: str) -> None:
    """Each of them says that the crawl is lost."""
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: frontier.counts(),
        lambda: frontier.add(links("x"), NOW),
        lambda: frontier.begin_round(2),
        lambda: lease(frontier),
        lambda: lease(frontier, hosts=0, held={A: 3}),
        lambda: frontier.commit(ME, Commit(hosts=(), receipts={"sink": 1})),
        lambda: frontier.forget(ME),
        lambda: frontier.open(),
    ]
    for call in calls:
        with pytest.raises(FrontierLost, match=wanted):
            await call()


@PARTITIONS
def test_emptied_redis_is_noticed_by_every_call(
    redis: RedisServer, crawl: str, partitions: int
) -> None:
    async def scenario(frontier: RedisFrontier) -> None:
        await frontier.add(links("abc"), NOW)
        one = (await lease(frontier, urls=1))[A]
        redis.execute("FLUSHALL")
        with pytest.raises(FrontierLost, match=r"emptied.*begin it again"):
            await commit(frontier, one, visit("a"))
        await every_call(frontier, "emptied")
        for found in (frontier.record(link("a").id), frontier.busiest(1)):
            with pytest.raises(FrontierLost):
                await found

    frontier = run(made(redis, crawl, partitions=partitions), scenario)
    assert frontier.epoch
    for known in ({"epoch": frontier.epoch}, {"begin": False}):
        again = made(redis, crawl, partitions=partitions, **known)
        with pytest.raises(FrontierLost, match="Begin the crawl again"):
            asyncio.run(again.open())


def test_crawl_begun_anew_is_not_taken_for_the_old_one(redis: RedisServer, crawl: str) -> None:
    async def scenario(frontier: RedisFrontier) -> None:
        await frontier.add(links("abc"), NOW)
        redis.execute("FLUSHALL")
        other = made(redis, crawl)
        await other.open()
        assert (await other.counts()).known == 0
        await other.close()
        with pytest.raises(FrontierLost, match="begun anew"):
            await frontier.counts()

    run(made(redis, crawl), scenario)


def test_lost_partition_is_noticed(redis: RedisServer, crawl: str) -> None:
    """As when one node of a cluster comes back empty."""

    async def scenario(frontier: RedisFrontier) -> None:
        hosts = [f"https://{number}.example" for number in range(20)]
        await frontier.add([link("a", host) for host in hosts], NOW)
        for key in ("b", "u", "h", "t"):
            redis.execute("DEL", f"crawlfleet:{{{crawl}:2}}:{key}")
        for call in (frontier.counts(), lease(frontier), frontier.forget(ME)):
            with pytest.raises(FrontierLost):
                await call

    run(made(redis, crawl, partitions=4), scenario)
    with pytest.raises(FrontierLost, match="lost partition 2"):
        asyncio.run(made(redis, crawl, partitions=4).open())


def test_redis_that_has_gone_back_is_noticed(crawl: str) -> None:
    with redis_server() as server:

        async def scenario(frontier: RedisFrontier) -> None:
            await frontier.add(links(range(50)), NOW)
            one = (await lease(frontier))[A]
            length = sum(path.stat().st_size for path in log_files(server))
            for number in range(50):
                await commit(frontier, one, visit(str(number)))
            assert (await frontier.counts()).outstanding == 0
            server.stop("immediate")
            cut_tail(server, length)
            server.start()
            await every_call(frontier, "gone back")

        run(made(server, crawl), scenario)


def log_files(server: RedisServer) -> list[Any]:
    return sorted(server.folder.glob("appendonlydir/*.incr.aof")) or [
        server.folder / "appendonly.aof"
    ]


def cut_tail(server: RedisServer, length: int) -> None:
    (path,) = log_files(server)
    with path.open("r+b") as file:
        file.truncate(length)


@contextmanager
def told(server: RedisServer, name: str, value: str) -> Iterator[None]:
    before = server.execute("CONFIG", "GET", name).split("\r\n")[-1]
    assert server.execute("CONFIG", "SET", name, value) == "+OK"
    try:
        yield
    finally:
        server.execute("CONFIG", "SET", name, before)


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("appendonly", "no", "CONFIG SET appendonly yes"),
        ("appendfsync", "everysec", "CONFIG SET appendfsync always"),
        ("no-appendfsync-on-rewrite", "yes", "CONFIG SET no-appendfsync-on-rewrite no"),
        ("maxmemory-policy", "allkeys-lru", "CONFIG SET maxmemory-policy noeviction"),
    ],
)
def test_redis_that_may_lose_something_is_refused_with_the_remedy(
    redis: RedisServer, crawl: str, name: str, value: str, remedy: str
) -> None:
    with told(redis, name, value), pytest.raises(ConfigError, match=remedy):
        asyncio.run(made(redis, crawl).open())


def test_redis_without_memory_changes_nothing_and_goes_on_with_more(
    redis: RedisServer, crawl: str
) -> None:
    async def scenario(frontier: RedisFrontier) -> None:
        await frontier.add(links("abc"), NOW)
        one = (await lease(frontier))[A]
        before = await frontier.counts()
        with told(redis, "maxmemory", "1mb"):
            with pytest.raises(StoreUnavailable, match="out of memory"):
                await commit(frontier, one, visit("a", links=links(range(100))))
            assert await frontier.counts() == before
        assert not await commit(frontier, one, visit("a", links=links(range(100))))
        assert (await frontier.counts()).known == 103

    run(made(redis, crawl), scenario)


def test_nobody_there_is_said_with_the_address_and_without_the_password(crawl: str) -> None:
    frontier = RedisFrontier(
        url="redis://me:secret@127.0.0.1:1/0", crawl=crawl, rules=FrontierRules()
    )
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/0 does not answer") as raised:
        asyncio.run(frontier.open())
    assert "secret" not in str(raised.value)


def test_cancellation_passes_through_at_any_moment(redis: RedisServer, crawl: str) -> None:
    async def work() -> None:
        frontier = made(redis, crawl)
        await frontier.open()
        while True:
            await frontier.counts()

    async def main() -> None:
        for moments in range(60):
            task = asyncio.create_task(work())
            for _ in range(moments):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, 20)

    asyncio.run(main())


@pytest.mark.parametrize("words", ["partitions=0", "partitions=x", "lease_s=-1"])
def test_url_with_a_wrong_number_is_refused(words: str) -> None:
    with pytest.raises(ConfigError, match=words.partition("=")[0]):
        RedisFrontier(url=f"redis://x/0?{words}", crawl="c", rules=FrontierRules())


@pytest.mark.parametrize(("field", "value"), [("max_depth", 2), ("dedup", "bloom")])
def test_crawl_cannot_go_on_by_other_rules(
    redis: RedisServer, crawl: str, field: str, value: Any
) -> None:
    async def nothing(frontier: RedisFrontier) -> None:
        pass

    run(made(redis, crawl), nothing)
    with pytest.raises(ConfigError, match=f"was begun with {field}="):
        run(made(redis, crawl, **{field: value}), nothing)
    run(made(redis, crawl, max_pages=3), nothing)


def test_the_first_decides_how_many_partitions_there_are(redis: RedisServer, crawl: str) -> None:
    async def add(frontier: RedisFrontier) -> None:
        assert frontier.partitions == 4
        await frontier.add([link("a", f"https://{number}.example") for number in range(9)], NOW)
        assert (await frontier.counts()).known == 9

    run(made(redis, crawl, partitions=4), add)
    run(made(redis, crawl, partitions=7), add)


def test_discarded_crawl_leaves_no_key_and_no_other_crawl_is_touched(
    redis: RedisServer, crawl: str
) -> None:
    name = f"{crawl}*[a]?"
    for each in (f"{crawl}xa!", name):
        run(made(redis, each, partitions=3), fill)
    other = redis.execute("HGET", f"crawlfleet:{{{crawl}xa!:0}}:b", "epoch")

    async def discard(frontier: RedisFrontier) -> None:
        late = made(redis, name, partitions=3)
        await late.open()
        await frontier.discard()
        with pytest.raises(FrontierLost):
            await late.counts()
        await late.close()

    run(made(redis, name, partitions=3), discard)
    assert redis.execute("EXISTS", f"crawlfleet:{{{name}:0}}:b") == ":0"
    left = redis.execute("EVAL", "return #redis.call('KEYS', ARGV[1])", "0", f"*{crawl}[*]*")
    assert left == ":0"
    assert redis.execute("HGET", f"crawlfleet:{{{crawl}xa!:0}}:b", "epoch") == other != "$-1"


def test_a_death_while_a_crawl_is_removed_never_leaves_a_part_that_looks_whole(
    redis: RedisServer, crawl: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(made(redis, crawl, partitions=3), fill)
    keys = "EVAL", "return #redis.call('KEYS', ARGV[1])", "0"
    removed: list[str] = []
    do = Line._do

    async def watched(self: Line, *words: Any, **options: Any) -> Any:
        if words[0] == "UNLINK":
            removed.append(words[1].decode())
            if len(removed) > 3:
                raise StoreUnavailable("killed")
        return await do(self, *words, **options)

    async def discard(frontier: RedisFrontier) -> None:
        with monkeypatch.context() as dying:
            dying.setattr(Line, "_do", watched)
            with pytest.raises(StoreUnavailable, match="killed"):
                await frontier.discard()
        assert {key[-2:] for key in removed[:3]} == {":b"}
        assert redis.execute(*keys, f"*{crawl}*") != ":0"
        with pytest.raises(FrontierLost):
            await frontier.add([link("b")], NOW)
        await frontier.discard()

    run(made(redis, crawl, partitions=3), discard)
    assert redis.execute(*keys, f"*{crawl}*") == ":0"


async def fill(frontier: RedisFrontier) -> None:
    hosts = [f"https://{number}.example" for number in range(20)]
    await frontier.add([link("a", host) for host in hosts], NOW)
    await lease(frontier)


# Deadlines of workers. The score of a worker is the server's time in ms until which it is heard of.


def deadline(server: RedisServer, crawl: str, worker: str) -> float:
    said = server.execute("ZSCORE", f"crawlfleet:{{{crawl}:0}}:w", worker)
    return float(said.split("\r\n")[-1]) / 1000


def let_pass(server: RedisServer, crawl: str, worker: str, left_s: float) -> None:
    """As if the worker had not been heard of for so long that so much is left."""
    score = str(round((time.time() + left_s) * 1000))
    server.execute("ZADD", f"crawlfleet:{{{crawl}:0}}:w", score, worker)


def test_each_call_of_a_worker_renews_its_deadline(redis: RedisServer, crawl: str) -> None:
    async def scenario(frontier: RedisFrontier) -> None:
        await frontier.add(links("abc"), NOW)
        one = (await lease(frontier, urls=1))[A]
        calls = (
            lambda: lease(frontier, hosts=0, held={A: 1}),
            lambda: lease(frontier, hosts=1),
            lambda: commit(frontier, one),
        )
        for call in calls:
            let_pass(redis, crawl, ME, 30)
            await call()
            assert deadline(redis, crawl, ME) > time.time() + 40
        assert not await commit(frontier, one, visit("a"))

    run(made(redis, crawl), scenario)


def test_worker_that_was_stopped_and_resumed_is_refused(redis: RedisServer, crawl: str) -> None:
    async def scenario(frontier: RedisFrontier) -> None:
        await frontier.add(links("abc"), NOW)
        old = (await lease(frontier, urls=2))[A]
        let_pass(redis, crawl, ME, -1)
        assert await commit(frontier, old, visit("a")) == [A]
        counts = await frontier.counts()
        assert (counts.done, counts.leased, counts.waiting) == (0, 0, 3)
        assert await lease(frontier, hosts=0, held={A: 5}) == {}
        new = (await lease(frontier))[A]
        assert new.token > old.token
        let_pass(redis, crawl, ME, -1)
        assert await lease(frontier, hosts=0, held={A: 5}) == {}
        assert await commit(frontier, new, visit("a")) == [A]

    run(made(redis, crawl), scenario)


def test_step_that_was_done_is_done_also_for_a_worker_that_was_forgotten_since(
    redis: RedisServer, crawl: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(frontier: RedisFrontier) -> None:
        await frontier.add(links("abc"), NOW)
        mine = (await lease(frontier, urls=2))[A]
        # The answer gets lost; until it is asked for again, others take the worker for dead.
        monkeypatch.setattr(frontier_module.secrets, "token_hex", lambda _: "the same step")
        assert await commit(frontier, mine, visit("a")) == []
        await frontier.forget(ME)
        assert await commit(frontier, mine, visit("a")) == []
        assert (await frontier.counts()).done == 1
        monkeypatch.undo()
        assert await commit(frontier, mine, visit("b")) == [A]

    run(made(redis, crawl), scenario)


def test_leases_of_a_worker_that_is_not_heard_of_go_to_others(
    redis: RedisServer, crawl: str
) -> None:
    async def scenario(frontier: RedisFrontier) -> None:
        await frontier.add(links("abc"), NOW)
        old = (await lease(frontier))[A]
        assert await lease(frontier, worker="other") == {}
        let_pass(redis, crawl, ME, -1)
        new = (await lease(frontier, worker="other"))[A]
        assert paths(new) == ["a", "b", "c"]
        assert await commit(frontier, old, visit("a")) == [A]
        assert not await commit(frontier, new, visit("a"), worker="other")

    run(made(redis, crawl), scenario)


@PARTITIONS
def test_workers_share_the_hosts_that_have_work(
    redis: RedisServer, crawl: str, partitions: int
) -> None:
    hosts = [f"https://{number}.example" for number in range(40)]

    async def scenario(frontier: RedisFrontier) -> None:
        await frontier.add([link("a", host) for host in hosts], NOW)
        first = await lease(frontier, hosts=100, worker="w0")
        assert len(first) == 40
        assert frontier.take_surplus() == 0
        for name in ("w1", "w2", "w3"):
            assert await lease(frontier, hosts=100, worker=name) == {}
        assert await lease(frontier, hosts=100, worker="w0") == {}
        assert frontier.take_surplus() == 30
        assert frontier.take_surplus() == 0
        for one in list(first.values())[:30]:
            await commit(frontier, one, release=True, worker="w0")
        shares = [await lease(frontier, hosts=100, worker=name) for name in ("w1", "w2", "w3")]
        assert [len(share) for share in shares] == [10, 10, 10]
        await frontier.forget("w3")
        taken = await lease(frontier, hosts=100, worker="w0")
        assert len(taken) == 4

    run(made(redis, crawl, partitions=partitions), scenario)


# Links between partitions.


async def two_partitions(frontier: RedisFrontier) -> tuple[str, str]:
    (here,) = neighbours(frontier, 1)
    names = (f"https://{number}.example" for number in range(100))
    return here, next(name for name in names if frontier.partition_of(name) == 1)


@pytest.mark.parametrize(
    ("module", "name"), [(frontier_module, "hand_over"), (handover, "taken_in")]
)
def test_links_outlive_a_worker_that_dies_before_it_has_handed_them_over(
    redis: RedisServer, crawl: str, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> None:
    async def die(*_: Any, **__: Any) -> None:
        raise ConnectionError("killed")

    async def scenario(frontier: RedisFrontier) -> None:
        here, there = await two_partitions(frontier)
        await frontier.add([link("a", here)], NOW)
        one = (await lease(frontier))[here]
        with monkeypatch.context() as broken:
            broken.setattr(module, name, die)
            with pytest.raises(ConnectionError):
                await commit(frontier, one, visit("a", here, links=[link("x", there)]))
        other = made(redis, crawl, partitions=4)
        await other.open()
        counts = await other.counts()
        assert (counts.done, counts.outstanding, counts.known) == (1, 1, 2)
        assert paths((await lease(other, worker="other"))[there]) == ["x"]
        await other.close()

    run(made(redis, crawl, partitions=4), scenario)


def test_links_that_another_partition_has_are_not_told_again_unless_they_are_nearer(
    redis: RedisServer, crawl: str
) -> None:
    async def scenario(frontier: RedisFrontier) -> None:
        here, there = await two_partitions(frontier)
        key = f"crawlfleet:{{{crawl}:{frontier.partition_of(here)}}}:b"
        found = links("xyz", there)
        await frontier.add([link("a", here), link("s", here)], NOW)
        one = (await lease(frontier, urls=1))[here]
        await commit(frontier, one, visit("a", here, links=[link("b", here)]))
        await lease(frontier, hosts=0, held={here: 2})
        await commit(frontier, one, visit("b", here, links=found))
        assert redis.execute("HGET", key, "handed").split()[-1] == "3"
        await commit(frontier, one, visit("s", here, links=[*found, link("c", here)]))
        assert redis.execute("HGET", key, "handed").split()[-1] == "6"
        await lease(frontier, hosts=0, held={here: 2})
        await commit(frontier, one, visit("c", here, links=[*found, link("new", there)]))
        assert redis.execute("HGET", key, "handed").split()[-1] == "7"
        counts = await frontier.counts()
        assert counts.depths == {0: 2, 1: 5, 2: 1}

    run(made(redis, crawl, partitions=4), scenario)


@PARTITIONS
def test_links_that_lay_too_deep_come_back_whoever_committed_them(
    redis: RedisServer, crawl: str, partitions: int
) -> None:
    async def scenario(frontier: RedisFrontier) -> None:
        other = made(redis, crawl, partitions=partitions, max_depth=1)
        await other.open()
        hosts = [f"https://{number}.example" for number in range(5)]
        await frontier.add([link("s", hosts[0])], NOW)
        seed = (await lease(frontier))[hosts[0]]
        await commit(frontier, seed, visit("s", hosts[0], links=[link("a", hosts[0])]))
        await lease(frontier, hosts=0, held={hosts[0]: 1})
        # This one has not leased it, and cannot know how deep it is.
        far = [link(f"far {number}", host) for host in hosts for number in range(20)]
        assert not await commit(other, seed, visit("a", hosts[0], links=far), release=True)
        assert (await other.counts()).known == 2
        await other.close()
        assert await frontier.add([link("a", hosts[0])], NOW) == 0
        counts = await frontier.counts()
        assert (counts.known, counts.done, counts.depths) == (102, 2, {0: 2, 1: 100})
        found = await frontier.record(far[-1].id)
        assert found is not None
        assert found.found_on == f"{hosts[0]}/a"

    run(made(redis, crawl, partitions=partitions, max_depth=1), scenario)


def test_several_who_hand_over_at_once_lose_and_double_nothing(
    redis: RedisServer, crawl: str
) -> None:
    async def scenario(frontier: RedisFrontier) -> None:
        hosts = [f"https://{number}.example" for number in range(30)]
        await frontier.add([link("s", host) for host in hosts], NOW)
        clients = [made(redis, crawl, partitions=4) for _ in range(3)]
        for client in clients:
            await client.open()
        given = await lease(frontier, hosts=30)
        found = [link(str(number), host) for number in range(20) for host in hosts]

        async def work(number: int, host: str) -> None:
            client = clients[number % 3]
            assert not await commit(client, given[host], visit("s", host, links=found))

        await asyncio.gather(*(work(number, host) for number, host in enumerate(hosts)))
        counts = await clients[0].counts()
        assert (counts.known, counts.done, counts.depths) == (630, 30, {0: 30, 1: 600})
        for client in clients:
            await client.close()

    run(made(redis, crawl, partitions=4), scenario)
