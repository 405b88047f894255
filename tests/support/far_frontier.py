"""The frontier of a real master, asked over HTTP by a node that holds the task of its crawl."""

from collections.abc import Mapping
from typing import Any

from crawlfleet.client.http.transport import Transport
from crawlfleet.client.node_link import HttpControlLink
from crawlfleet.crawl.frontier.master import MasterFrontier
from crawlfleet.errors import FrontierRefused
from crawlfleet.model.crawl.frontier import FrontierRules
from crawlfleet.model.wire.node_protocol import (
    PROTOCOL,
    Assignment,
    LeaseRequest,
    Registration,
    Report,
    ReportBatch,
    ReportKind,
)
from crawlfleet.model.wire.services import FRONTIER, ServiceRequest
from tests.support.local_fleet import LocalFleet


def crawl_with(rules: FrontierRules) -> dict[str, Any]:
    """The parameters of a crawl with these rules."""
    return {
        "url": "https://a.example/",
        "depth": rules.max_depth,
        "limits": {"max_pages": rules.max_pages, "max_per_host": rules.max_per_host},
        "dedup": rules.dedup,
        "dedup_capacity": rules.dedup_capacity,
    }


class PlayedNode:
    """A node that holds the one task that only it can do."""

    def __init__(self, fleet: LocalFleet, crawl: str) -> None:
        self._fleet = fleet
        self._crawl = crawl
        self._transport = Transport(fleet.url)
        self._link = HttpControlLink(
            self._transport, join_token=fleet.join_token, keep=lambda _: None
        )

    async def take(self) -> None:
        """Join, and wait for the task."""
        registration = Registration(
            name="asking",
            resources={"slots": 1.0},
            task_types=("web_crawl",),
            capabilities={"crawl": self._crawl},
            protocol=PROTOCOL,
        )
        self._me = await self._link.register(registration, None)
        request = LeaseRequest(session_id=self._me.session_id, wait_s=20.0)
        assignments: tuple[Assignment, ...] = ()
        while not assignments:
            assignments = (await self._link.lease(self._me.node_id, request)).assignments
        (self._work,) = assignments

    async def ask(self, data: bytes) -> bytes:
        """What the master answers; raises `FrontierRefused`."""
        request = ServiceRequest(
            session_id=self._me.session_id,
            execution_id=self._work.execution_id,
            token=self._work.token,
            data=data,
        )
        response = await self._link.request(self._me.node_id, FRONTIER, request)
        if response.refusal:
            raise FrontierRefused(response.refusal)
        return response.data

    async def give_back(self) -> None:
        """The execution is over; another one goes on with the crawl."""
        released = Report(
            execution_id=self._work.execution_id,
            task_id=self._work.task_id,
            token=self._work.token,
            kind=ReportKind.RELEASED,
            at=0.0,
        )
        batch = ReportBatch(session_id=self._me.session_id, reports=(released,))
        await self._link.report(self._me.node_id, batch)
        await self._link.leave(self._me.node_id, self._me.session_id)
        await self._transport.__aexit__(None, None, None)


class FarFrontier(MasterFrontier):
    """An execution from the first `open` to `close`."""

    def __init__(
        self, fleet: LocalFleet, crawl: str, rules: FrontierRules, *, is_new: bool
    ) -> None:
        """A new crawl is submitted when it is opened; its name is a capability that only this node
        has."""
        self._fleet, self._crawl, self._rules, self._is_new = fleet, crawl, rules, is_new
        self._node: PlayedNode | None = None
        super().__init__(self._pass_on, rules)

    async def _pass_on(self, data: bytes) -> bytes:
        assert self._node is not None
        return await self._node.ask(data)

    async def open(self) -> Mapping[str, Any]:
        if self._node is None:
            if self._is_new:
                async with self._fleet.client() as client:
                    needs = {"crawl": self._crawl}
                    wanted = crawl_with(self._rules)
                    await client.submit("web_crawl", wanted, capabilities=needs)
            self._node = PlayedNode(self._fleet, self._crawl)
            await self._node.take()
        return await super().open()

    async def close(self) -> None:
        await super().close()
        if self._node is not None:
            await self._node.give_back()
            self.__init__(self._fleet, self._crawl, self._rules, is_new=False)  # type: ignore[misc]
