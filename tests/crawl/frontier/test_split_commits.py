"""A frontier that takes only so much at once gets everything, in several steps."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.adapters.frontier.memory import MemoryFrontier
from crawlfleet.crawl.engine.committer import Committer, Member
from crawlfleet.crawl.frontier.split_commits import lots
from crawlfleet.crawl.work import EngineReport
from crawlfleet.model.crawl.frontier import Commit, FrontierRules, HostCommit, HostState
from crawlfleet.ports.sink import PageRecord
from crawlfleet.testing.frontier_suite.harness import NOW, link, links, visit
from tests.sampling import examples

MAX_BYTES = 3_000
LARGEST_BYTES = 2_000
"""Of a single visit or state, so that each fits into a step."""


class Limited(MemoryFrontier):
    """Refuses what is too large, as a pipe would; and one host as lost, from a step on."""

    lost = ""
    lost_from = 0

    def __init__(self) -> None:
        super().__init__(rules=FrontierRules())
        self.steps: list[Commit] = []

    async def commit(self, worker: str, commit: Commit) -> Sequence[str]:
        size = len(msgspec.msgpack.encode(commit.hosts))
        assert size <= MAX_BYTES + 100, f"{size} bytes"
        if len(self.steps) >= self.lost_from and any(h.host == self.lost for h in commit.hosts):
            return [self.lost]
        refused = await super().commit(worker, commit)
        assert not refused
        if commit.hosts:
            self.steps.append(commit)
        return refused


class Remembering:
    """A sink that has what was staged and not cut off again."""

    wants_bodies = False

    def __init__(self) -> None:
        self.pages: list[int] = []

    async def open(self, receipt: Any) -> None:
        self.pages = self.pages[: receipt or 0]

    async def stage(self, pages: Sequence[PageRecord]) -> int:
        self.pages += [page.id for page in pages]
        return len(self.pages)

    async def close(self) -> None: ...


HOSTS = st.lists(
    st.tuples(
        st.lists(st.integers(0, LARGEST_BYTES), max_size=6),
        st.integers(0, LARGEST_BYTES),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@given(hosts=HOSTS, lost_from=st.none() | st.integers(0, 4))
@settings(deadline=None, max_examples=examples(60))
def test_all_pages_come_once_whatever_their_sizes(
    hosts: list[tuple[list[int], int, bool]], lost_from: int | None
) -> None:
    """Also when one host is lost between two steps: then nothing of it counts from there on."""
    names = [f"https://{number}.example" for number in range(len(hosts))]
    frontier, sink = Limited(), Remembering()

    async def scene() -> None:
        member = Member("exec", "task", most_step_bytes=MAX_BYTES)
        office = Committer(frontier, {"sink": sink}, member=member)  # type: ignore[dict-item]
        await office.open()
        for name, (sizes, _, _) in zip(names, hosts, strict=True):
            await frontier.add(links(range(len(sizes) + 1), name), NOW)
        desk = office.desk("w")
        leased = await desk.lease(hosts=100, urls=100, held={}, now=NOW)
        tokens = {lease.host: lease.token for lease in leased.leases}
        if lost_from is not None:
            frontier.lost, frontier.lost_from = names[0], lost_from
        parts, pages = [], []
        for name, (sizes, robots, release) in zip(names, hosts, strict=True):
            visits = [
                visit(str(at), name, links=[link("x" * size, name)])
                for at, size in enumerate(sizes)
            ]
            pages += [PageRecord(id=each.id, url=name, at=NOW, items=()) for each in visits]
            state = HostState(robots=bytes(robots))
            parts.append(
                HostCommit(
                    host=name, token=tokens[name], visits=visits, state=state, release=release
                )
            )
        lost = await desk.hand_in(
            EngineReport(
                at=NOW, hosts=parts, pages=pages, rejected={"links": 7}, widened=["https://w/"]
            )
        )
        done = Counter(v.id for step in frontier.steps for h in step.hosts for v in h.visits)
        assert Counter(sink.pages) == done
        assert set(done.values()) <= {1}
        missing = {page.id for page in pages} - done.keys()
        assert missing <= {v.id for h in parts if h.host in lost for v in h.visits}
        assert [*lost] in ([], [frontier.lost])
        assert office.notes.urls == len(done)
        assert office.notes.widened == ("https://w/",)
        assert office.figures.rejected == {"links": 7}
        for part in parts:
            told = [h for step in frontier.steps for h in step.hosts if h.host == part.host]
            if part.host not in lost:
                assert [v for h in told for v in h.visits] == part.visits
                ends = [(h.state is not None, h.release) for h in told]
                assert ends == [(False, False)] * (len(told) - 1) + [(True, part.release)]

    asyncio.run(scene())


def test_seeds_come_in_lots() -> None:
    seeds = links("x" * size for size in (10, 5000, 20, 30, 4000, 1))
    parts = [*lots(seeds, MAX_BYTES)]
    assert [each for part in parts for each in part] == seeds
    assert all(len(p) == 1 or len(msgspec.msgpack.encode(p)) <= MAX_BYTES for p in parts)
    assert [*lots([], MAX_BYTES)] == [[]]
    assert [*lots(seeds[:1], 1)] == [seeds[:1]]
