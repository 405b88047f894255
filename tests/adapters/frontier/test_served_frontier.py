"""A frontier that the master serves does what every frontier must: also when answers get lost, and
when the master is restarted all the time."""

import asyncio
import itertools
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest

from crawlfleet.adapters.frontier.folder import FolderShelf
from crawlfleet.control.leases.services import ServiceCall
from crawlfleet.core.crawls import frontier_codec
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.crawl.engine.committer import Committer, Member
from crawlfleet.crawl.frontier.master import MasterFrontier
from crawlfleet.crawl.work import EngineReport
from crawlfleet.errors import Busy, FrontierRefused, NotFound, StoreUnavailable
from crawlfleet.features.crawls.frontiers import MAX_READ, READ_AT_ONCE, Frontiers
from crawlfleet.model import ids
from crawlfleet.model.crawl.frontier import Commit, FrontierRules, HostCommit, HostState
from crawlfleet.model.task import Execution, Task
from crawlfleet.model.wire.frontier import Add, FrontierRequest, Open, Step
from crawlfleet.model.wire.frontier import Lease as Lease_
from crawlfleet.model.wire.services import FRONTIER, SERVICES
from crawlfleet.ports.frontier.frontier import Frontier
from crawlfleet.testing.frontier_suite import BloomFrontierSuite, FrontierSuite
from crawlfleet.testing.frontier_suite.harness import (
    ME,
    NOW,
    A,
    B,
    commit,
    lease,
    link,
    links,
    paths,
    visit,
)
from crawlfleet.worker.pool import protocol

pytestmark = pytest.mark.slow

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
Ask = Callable[[bytes], Awaitable[bytes]]


def parameters(rules: FrontierRules) -> dict[str, Any]:
    """The parameters of a crawl with these rules."""
    limits = {"max_pages": rules.max_pages, "max_per_host": rules.max_per_host}
    return {
        "url": "https://a.example/",
        "depth": rules.max_depth,
        "limits": limits,
        "dedup": rules.dedup,
        "dedup_capacity": rules.dedup_capacity,
    }


class PlayedMaster:
    """The frontiers of a master, and executions that live while the test says so."""

    def __init__(self, folder: Path, rules: FrontierRules) -> None:
        self.leases: dict[str, Lease] = {}
        self.rules = rules
        task_id = f"{ids.TASK}-{ids.ALPHABET[0] * ids.BODY_LENGTH}"
        self.task = Task(
            id=task_id,
            project_id="default",
            task_type="web_crawl",
            created_at=0.0,
            updated_at=0.0,
            parameters=msgspec.Raw(msgspec.json.encode(parameters(rules))),
        )
        self._numbers = itertools.count(1)
        self._shelf = FolderShelf(folder / "frontiers")
        self.start()

    def start(self) -> None:
        state: Any = SimpleNamespace(leases=self.leases)
        self.frontiers = Frontiers(state=state, shelf=self._shelf)
        self.frontiers._leads = True

    async def restart(self) -> None:
        """What was in memory is gone."""
        await self.frontiers._close(self.task.id)
        self.start()

    def begin(self) -> str:
        execution = Execution(
            id=f"exec-{next(self._numbers)}",
            task_id=self.task.id,
            node_id="node",
            session_id="session",
            token=1,
            start_time=0.0,
        )
        self.leases[execution.id] = Lease(self.task, execution)
        return execution.id

    async def ask(self, execution_id: str, data: bytes) -> bytes:
        lease = self.leases.get(execution_id)
        if lease is None:
            raise FrontierRefused(f"{execution_id} is not held")
        response = await self.frontiers.answer(ServiceCall(lease, None, data))
        if response.refusal:
            raise FrontierRefused(response.refusal)
        return response.data


