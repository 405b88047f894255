"""A node's way to its master, while its token is being renewed."""

import asyncio
from typing import Any

import pytest

from crawlfleet.client.node_link import HttpControlLink
from crawlfleet.errors import MasterUnreachable, Refused, Unauthenticated
from crawlfleet.model.wire.node_protocol import (
    Heartbeat,
    HeartbeatReply,
    NodeToken,
    ReportBatch,
    ReportReply,
)
from crawlfleet.ports.execution import Identity

BEAT = HeartbeatReply(node_id="n", timestamp=0.0, status="online")
DUE = HeartbeatReply(node_id="n", timestamp=0.0, status="online", renew_token=True)
REPORTS = ReportBatch(session_id="s", reports=())


class PlayedTransport:
    """Answers for the tokens that are good."""

    def __init__(self) -> None:
        self.good = {"old"}
        self.is_due = True
        self.renewal: NodeToken | Exception = NodeToken(
            node_id="n", node_token="new", old_valid_until=1.0
        )
        self.asked: list[tuple[str, str]] = []
        self.under_way = asyncio.Event()
        self.under_way.set()

    async def call(self, method: str, path: str, type: Any, *, key: str, **_: Any) -> Any:
        verb = path.partition(":")[2]
        self.asked.append((verb, key))
        if verb == "report":
            await self.under_way.wait()
        if key not in self.good:
            raise Unauthenticated("this key is not known here")
        if verb == "renew-token":
            if isinstance(self.renewal, Exception):
                raise self.renewal
            return self.renewal
        if verb == "report":
            return ReportReply(outcomes=())
        return DUE if self.is_due else BEAT


def linked(transport: PlayedTransport, kept: list[Identity]) -> HttpControlLink:
    link = HttpControlLink(transport, join_token="join", keep=kept.append)
    link._node_token = "old"
    return link


def test_a_token_is_kept_before_it_is_used() -> None:
    async def scene() -> None:
        transport, kept = PlayedTransport(), list[Identity]()
        link = linked(transport, kept)
        assert await link.heartbeat("n", Heartbeat()) == DUE
        assert kept == [Identity(node_id="n", node_token="new")]
        transport.good, transport.is_due = {"new"}, False
        await link.heartbeat("n", Heartbeat())
        assert transport.asked[-1] == ("heartbeat", "new")

    asyncio.run(scene())


def test_a_renewal_that_fails_costs_nothing_and_is_tried_again() -> None:
    async def scene() -> None:
        transport, kept = PlayedTransport(), list[Identity]()
        link = linked(transport, kept)
        transport.renewal = MasterUnreachable("gone")
        assert await link.heartbeat("n", Heartbeat()) == DUE
        assert kept == []
        assert await link.heartbeat("n", Heartbeat()) == DUE
        assert [verb for verb, _ in transport.asked] == ["heartbeat", "renew-token"] * 2

    asyncio.run(scene())


def test_what_was_asked_with_the_old_token_is_asked_again_with_the_new() -> None:
    async def scene() -> None:
        transport = PlayedTransport()
        link = linked(transport, [])
        transport.under_way.clear()
        report = asyncio.create_task(link.report("n", REPORTS))
        await asyncio.sleep(0)
        await link.heartbeat("n", Heartbeat())
        transport.good = {"new"}
        transport.under_way.set()
        assert await report == ReportReply(outcomes=())
        assert transport.asked[-1] == ("report", "new")

    asyncio.run(scene())


def test_a_master_that_has_not_heard_of_the_new_token_is_shown_the_old_one() -> None:
    async def scene() -> None:
        transport = PlayedTransport()
        link = linked(transport, [])
        await link.heartbeat("n", Heartbeat())
        transport.is_due = False
        await link.heartbeat("n", Heartbeat())
        assert transport.asked[-2:] == [("heartbeat", "new"), ("heartbeat", "old")]
        transport.good = {"old", "new"}
        await link.heartbeat("n", Heartbeat())
        # Now it was taken, and the old one is worth nothing.
        transport.good = set()
        with pytest.raises(Refused):
            await link.heartbeat("n", Heartbeat())
        assert transport.asked[-2:] == [("heartbeat", "new"), ("heartbeat", "new")]

    asyncio.run(scene())
