"""What the keeper of a frontier is told of links, and what not."""

import asyncio
from collections.abc import Sequence

import msgspec

from crawlfleet.adapters.frontier.memory import MemoryFrontier
from crawlfleet.crawl.engine.committer import Committer, Member
from crawlfleet.crawl.frontier.known_links import KnownLinks, may_leave_out
from crawlfleet.crawl.frontier.remote import RemoteFrontierClient
from crawlfleet.crawl.work import EngineReport
from crawlfleet.model.crawl.frontier import Commit, FrontierRules, HostCommit, Visit
from crawlfleet.testing.frontier_suite.harness import ME, NOW, A, B, commit, lease, links, visit


class Listening(MemoryFrontier):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__(rules=FrontierRules())
        self.heard: list[list[str]] = []

    async def commit(self, worker: str, commit: Commit) -> list[str]:
        visits = [visit for part in commit.hosts for visit in part.visits]
        self.heard += [[link.url.rpartition("/")[2] for link in visit.links] for visit in visits]
        return [*await super().commit(worker, commit)]


class Lean(RemoteFrontierClient):
    async def commit(self, worker: str, commit: Commit) -> Sequence[str]:
        """As an office does."""
        hosts = self.lean(worker, [*commit.hosts])
        return await super().commit(worker, msgspec.structs.replace(commit, hosts=hosts))


async def nobody(data: bytes) -> bytes:
    raise AssertionError("nobody is asked")


def test_a_link_is_told_once_unless_a_page_is_nearer_or_the_step_was_refused() -> None:
    async def main() -> None:
        kept = Listening()
        frontier = Lean(kept, "epoch", nobody, is_lean=True)
        await frontier.open()
        await frontier.add([*links("ab"), *links("s", B)], NOW)
        given = await lease(frontier, urls=1)
        await commit(frontier, given[A], visit("a", links=links("x")))
        more = await frontier.lease("worker", hosts=0, urls=0, held={A: 5}, now=NOW)
        assert not more, "of somebody else"
        given |= {A: (await lease(frontier, held={A: 5}))[A]}
        await commit(frontier, given[A], visit("x", links=links("xy")))
        await commit(frontier, given[A], visit("b", links=links("xy")))
        assert kept.heard == [["x"], ["y"], ["y"]]
        assert (await frontier.counts()).depths == {0: 3, 1: 2}

        await frontier.forget(ME)
        kept.heard.clear()
        assert await commit(frontier, given[B], visit("s", B, links=links("z"))) == [B]
        again = (await lease(frontier, hosts=2))[B]
        await commit(frontier, again, visit("s", B, links=links("z")), release=True)
        assert kept.heard == [["z"], ["z"]]

    asyncio.run(main())


def test_an_office_tells_only_what_is_new() -> None:
    async def main() -> None:
        kept = Listening()
        frontier = RemoteFrontierClient(kept, "epoch", nobody, is_lean=True)
        office = Committer(frontier, {}, member=Member("exec", "task", lean=frontier.lean))
        await office.open()
        await frontier.add(links("ab"), NOW)
        desk = office.desk(ME)
        (leased,) = (await desk.lease(hosts=1, urls=2, held={}, now=NOW)).leases
        for path in "ab":
            done = [visit(path, links=links("xy"))]
            part = HostCommit(host=A, token=leased.token, visits=done)
            assert not await desk.hand_in(EngineReport(at=NOW, hosts=[part]))
        assert kept.heard == [["x", "y"], []]
        assert (await frontier.counts()).known == 4
        await office.close()

    asyncio.run(main())


def test_what_is_remembered_is_bounded() -> None:
    told = KnownLinks(most=3)

    def page(number: int, paths: str) -> Commit:
        done = Visit(number, visit("a").outcome, 200, NOW, links(paths))
        return Commit(hosts=[HostCommit(host=A, token=1, visits=[done])])

    def left(paths: str) -> int:
        return len(told.lean(page(1, paths).hosts, lambda _: {1: 0})[0].visits[0].links)

    told.note(page(1, "abc"), lambda _: {1: 0})
    assert left("abcd") == 1
    told.note(page(1, "d"), lambda _: {1: 0})
    assert left("abcd") == 4


def test_all_is_told_where_it_matters_who_links_to_whom() -> None:
    assert may_leave_out(FrontierRules())
    assert may_leave_out(FrontierRules(dedup="bloom", max_pages=10))
    assert not may_leave_out(FrontierRules(max_depth=3))
    assert not may_leave_out(FrontierRules(max_per_host=10))