class PlayedExecution(MasterFrontier):
    """An execution from the first `open` to `close`."""

    def __init__(self, master: PlayedMaster, through: Callable[[PlayedMaster, Ask], Ask]) -> None:
        self.master = master
        self.id = ""
        super().__init__(through(master, lambda data: master.ask(self.id, data)), master.rules)

    async def open(self) -> Mapping[str, Any]:
        if not self.id:
            self.id = self.master.begin()
        return await super().open()

    async def commit(self, worker: str, commit: Commit) -> Sequence[str]:
        """As an office does."""
        hosts = self.lean(worker, [*commit.hosts])
        return await super().commit(worker, msgspec.structs.replace(commit, hosts=hosts))

    async def close(self) -> None:
        await super().close()
        if self.id:
            del self.master.leases[self.id]
            self.id = ""
            self.__init__(self.master, lambda master, ask: self._ask)  # type: ignore[misc]
        if not self.master.leases:
            await self.master.frontiers._close(self.master.task.id)


def plainly(master: PlayedMaster, ask: Ask) -> Ask:
    return ask


def losing_answers(master: PlayedMaster, ask: Ask) -> Ask:
    """Every other answer is lost, and the same is asked again."""
    turns = itertools.count()

    async def asked(data: bytes) -> bytes:
        answer = await ask(data)
        return await ask(data) if next(turns) % 2 else answer

    return asked


def restarting(master: PlayedMaster, ask: Ask) -> Ask:
    """The master is restarted all the time: before a question, or between it and its answer. Only
    how many seeds were new is not known any more then."""
    turns = itertools.count()

    async def asked(data: bytes) -> bytes:
        turn = next(turns) % 17
        asks = frontier_codec.request_in(data).asks
        if turn == 1 and not any(isinstance(each, Add) for each in asks):
            await ask(data)
        if turn in (1, 3):
            await master.restart()
        return await ask(data)

    return asked


class FrontierSession:
    """What the classes below have in common."""

    THROUGH: ClassVar[Callable[[PlayedMaster, Ask], Ask]] = staticmethod(plainly)
    masters: ClassVar[dict[Path, PlayedMaster]] = {}

    def make_frontier(self, folder: Path, rules: FrontierRules) -> Frontier:
        master = self.masters.get(folder)
        if master is None:
            master = self.masters[folder] = PlayedMaster(folder, rules)
        return PlayedExecution(master, self.THROUGH)


class TestServedFrontier(FrontierSession, FrontierSuite):
    CRAWLS = 300 if SOAK else 8


class TestServedFrontierWithBloom(FrontierSession, BloomFrontierSuite): ...


class TestServedFrontierWhoseAnswersGetLost(FrontierSession, FrontierSuite):
    THROUGH = staticmethod(losing_answers)
    CRAWLS = 300 if SOAK else 8


class TestServedFrontierThatIsRestarted(FrontierSession, FrontierSuite):
    THROUGH = staticmethod(restarting)
    CRAWLS = 300 if SOAK else 8
    # Whose turn it is among hosts of equal times is not written down: a life begins with any.
    test_hosts_take_turns = None  # type: ignore[assignment]


def run(folder: Path, scene: Callable[[PlayedMaster], Awaitable[None]], rules: Any = None) -> None:
    async def main() -> None:
        master = PlayedMaster(folder, rules or FrontierRules())
        async with asyncio.timeout(30):
            try:
                await scene(master)
            finally:
                await master.frontiers._close(master.task.id)

    asyncio.run(main())


def execution(master: PlayedMaster) -> PlayedExecution:
    return PlayedExecution(master, plainly)


def test_leases_of_an_execution_end_with_it_and_not_before(tmp_path: Path) -> None:
    async def scene(master: PlayedMaster) -> None:
        first, second = execution(master), execution(master)
        await first.open()
        await first.add(links("abc"), NOW)
        one = (await lease(first, urls=2))[A]
        await second.open()
        assert await lease(second) == {}, "opening it ends nobody's lease"
        assert not await commit(first, one, visit("a"))

        del master.leases[first.id]
        again = (await lease(second))[A]
        assert paths(again) == ["b", "c"]
        with pytest.raises(StoreUnavailable, match="is not held"):
            await commit(first, one, visit("b"))
        assert not await commit(second, again, visit("b"), visit("c"))
        assert (await second.counts()).done == 3

    run(tmp_path, scene)


def test_receipts_are_each_executions_own(tmp_path: Path) -> None:
    async def scene(master: PlayedMaster) -> None:
        first, second = execution(master), execution(master)
        await first.open()
        await second.open()
        for each, name in ((first, "x"), (second, "y")):
            await each.commit("", Commit(hosts=(), receipts={f"items@{name}": 1}))
        assert await first.open() == {"items@x": 1, "items@y": 1}

    run(tmp_path, scene)


