"""Runs a test that is a coroutine on a fresh frontier, with short functions to call it."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from msgspec.structs import replace

from crawlfleet.model.crawl.frontier import (
    Commit,
    FrontierRules,
    HostCommit,
    HostLease,
    HostState,
    Link,
    UrlRetry,
    Visit,
)
from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.ports.frontier.frontier import Frontier

DEADLINE_S = 60.0
NOW: Final = 1_763_193_600.25
A: Final = "https://a.example"
B: Final = "https://b.example"
C: Final = "https://c.example"
ME: Final = "worker-1"
WORKERS: Final = (ME, "other", "third", "w0", "w1", "w2", "w3")
"""Names of all workers in the tests."""


class FrontierHarness:
    """Base of test classes; a backend's class describes its frontier in these attributes."""

    DEDUP: ClassVar[str] = "exact"
    CRAWLS: ClassVar[int] = 150
    """Number of random crawls."""
    SHARED: ClassVar[bool] = False
    """True if leases outlive the object that gave them: the suite then makes the frontier forget
    its workers where a process would end."""

    def make_frontier(self, folder: Path, rules: FrontierRules) -> Frontier:
        """A frontier that is not open yet, for the crawl of that folder."""
        raise NotImplementedError

    def rules(self, **given: Any) -> FrontierRules:
        """The rules that a test asks for, with the dedup of this suite."""
        return replace(FrontierRules(dedup=self.DEDUP, dedup_capacity=1000), **given)


H = TypeVar("H", bound=FrontierHarness)


def on_frontier(**rules: Any) -> Callable[..., Callable[[H, Path], None]]:
    """Make a test of `async def test_…(self, frontier)`, for a crawl with these rules."""

    def decorate(test: Callable[[H, Frontier], Awaitable[None]]) -> Callable[[H, Path], None]:
        def run(self: H, tmp_path: Path) -> None:
            in_turn(self, tmp_path, partial(test, self), **rules)

        run.__name__ = run.__qualname__ = test.__name__
        run.__doc__ = test.__doc__
        return run

    return decorate


def in_turn(
    harness: FrontierHarness,
    folder: Path,
    *lives: Callable[[Frontier], Awaitable[None]],
    **rules: Any,
) -> None:
    """Run each of `lives` on a frontier object of its own over the same crawl."""

    async def scenario() -> None:
        for live in lives:
            frontier = harness.make_frontier(folder, harness.rules(**rules))
            async with asyncio.timeout(DEADLINE_S):
                await frontier.open()
                try:
                    if harness.SHARED:
                        await asyncio.gather(*map(frontier.forget, WORKERS))
                    await live(frontier)
                finally:
                    await frontier.close()

    asyncio.run(scenario())


def link(path: str, host: str = A, priority: int = 0) -> Link:
    """The link with that path; its id follows from its URL, as ids do."""
    url = f"{host}/{path}"
    digest = hashlib.blake2b(url.encode(), digest_size=8).digest()
    return Link(int.from_bytes(digest, signed=True), url, host, priority)


def neighbours(frontier: Frontier, count: int) -> list[str]:
    """Hosts of one partition, in the order of their names."""
    names = (f"https://{number:03}.example" for number in range(1000))
    found: list[str] = []
    for name in names:
        if frontier.partition_of(name) == 0 and len(found) < count:
            found.append(name)
    assert len(found) == count
    return found


def links(paths: Iterable[Any], host: str = A) -> list[Link]:
    return [link(str(path), host) for path in paths]


def visit(path: str, host: str = A, **fields: Any) -> Visit:
    """A page that was fetched, unless the fields say otherwise."""
    return Visit(link(path, host).id, Outcome.OK, 200, NOW)._replace(**fields)


def retry(path: str, due: float, host: str = A, **fields: Any) -> UrlRetry:
    """A visit that ran into a timeout, unless the fields say otherwise."""
    return UrlRetry(link(path, host).id, Outcome.TIMEOUT, 0, NOW, due)._replace(**fields)


async def lease(
    frontier: Frontier,
    *,
    hosts: int = 10,
    urls: int = 100,
    held: Mapping[str, int] | None = None,
    now: float = NOW,
    worker: str = ME,
) -> dict[str, HostLease]:
    """Lease hosts, and return the leases by host."""
    leases = await frontier.lease(worker, hosts=hosts, urls=urls, held=held or {}, now=now)
    assert len({one.host for one in leases}) == len(leases)
    return {one.host: one for one in leases}


def paths(one: HostLease) -> list[str]:
    """The leased URLs, without their host."""
    return [waiting.url.removeprefix(f"{one.host}/") for waiting in one.urls]


async def commit(
    frontier: Frontier,
    one: HostLease,
    *visits: Visit,
    retries: Iterable[UrlRetry] = (),
    returned: Iterable[str] = (),
    state: HostState | None = None,
    release: bool = False,
    receipts: Mapping[str, Any] | None = None,
    worker: str = ME,
) -> list[str]:
    """Commit results for one lease; return the hosts that were refused."""
    part = HostCommit(
        host=one.host,
        token=one.token,
        visits=visits,
        retries=tuple(retries),
        returned=[link(path, one.host).id for path in returned],
        state=state,
        release=release,
    )
    return list(await frontier.commit(worker, Commit(hosts=[part], receipts=receipts or {})))


async def crawl_one(frontier: Frontier, path: str, found: Iterable[Link], **fields: Any) -> None:
    """Lease the next URL of a host, which has to be that one, and commit its visit."""
    (one,) = (await lease(frontier, hosts=1, urls=1)).values()
    assert paths(one) == [path]
    assert not await commit(frontier, one, visit(path, links=list(found), **fields), release=True)
