"""Orders to running executions, and their answers.

The master sends an order with the reply to the node's next long poll, which it wakes for that; the
answer comes with a note. Orders are in the memory of the master that was called: the caller waits
for the answer, and repeats the call when none comes. An order that is sent twice is carried out
once.
"""

import asyncio
from typing import Any, Final

import msgspec

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.errors import Busy, Conflict
from crawlfleet.model.task import Execution
from crawlfleet.model.wire.node_protocol import ExecutionOrder, OrderAnswer

ANSWER_WITHIN_S: Final = 10.0
SEND_AGAIN_S: Final = 2.0
MAX_WAITING: Final = 200
POLLS_WITHIN_S: Final = 75.0
"""A node that has not asked this master for work for so long speaks to another one."""
_NUMBERS: Final = 1 << 40


class ExecutionOrders:
    """Carries orders to executions and brings back their answers."""

    def __init__(self, *, state: FleetState, first: int = 0) -> None:
        """Numbers begin after `first`: those of two masters, or two lives, should differ."""
        self._state = state
        self._number = first
        self._waiting: dict[int, _Errand] = {}
        self._polled: dict[str, float] = {}

    async def ask(
        self, execution: Execution, name: str, arguments: dict[str, Any] | None = None
    ) -> msgspec.Raw:
        """Send an order and return the answer; raises `Conflict` for a refusal, or `Busy`."""
        if not self.is_connected_here(execution.session_id):
            raise Conflict(
                f"the node {execution.node_id} of {execution.task_id} speaks to another master; "
                "ask that one"
            )
        if len(self._waiting) >= MAX_WAITING:
            raise Busy(f"{MAX_WAITING} wait for answers of executions already; try again later")
        self._number += 1
        order = ExecutionOrder(
            execution_id=execution.id,
            number=self._number % _NUMBERS,
            name=name,
            arguments=arguments or {},
        )
        errand = self._waiting[order.number] = _Errand(order, execution.session_id)
        try:
            answer = await self._answered(errand)
        finally:
            del self._waiting[order.number]
        if answer.error:
            raise Conflict(answer.error)
        return answer.data

    def due(self, session_id: str) -> tuple[ExecutionOrder, ...]:
        """Return the orders to send to a session now; an order without an answer is sent again."""
        now = asyncio.get_running_loop().time() if self._waiting else 0.0
        orders = []
        for errand in self._waiting.values():
            if errand.session_id == session_id and now - errand.sent_at >= SEND_AGAIN_S:
                errand.sent_at = now
                orders.append(errand.order)
        return tuple(orders)

    def note_poll(self, session_id: str) -> None:
        """Note that a session polls this master for work."""
        self._polled[session_id] = asyncio.get_running_loop().time()
        if len(self._polled) > 2 * len(self._state.sessions) + MAX_WAITING:
            living = self._state.sessions
            self._polled = {id: at for id, at in self._polled.items() if id in living}

    def is_connected_here(self, session_id: str) -> bool:
        """Return whether a session polls this master, so that orders reach it from here."""
        heard_at = self._polled.get(session_id, float("-inf"))
        return asyncio.get_running_loop().time() - heard_at <= POLLS_WITHIN_S

    def answer(self, execution_id: str, answer: OrderAnswer) -> None:
        """Pass an answer on to its caller; an answer to a call that has ended is dropped."""
        errand = self._waiting.get(answer.number)
        if errand and errand.order.execution_id == execution_id and not errand.answer.done():
            errand.answer.set_result(answer)

    async def _answered(self, errand: "_Errand") -> OrderAnswer:
        until = asyncio.get_running_loop().time() + ANSWER_WITHIN_S
        while asyncio.get_running_loop().time() < until:
            self._state.signals.session(errand.session_id).set()
            await asyncio.wait([errand.answer], timeout=SEND_AGAIN_S)
            if errand.answer.done():
                return errand.answer.result()
            if errand.order.execution_id not in self._state.leases:
                raise Conflict(f"{errand.order.execution_id} has ended meanwhile")
        raise Busy(f"the node did not answer within {ANSWER_WITHIN_S:g} s; try again")


class _Errand:
    """An order on its way."""

    __slots__ = ("answer", "order", "sent_at", "session_id")

    def __init__(self, order: ExecutionOrder, session_id: str) -> None:
        self.order = order
        self.session_id = session_id
        self.sent_at = float("-inf")
        self.answer: asyncio.Future[OrderAnswer] = asyncio.get_running_loop().create_future()