def test_a_host_that_others_got_while_the_master_was_away_is_given_up(tmp_path: Path) -> None:
    async def scene(master: PlayedMaster) -> None:
        first, second = execution(master), execution(master)
        await first.open()
        await first.add([*links("ab"), link("x", B)], NOW)
        given = await lease(first, urls=1)
        await second.open()
        await master.restart()
        # The second one has committed nothing, so that nobody waits for the first one either.
        taken = await lease(second, hosts=1)
        assert [*taken] == [A]
        refused = await commit(first, given[A], visit("a"))
        assert refused == [A]
        assert not await commit(first, given[B], visit("x", B), release=True)
        assert not await commit(second, taken[A], visit("a"), visit("b"), release=True)
        # Nobody has it now, and it can be had again.
        await second.add(links("c"), NOW)
        assert paths((await lease(first, hosts=1))[A]) == ["c"]

    run(tmp_path, scene)


def test_who_has_committed_is_waited_for_after_a_restart(tmp_path: Path) -> None:
    async def scene(master: PlayedMaster) -> None:
        first, second = execution(master), execution(master)
        await first.open()
        await first.add([*links("abc"), *links("xy", B)], NOW)
        given = await lease(first, hosts=1, urls=2)
        await commit(first, given[A], visit("a"))
        await second.open()
        await master.restart()
        assert await lease(second) == {}
        assert not await commit(first, given[A], visit("b"))
        assert [*await lease(second)] == [B]

    run(tmp_path, scene)


def test_a_host_that_comes_back_before_its_loss_was_told_is_returned(tmp_path: Path) -> None:
    async def scene(master: PlayedMaster) -> None:
        first, second = execution(master), execution(master)
        await first.open()
        await first.add(links("ab"), NOW)
        given = await lease(first, urls=1)
        await second.open()
        await master.restart()
        taken = await lease(second)
        await commit(second, taken[A], visit("a"), release=True)
        assert await lease(first) == {}, "the engine believes that it has the host"
        assert await commit(first, given[A], visit("a")) == [A]
        assert paths((await lease(first))[A]) == ["b"]

    run(tmp_path, scene)


def test_a_step_whose_answer_was_lost_with_the_master_counts_once(tmp_path: Path) -> None:
    async def scene(master: PlayedMaster) -> None:
        lost = False

        def losing(master: PlayedMaster, ask: Ask) -> Ask:
            async def asked(data: bytes) -> bytes:
                nonlocal lost
                answer = await ask(data)
                if lost:
                    lost = False
                    await master.restart()
                    return await ask(data)
                return answer

            return asked

        first = PlayedExecution(master, losing)
        await first.open()
        await first.add([*links("abc"), link("x", B)], NOW)
        given = await lease(first, urls=2)
        parts = [
            HostCommit(host=A, token=given[A].token, visits=[visit("a", links=links("d"))]),
            HostCommit(host=B, token=given[B].token, visits=[visit("x", B)], release=True),
        ]
        lost = True
        assert not await first.commit(ME, Commit(hosts=parts, receipts={"items@1": 7}))
        assert not lost
        counts = await first.counts()
        assert (counts.done, counts.leased, counts.known) == (2, 1, 5)
        # What was leased beside what was committed is still there to be committed.
        assert not await commit(first, given[A], visit("b"))

    run(tmp_path, scene)


def listening(heard: list[FrontierRequest]) -> Callable[[PlayedMaster, Ask], Ask]:
    """What is said is remembered."""

    def through(master: PlayedMaster, ask: Ask) -> Ask:
        async def asked(data: bytes) -> bytes:
            heard.append(frontier_codec.request_in(data))
            return await ask(data)

        return asked

    return through


def told(heard: list[FrontierRequest]) -> list[list[str]]:
    """The links of each visit that was told, in order; forgets them."""
    asks = [ask for each in heard for ask in each.asks if isinstance(ask, Step)]
    heard.clear()
    done = [visit for ask in asks for part in ask.commit.hosts for visit in part.visits]
    return [[link.url.rpartition("/")[2] for link in visit.links] for visit in done]


