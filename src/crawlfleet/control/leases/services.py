"""The services that this master offers to executions, by name.

A service is registered with the type of its payload and a handler. Whether the node may speak for
the execution is checked here, once for all of them.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from crawlfleet.control.leases.fence import Fence
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.errors import FieldProblem, InvalidRequest, NotFound
from crawlfleet.model.wire.services import ServiceRequest, ServiceResponse, refused


class ServiceCall(NamedTuple):
    """A request to a service by an execution whose lease the node holds."""

    lease: Lease
    payload: Any
    """Payload of the request, of the type with which the service was registered."""
    data: bytes

    @property
    def execution_id(self) -> str:
        return self.lease.execution.id


class NodeCall(NamedTuple):
    """A request to a service by a node for itself."""

    node_id: str
    payload: Any


Handler = Callable[[ServiceCall], Awaitable[ServiceResponse]]
NodeHandler = Callable[[NodeCall], Awaitable[ServiceResponse]]


class NodeServices:
    """Finds the service that a request names, and has it answer."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence
        self._handlers: dict[str, tuple[msgspec.json.Decoder[Any], Handler]] = {}
        self._node_handlers: dict[str, tuple[msgspec.json.Decoder[Any], NodeHandler]] = {}

    def register(self, name: str, handler: Handler, *, payload: Any = None) -> None:
        """Offer a service to executions. `payload` is the type of the request's payload."""
        self._handlers[name] = msgspec.json.Decoder(payload), handler

    def register_for_nodes(self, name: str, handler: NodeHandler, *, payload: Any = None) -> None:
        """Offer a service to nodes, which call it for themselves."""
        self._node_handlers[name] = msgspec.json.Decoder(payload), handler

    async def answer(self, node_id: str, name: str, request: ServiceRequest) -> ServiceResponse:
        """Call the service of that name and return its answer.

        Raises `NotFound` when there is no such service, `InvalidRequest` when the payload has
        another form, `Busy` when another master has to be asked, and `StoreUnavailable`.
        """
        if (found := self._handlers.get(name)) is not None:
            decoder, handler = found
            payload = _decoded(decoder, request.payload)
            lease = await self._fence.lease(node_id, request)
            if lease is None:
                return refused(f"{request.execution_id} is not held by {node_id}")
            return await handler(ServiceCall(lease, payload, request.data))
        if (of_nodes := self._node_handlers.get(name)) is not None:
            decoder, node_handler = of_nodes
            return await node_handler(NodeCall(node_id, _decoded(decoder, request.payload)))
        raise NotFound("service", name)


def _decoded(decoder: msgspec.json.Decoder[Any], payload: msgspec.Raw) -> Any:
    try:
        return decoder.decode(payload)
    except msgspec.DecodeError as error:  # the depth of a body was counted
        raise InvalidRequest(
            [
                FieldProblem(
                    field="payload",
                    message=f"is not what this service takes: {error}",
                    remedy="see the node protocol",
                )
            ]
        ) from None
