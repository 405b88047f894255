"""Passes messages between the master and the executions of a session: orders to them, and their
requests to services of the master.

A request to a service that must not fail for the master's absence (output, frontier, code, secrets)
is sent again and again while the master is away or has no room; the log of the execution says so.
A request to another service is sent once: its caller has a deadline and asks again by itself.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from crawlfleet.errors import MasterUnreachable, Refused
from crawlfleet.model.log import LogLevel
from crawlfleet.model.wire.node_protocol import Assignment, ExecutionOrder, OrderAnswer
from crawlfleet.model.wire.services import SERVICES, ServiceRequest, ServiceResponse, refused
from crawlfleet.ports.execution import ControlLink, ExecutorPool
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.session.log_forwarding import ExecutionObserver, LogForwarder

log = logger(Component.WORKER)
FIRST_PAUSE_S: Final = 0.2
MAX_PAUSE_S: Final = 10.0
REPORT_EVERY_S: Final = 60.0


class Relay:
    """Implements `crawlfleet.worker.session.log_forwarding.RequestRelay` for one session."""

    def __init__(self, logs: LogForwarder, *, link: ControlLink, pool: ExecutorPool) -> None:
        self._logs = logs
        self._link = link
        self._pool = pool
        self._observers: dict[str, ExecutionObserver] = {}

    def observe(
        self, assignment: Assignment, begin: Callable[[Assignment], None]
    ) -> ExecutionObserver:
        """Make the observer of an execution; it calls `begin` when the work begins."""
        observer = self._logs.observe(assignment, begin, self)
        self._observers[assignment.execution_id] = observer
        return observer

    def end(self, execution_id: str) -> None:
        """The execution has ended: no order reaches it any more."""
        self._observers.pop(execution_id, None)

    def pass_on(self, orders: tuple[ExecutionOrder, ...]) -> None:
        """Pass orders on to executions; for one that takes none, answer in its place."""
        for order in orders:
            observer = self._observers.get(order.execution_id)
            if observer is not None and not self._pool.order(order):
                why = f"{order.execution_id} takes no orders"
                observer.answer(OrderAnswer(number=order.number, error=why))

    async def request(
        self, observer: ExecutionObserver, service: str, payload: msgspec.Raw, data: bytes
    ) -> ServiceResponse:
        """Send a request of an execution to the master, again and again where the service wants
        that, and return the response."""
        assignment = observer.assignment
        request = ServiceRequest(
            session_id=self._logs.session_id,
            execution_id=assignment.execution_id,
            token=assignment.token,
            payload=payload,
            data=data,
        )
        known = SERVICES.get(service)
        waiting = "" if known is None else known.waiting
        loop = asyncio.get_running_loop()
        pause_s, reported_at = FIRST_PAUSE_S, float("-inf")
        while True:
            try:
                response = await self._link.request(self._logs.node_id, service, request)
            except Refused as error:
                response = refused(f"the master does not do this: {error}")
            except MasterUnreachable as error:
                response = refused(str(error), may_retry=True)
            if not (waiting and response.may_retry):
                return response
            if loop.time() - reported_at >= REPORT_EVERY_S:
                reported_at = loop.time()
                why = response.refusal
                log.warning("a request waits", execution_id=assignment.execution_id, error=why)
                observer.log(waiting, LogLevel.WARNING, {"why": why})
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, MAX_PAUSE_S)