def test_links_are_told_once_unless_the_master_may_have_forgotten(tmp_path: Path) -> None:
    heard: list[FrontierRequest] = []

    async def scene(master: PlayedMaster) -> None:
        first = PlayedExecution(master, listening(heard))
        await first.open()
        await first.add(links("abcd"), NOW)
        given = (await lease(first))[A]
        await commit(first, given, visit("a", links=links("bxy")))
        await commit(first, given, visit("b", links=links("axyz")))
        assert told(heard) == [["b", "x", "y"], ["a", "z"]]
        await master.restart()
        await commit(first, given, visit("c", links=links("xyz")))
        await commit(first, given, visit("d", links=links("xyz")))
        # The first was written before anybody knew of the restart; its links are in the file.
        assert told(heard)[-2:] == [[], ["x", "y", "z"]]
        assert (await first.counts()).known == 7

    run(tmp_path, scene)


def test_a_link_that_was_told_in_a_step_that_was_refused_is_told_again(tmp_path: Path) -> None:
    heard: list[FrontierRequest] = []

    async def scene(master: PlayedMaster) -> None:
        first, second = PlayedExecution(master, listening(heard)), execution(master)
        await first.open()
        await first.add([*links("a"), link("x", B)], NOW)
        given = await lease(first)
        await second.open()
        await master.restart()
        assert [*await lease(second, hosts=1)] == [A]
        assert await commit(first, given[A], visit("a", links=links("z", B))) == [A]
        heard.clear()
        assert not await commit(first, given[B], visit("x", B, links=links("z", B)))
        assert told(heard) == [["z"]]

    run(tmp_path, scene)


@pytest.mark.parametrize(
    "rules", [FrontierRules(max_depth=5), FrontierRules(max_per_host=50)], ids=["depth", "per host"]
)
def test_every_link_is_told_where_it_matters_who_has_it(
    tmp_path: Path, rules: FrontierRules
) -> None:
    heard: list[FrontierRequest] = []

    async def scene(master: PlayedMaster) -> None:
        first = PlayedExecution(master, listening(heard))
        await first.open()
        await first.add(links("ab"), NOW)
        given = (await lease(first))[A]
        await commit(first, given, visit("a", links=links("xy")))
        await commit(first, given, visit("b", links=links("xy")))
        assert told(heard) == [["x", "y"], ["x", "y"]]

    run(tmp_path, scene, rules)


def test_a_link_that_is_nearer_than_when_it_was_told_is_told_again(tmp_path: Path) -> None:
    heard: list[FrontierRequest] = []

    async def scene(master: PlayedMaster) -> None:
        first = PlayedExecution(master, listening(heard))
        await first.open()
        await first.add(links("ab"), NOW)
        given = (await lease(first, urls=1))[A]
        await commit(first, given, visit("a", links=links("x")))
        more = await first.lease(ME, hosts=0, urls=0, held={A: 5}, now=NOW)
        assert paths(more[0]) == ["b", "x"]
        await commit(first, given, visit("x", links=links("y")))
        await commit(first, given, visit("b", links=links("xy")))
        assert told(heard) == [["x"], ["y"], ["y"]]
        assert (await first.counts()).depths == {0: 2, 1: 2}

    run(tmp_path, scene)


def within_limits(master: PlayedMaster, ask: Ask) -> Ask:
    """As the pipe of an executor and a request to the master are."""

    async def asked(data: bytes) -> bytes:
        assert len(data) <= SERVICES[FRONTIER].max_bytes
        answer = await ask(data)
        line = protocol.encode(protocol.Response(execution_id="exec", number=1, data=answer))
        assert len(line) <= protocol.MAX_ORDER_BYTES
        return answer

    return asked


