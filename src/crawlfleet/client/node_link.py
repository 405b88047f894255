"""A node's way to its master over HTTP."""

from collections.abc import Callable
from typing import TypeVar

from crawlfleet.client.http.transport import Transport
from crawlfleet.errors import (
    Busy,
    Conflict,
    CrawlfleetError,
    InvalidRequest,
    MasterUnreachable,
    NotFound,
    Refused,
    Unauthenticated,
)
from crawlfleet.model.wire.node_protocol import (
    Departure,
    DrainOrder,
    Heartbeat,
    HeartbeatReply,
    LeaseReply,
    LeaseRequest,
    NodeToken,
    NoteBatch,
    NoteReply,
    Registered,
    Registration,
    ReportBatch,
    ReportReply,
)
from crawlfleet.model.wire.services import SERVICES, ServiceRequest, ServiceResponse
from crawlfleet.ports.execution import Identity
from crawlfleet.telemetry import Component, logger
from crawlfleet.views.nodes import NodeView

T = TypeVar("T")
log = logger(Component.WORKER)


class HttpControlLink:
    """The node's part of the API: registers with the join token, then uses the node's own token.

    When the master asks for it the link fetches a new token; `keep` makes that durable before it is
    used.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        join_token: str,
        node_token: str = "",
        keep: Callable[[Identity], None],
    ) -> None:
        self._transport = transport
        self._join_token = join_token
        self._keep = keep
        self._node_token = node_token
        """Token of the node: at first that of an earlier life, if there was one."""
        self._old_token = ""
        """The token before, until a master accepts the new one: others may not know it yet."""

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
        except Busy as error:
            raise _later(error) from error
        self._node_token = registered.node_token or node_token or ""
        self._old_token = ""
        return registered

    async def heartbeat(self, node_id: str, heartbeat: Heartbeat) -> HeartbeatReply:
        reply = await self._send(node_id, "heartbeat", heartbeat, HeartbeatReply)
        if reply.renew_token:
            await self._renew_token(node_id)
        return reply

    async def lease(self, node_id: str, request: LeaseRequest) -> LeaseReply:
        return await self._send(node_id, "lease", request, LeaseReply, wait_s=request.wait_s)

    async def report(self, node_id: str, batch: ReportBatch) -> ReportReply:
        return await self._send(node_id, "report", batch, ReportReply)

    async def note(self, node_id: str, batch: NoteBatch) -> NoteReply:
        return await self._send(node_id, "note", batch, NoteReply)

    async def request(self, node_id: str, service: str, request: ServiceRequest) -> ServiceResponse:
        known = SERVICES.get(service)
        return await self._call(
            f"/api/v1/nodes/{node_id}/services/{service}",
            request,
            ServiceResponse,
            route="" if known is None else known.route,
        )

    async def drain(self, node_id: str, deadline_s: float) -> None:
        await self._send(node_id, "drain", DrainOrder(deadline_s=deadline_s), NodeView)

    async def leave(self, node_id: str, session_id: str) -> None:
        await self._send(node_id, "unregister", Departure(session_id=session_id), NodeView)

    async def _renew_token(self, node_id: str) -> None:
        """Change to a new token; what fails is tried again after the next heartbeat."""
        try:
            renewed = await self._send(node_id, "renew-token", {}, NodeToken)
            self._keep(Identity(node_id=node_id, node_token=renewed.node_token))
        except (CrawlfleetError, OSError) as error:
            log.warning("the token was not renewed", node_id=node_id, error=str(error))
        else:
            self._old_token, self._node_token = self._node_token, renewed.node_token
            log.info("the token was renewed", node_id=node_id)

    async def _send(
        self,
        node_id: str,
        verb: str,
        body: object,
        type: type[T],
        *,
        wait_s: float = 0.0,
    ) -> T:
        return await self._call(f"/api/v1/nodes/{node_id}:{verb}", body, type, wait_s=wait_s)

    async def _call(
        self, path: str, body: object, type: type[T], *, wait_s: float = 0.0, route: str = ""
    ) -> T:
        try:
            return await self._with_token(path, body, type, wait_s, route)
        except (Unauthenticated, NotFound, InvalidRequest, Conflict) as error:
            raise Refused(str(error)) from error
        except Busy as error:
            raise _later(error) from error

    async def _with_token(
        self, path: str, body: object, type: type[T], wait_s: float, route: str
    ) -> T:
        """Ask with the newest token; also when it was renewed while the question was on its way."""

        async def ask(token: str) -> T:
            return await self._transport.call(
                "POST", path, type, key=token, body=body, wait_s=wait_s, route=route
            )

        used = self._node_token
        try:
            answer = await ask(used)
        except Unauthenticated:
            other = self._old_token if used == self._node_token else self._node_token
            if not other:
                raise
            return await ask(other)
        if used == self._node_token:
            self._old_token = ""
        return answer


def _later(error: Busy) -> MasterUnreachable:
    """Return the error for a busy master, with the time after which to call again."""
    unreachable = MasterUnreachable(str(error))
    unreachable.retry_after_s = error.retry_after_s
    return unreachable
