"""Environments that a node makes ahead, and what it tells of them."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from crawlfleet.errors import MasterUnreachable
from crawlfleet.model.bundle import BundleFetch, BundleRef
from crawlfleet.model.wire.node_protocol import Registered
from crawlfleet.model.wire.services import BUNDLE, ServiceRequest, ServiceResponse, refused
from crawlfleet.worker.code.environments import Environments
from crawlfleet.worker.code.prewarming import TOLD_AGAIN, Warming
from tests.worker.code.test_environments import FakeInstall, Master

SESSION = Registered(
    node_id="node-1",
    registration_time=0.0,
    initial_status="online",
    session_id="session-1",
    session_timeout_s=12.0,
    heartbeat_interval_s=3.0,
)


class Link:
    """Gives the archives of a master to who names a digest; or is away."""

    def __init__(self, master: Master) -> None:
        self._master = master
        self.calls: list[BundleFetch] = []
        self.is_away = False

    async def request(self, node_id: str, service: str, request: ServiceRequest) -> ServiceResponse:
        assert service == BUNDLE
        assert request.session_id == "session-1"
        call = msgspec.json.decode(request.payload, type=BundleFetch)
        self.calls.append(call)
        if self.is_away:
            raise MasterUnreachable("nobody there")
        for number, archive in enumerate(self._master.archives):
            if self._master.ref(number).digest == call.digest:
                return ServiceResponse(data=archive)
        return refused("was not asked")


def kept_in(folder: Path) -> Environments:
    return Environments(folder, install=FakeInstall(), most_bytes=1_000_000)


async def made(warming: Warming, link: Any, *refs: BundleRef) -> int:
    """Obey, and wait for the end; how often something was said to be made."""
    count = 0

    def note() -> None:
        nonlocal count
        count += 1

    warming.obey(refs, link, SESSION, note)
    await asyncio.gather(*warming.under_way())
    return count


def test_what_is_asked_for_is_made_once_and_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        environments, master = kept_in(tmp_path), Master("1", "2")
        warming, link = Warming(environments), Link(master)
        assert await warming.news() == ()
        warming.said(())
        assert await warming.news() is UNSET
        assert await made(warming, link, master.ref(0), master.ref(1)) == 2
        told = await warming.news()
        assert told == tuple(sorted((master.ref(0).digest, master.ref(1).digest)))
        assert await warming.news() == told, "until the master has heard it"
        warming.said(told)
        assert [await warming.news() for _ in range(3)] == [UNSET] * 3
        assert told in [await warming.news() for _ in range(TOLD_AGAIN)]
        assert await made(warming, link, master.ref(0)) == 1
        assert await warming.news() == told, "who asks is answered, although nothing is new"
        assert [call.digest for call in link.calls] == [master.ref(0).digest, master.ref(1).digest]

    asyncio.run(scenario())


def test_what_cannot_be_fetched_is_left_for_the_work(tmp_path: Path) -> None:
    async def scenario() -> None:
        environments, master = kept_in(tmp_path), Master()
        warming, link = Warming(environments), Link(master)
        unknown = BundleRef(name="tools", number=9, digest="0" * 64)
        link.is_away = True
        assert await made(warming, link, master.ref()) == 1
        link.is_away = False
        assert await made(warming, link, unknown) == 1
        assert environments.kept() == []
        await made(warming, link, master.ref())
        assert environments.kept() == [master.ref().digest]

    asyncio.run(scenario())


def test_a_node_without_bundles_makes_and_tells_nothing() -> None:
    async def scenario() -> None:
        warming, master = Warming(None), Master()
        assert await warming.news() is UNSET
        assert await made(warming, Link(master), master.ref()) == 0

    asyncio.run(scenario())