def test_hosts_with_the_largest_robots_txt_pass_through(tmp_path: Path) -> None:
    hosts = [f"https://{number}.example" for number in range(40)]
    # Nothing that could be packed.
    robots = {host: random.Random(host).randbytes(400_000) for host in hosts}
    asked_for: list[int] = []

    async def scene(master: PlayedMaster) -> None:
        first = PlayedExecution(master, within_limits)
        member = Member("exec", "task", most_step_bytes=first.most_step_bytes)
        office = Committer(first, {}, member=member)
        await office.open()
        await first.add([each for host in hosts for each in links("ab", host)], NOW)
        desks = [office.desk("one"), office.desk("two")]
        for path in "ab":
            left = {*hosts}
            while left:
                # At once, so that the answers to both travel together.
                told = await asyncio.gather(
                    *(desk.lease(hosts=100, urls=1, held={}, now=NOW) for desk in desks)
                )
                leases = [leased.leases for leased in told]
                asked_for.append(sum(map(len, leases)))
                for desk, given in zip(desks, leases, strict=True):
                    parts = [
                        HostCommit(
                            host=each.host,
                            token=each.token,
                            visits=[visit(path, each.host)],
                            state=HostState(robots=robots[each.host]),
                            release=True,
                        )
                        for each in given
                    ]
                    assert not await desk.hand_in(EngineReport(at=NOW, hosts=parts))
                    left -= {each.host for each in given}
                assert any(leases), "what is left can be had"
        assert (await first.counts()).done == 80
        await office.close()

    run(tmp_path, scene)
    assert asked_for[0] == 40, "without robots.txt all come at once"
    assert max(asked_for[1:]) <= 16


def test_more_of_many_hosts_comes_in_portions(tmp_path: Path) -> None:
    hosts = [f"https://{number}.example" for number in range(60)]
    long = "x" * 60_000

    async def scene(master: PlayedMaster) -> None:
        first = PlayedExecution(master, within_limits)
        await first.open()
        seeds = [
            each for host in hosts for each in links(("1", *(f"{n}{long}" for n in "234")), host)
        ]
        assert await first.add(seeds, NOW) == 240
        given = await lease(first, hosts=100, urls=1)
        assert len(given) == 60
        more = await first.lease(ME, hosts=0, urls=1, held=dict.fromkeys(hosts, 3), now=NOW)
        assert 16 <= len(more) < 60
        while len(more) < 60:
            rest = [host for host in hosts if host not in {each.host for each in more}]
            got = await first.lease(ME, hosts=0, urls=1, held=dict.fromkeys(rest, 3), now=NOW)
            assert got
            more += got
        assert sorted(each.host for each in more) == sorted(hosts)

    run(tmp_path, scene)


def test_an_answer_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(master: PlayedMaster) -> None:
        first = execution(master)
        await first.open()
        monkeypatch.setattr(frontier_codec, "MAX_ASKED_BYTES", 10)
        with pytest.raises(FrontierRefused, match=r"\d+ bytes are to be said"):
            await master.ask(first.id, b"\0\x80")

    run(tmp_path, scene)


def test_a_crawl_of_which_nothing_came_begins_anew(tmp_path: Path) -> None:
    async def scene(master: PlayedMaster) -> None:
        first, second = execution(master), execution(master)
        await first.open()
        await first.add(links("a"), NOW)
        await second.open()
        await first.discard()
        assert (await second.counts()).known == 1, "somebody works for it"
        await second.close()
        await first.discard()
        assert await first.open() == {}
        assert (await first.counts()).known == 0

    run(tmp_path, scene)


def test_a_master_that_does_not_lead_sends_them_on(tmp_path: Path) -> None:
    async def scene(master: PlayedMaster) -> None:
        from crawlfleet.errors import Busy

        master.frontiers._leads = False
        with pytest.raises(Busy, match="another master leads"):
            await master.ask(master.begin(), b"\0\x80")

    run(tmp_path, scene)


def test_two_masters_do_not_have_one_frontier(tmp_path: Path) -> None:
    async def scene(master: PlayedMaster) -> None:
        first = execution(master)
        await first.open()
        other = PlayedMaster(tmp_path, FrontierRules())
        with pytest.raises(StoreUnavailable, match="another master has"):
            await other.ask(other.begin(), b"\0\x80")
        await master.frontiers._close(master.task.id)
        await other.ask(other.begin(), b"\0\x80")
        await other.frontiers._close(other.task.id)

    run(tmp_path, scene)


