"""The services that a master offers to executions, and the request to one of them.

A request goes from an executor process to its node and from there to the master; each hop forwards
it without decoding it. `SERVICES` lists the differences between services.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from crawlfleet.model.task import JSON_NULL

OUTPUT: Final = "output"
FRONTIER: Final = "frontier"
LOCKS: Final = "locks"
LEDGER: Final = "ledger"
CODE: Final = "code"
BUNDLE: Final = "bundle"
SECRETS: Final = "secrets"


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """Rules for the requests to one service, on all hops between an executor process and the
    master."""

    name: str
    is_for_executors: bool = True
    """True if executor processes may use the service; other services are for the node alone."""
    max_bytes: int = 0
    """The most `data` that an executor process may send with one request."""
    waiting: str = ""
    """The line in the log of an execution while the node sends its request again and again. A node
    sends a request to a service without this line only once: the caller has a deadline."""
    route: str = ""
    """Names the services that only one master can answer; the node's link remembers which."""


SERVICES: Final[Mapping[str, Service]] = MappingProxyType(
    {
        each.name: each
        for each in (
            Service(
                name=OUTPUT,
                max_bytes=1_000_000,
                waiting="the crawl waits to hand over its output",
            ),
            Service(
                name=FRONTIER,
                # More does not fit into a request to the master.
                max_bytes=11_000_000,
                waiting="the crawl waits for its frontier",
                route=FRONTIER,
            ),
            Service(name=LOCKS),
            Service(name=LEDGER, route=LEDGER),
            Service(name=CODE, is_for_executors=False, waiting="the work waits for its code"),
            Service(name=BUNDLE, is_for_executors=False),
            Service(name=SECRETS, is_for_executors=False, waiting="the work waits for its secrets"),
        )
    }
)
FOR_EXECUTORS: Final = tuple(each.name for each in SERVICES.values() if each.is_for_executors)


class ServiceRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node's request to a service, mostly in the name of an execution that it holds."""

    session_id: str
    execution_id: str = ""
    token: int = 0
    payload: msgspec.Raw = msgspec.field(default_factory=JSON_NULL.copy)
    """The request as JSON; each service has its own form."""
    data: bytes = b""
    """Binary content, where the service takes any."""


class ServiceResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a service."""

    payload: msgspec.Raw = msgspec.field(default_factory=JSON_NULL.copy)
    """The answer as JSON."""
    data: bytes = b""
    """Binary content of the answer."""
    refusal: str = ""
    """Reason why the service did not do what was requested; empty when it did."""
    may_retry: bool = False
    """True if the same request may succeed later."""

    def __repr__(self) -> str:  # a payload may hold secrets
        return f"ServiceResponse(refusal={self.refusal!r}, may_retry={self.may_retry})"


def refused(why: str, *, may_retry: bool = False) -> ServiceResponse:
    """Return a response that refuses the request."""
    return ServiceResponse(refusal=why, may_retry=may_retry)


def answered(answer: object) -> ServiceResponse:
    """A response with an answer that is JSON."""
    return ServiceResponse(payload=msgspec.Raw(msgspec.json.encode(answer)))
