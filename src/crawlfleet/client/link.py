"""A node's way to its master over HTTP."""

from typing import TypeVar

from crawlfleet.client.transport import Transport
from crawlfleet.errors import Conflict, InvalidRequest, NotFound, Refused, Unauthenticated
from crawlfleet.model.messages import (
    Departure,
    Heartbeat,
    HeartbeatReply,
    LeaseReply,
    LeaseRequest,
    NoteBatch,
    NoteReply,
    Registered,
    Registration,
    ReportBatch,
    ReportReply,
)
from crawlfleet.model.views import NodeView

T = TypeVar("T")


class HttpControlLink:
    """Speaks the node's part of the API: joins with the join token, then uses its own."""

    def __init__(self, transport: Transport, *, join_token: str) -> None:
        self._transport = transport
        self._join_token = join_token
        self._node_token = ""

    async def register(self, registration: Registration, node_token: str | None) -> Registered:
        try:
            registered = await self._transport.call(
                "POST",
                "/api/v1/nodes:register",
                Registered,
                key=node_token or self._join_token,
                body=registration,
            )
        except (Unauthenticated, NotFound) as error:
            raise Refused(str(error)) from error
        self._node_token = registered.node_token or node_token or ""
        return registered

    async def heartbeat(self, node_id: str, heartbeat: Heartbeat) -> HeartbeatReply:
        return await self._send(node_id, "heartbeat", heartbeat, HeartbeatReply)

    async def lease(self, node_id: str, request: LeaseRequest) -> LeaseReply:
        return await self._send(node_id, "lease", request, LeaseReply, wait_s=request.wait_s)

    async def report(self, node_id: str, batch: ReportBatch) -> ReportReply:
        return await self._send(node_id, "report", batch, ReportReply)

    async def note(self, node_id: str, batch: NoteBatch) -> NoteReply:
        return await self._send(node_id, "note", batch, NoteReply)

    async def leave(self, node_id: str, session_id: str) -> None:
        await self._send(node_id, "unregister", Departure(session_id=session_id), NodeView)

    async def _send(
        self, node_id: str, verb: str, body: object, type: type[T], *, wait_s: float = 0.0
    ) -> T:
        try:
            return await self._transport.call(
                "POST",
                f"/api/v1/nodes/{node_id}:{verb}",
                type,
                key=self._node_token,
                body=body,
                wait_s=wait_s,
            )
        except (Unauthenticated, NotFound, InvalidRequest, Conflict) as error:
            raise Refused(str(error)) from error