def other_crawl(master: PlayedMaster, number: int) -> Task:
    """A crawl of which there are books, and that does not run."""
    name = ids.ALPHABET[number // 30] + ids.ALPHABET[number % 30] * (ids.BODY_LENGTH - 1)
    return msgspec.structs.replace(master.task, id=f"{ids.TASK}-{name}")


def test_readers_of_old_crawls_keep_only_a_few_open(tmp_path: Path) -> None:
    async def scene() -> None:
        master = PlayedMaster(tmp_path, FrontierRules())
        crawls = [other_crawl(master, number) for number in range(1, 31)]
        for crawl in crawls:
            frontier = master._shelf.frontier(crawl.id, FrontierRules())
            await frontier.open()
            await frontier.add([link("a")], NOW)
            await frontier.close()
        frontiers = master.frontiers
        running = PlayedExecution(master, plainly)
        await running.open()
        for _ in range(2):
            for crawl in crawls:
                async with frontiers.reading(crawl) as read:
                    assert (await read.counts()).known == 1
                assert len(frontiers._served) <= MAX_READ + 1
        assert master.task.id in frontiers._served, "the one that is worked with stays"

        async def read_slowly(crawl: Task) -> None:
            async with frontiers.reading(crawl):
                await asyncio.sleep(0.01)

        await asyncio.gather(*map(read_slowly, crawls))
        assert len(frontiers._served) <= MAX_READ + READ_AT_ONCE + 1
        assert not len(frontiers._opening)
        await running.close()
        for crawl_id in [*frontiers._served]:
            await frontiers._close(crawl_id)

    asyncio.run(scene())


def test_readers_who_would_wait_for_long_are_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlfleet.features.crawls.frontiers.WAIT_TO_READ_S", 0.05)

    async def scene() -> None:
        master = PlayedMaster(tmp_path, FrontierRules())
        running = PlayedExecution(master, plainly)
        await running.open()
        async with AsyncExitStack() as stack:
            for _ in range(READ_AT_ONCE):
                await stack.enter_async_context(master.frontiers.reading(master.task))
            with pytest.raises(Busy, match="try again in a moment"):
                await stack.enter_async_context(master.frontiers.reading(master.task))
        async with master.frontiers.reading(master.task):
            pass
        await running.close()

    asyncio.run(scene())


def test_a_frontier_that_is_not_there_leaves_no_lock_behind(tmp_path: Path) -> None:
    async def scene() -> None:
        master = PlayedMaster(tmp_path, FrontierRules())
        for number in range(1, 20):
            with pytest.raises(NotFound):
                async with master.frontiers.reading(other_crawl(master, number)):
                    pass
        master.frontiers._leads = False
        execution = master.begin()
        for _ in range(3):
            with pytest.raises(Busy):
                await master.ask(execution, frontier_codec.written(FrontierRequest(asks=[Open()])))
        assert not len(master.frontiers._opening)

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"hosts": 10**9}, "hosts = 1000000000"), ({"urls": 10**9}, "urls"), ({"hosts": -1}, "hosts")],
)
def test_a_lease_without_bounds_is_refused(
    tmp_path: Path, fields: dict[str, int], words: str
) -> None:
    async def scene() -> None:
        master = PlayedMaster(tmp_path, FrontierRules())
        frontier = PlayedExecution(master, plainly)
        await frontier.open()
        await frontier.add(links("abc"), NOW)
        asked = {"worker": ME, "number": 1, "hosts": 1, "urls": 1, "held": {}, "now": NOW, **fields}
        with pytest.raises(FrontierRefused, match=words):
            await master.ask(
                frontier.id, frontier_codec.written(FrontierRequest(asks=[Lease_(**asked)]))
            )
        assert (await lease(frontier))[A].urls
        await frontier.close()

    asyncio.run(scene())


def test_an_execution_leases_under_a_bounded_number_of_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlfleet.core.crawls.frontier_limits.MAX_WORKERS", 3)

    async def scene() -> None:
        master = PlayedMaster(tmp_path, FrontierRules())
        frontier = PlayedExecution(master, plainly)
        await frontier.open()
        for number in range(3):
            await lease(frontier, worker=f"w{number}")
        with pytest.raises(StoreUnavailable, match="names"):
            await lease(frontier, worker="w3")
        await frontier.close()

    asyncio.run(scene())
