"""The executions that a session holds: those that wait for a slot, run, or have ended unconfirmed.

Assigned executions stay ready, in order, until a slot is free. Some are sent ahead to a pool that
can queue them, and those that stay ready for too long are given back. Nothing here waits for the
master: messages to it go into the reports.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from crawlfleet.model.task import ErrorClass, TaskError
from crawlfleet.model.wire.node_protocol import Assignment, ReportKind, StopOrder
from crawlfleet.ports.execution import Attempt, ExecutorPool, NotBegun
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.session.pace import Pace
from crawlfleet.worker.session.relay import Relay
from crawlfleet.worker.session.reports import Reports

log = logger(Component.WORKER)
REMEMBERED: Final = 20_000
"""Number of executions that are remembered: far more than can be under way at once. Forgetting one
costs a refused report at worst."""
READY_AT_MOST_S: Final = 1.0
"""Maximum time for which a node keeps an execution ready. Then it gives the execution back, since
another node may have room."""


class SessionWork:
    """Runs the assigned executions in the slots of the node, and reports their ends."""

    def __init__(
        self, *, pool: ExecutorPool, reports: Reports, relay: Relay, pace: Pace, slots: int
    ) -> None:
        self._pool = pool
        self._reports = reports
        self._relay = relay
        self._pace = pace
        self._offered_slots = self._slots = slots
        self.held: dict[str, Assignment] = {}
        """Executions that are running here, or whose end the master has not confirmed."""
        self._ready: OrderedDict[str, Assignment] = OrderedDict()
        """Held executions that wait for a slot, in order."""
        self.running: dict[str, asyncio.Task[None]] = {}
        """Executions that the pool has; more than there are slots when some can be sent ahead."""
        self._is_next_due = False
        self._one_waits = False
        """True when an execution waits for a slot: no other one may overtake it by being sent
        ahead."""
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._giving_back: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def limit(self, slots: int | None) -> None:
        """Limit the slots in use from now on; `None` for all of them."""
        self._slots = self._offered_slots if slots is None else min(self._offered_slots, slots)
        self.run_next()

    def begin(self, assignment: Assignment) -> None:
        """Take an assignment; one that was seen before is a late copy, and ignored."""
        id = assignment.execution_id
        if id in self._seen:
            return
        self._remember(id)
        self.held[id] = assignment
        self._ready[id] = assignment

    def _run(self, assignment: Assignment, ahead: bool) -> None:
        id = assignment.execution_id
        task = self._loop.create_task(self._work(assignment, ahead), name=id)
        task.add_done_callback(partial(self._stopped_early, assignment))
        self.running[id] = task

    def _stopped_early(self, assignment: Assignment, task: asyncio.Task[None]) -> None:
        """Report an execution as stopped if its asyncio task was cancelled before its first step:
        such a task does not even begin to clean up."""
        if self.running.get(assignment.execution_id) is task:
            del self.running[assignment.execution_id]
            self._reports.say(assignment, ReportKind.STOPPED)
            self._run_soon()

    async def _work(self, assignment: Assignment, ahead: bool) -> None:
        """Run an execution, and then the following ones in the same asyncio task: a task for each
        would cost more than the rest of a short execution."""
        task = asyncio.current_task(self._loop)
        assert task is not None, "it runs in one"
        while True:
            await self._execute(assignment, ahead)
            if self._one_waits or task.cancelling():
                return  # what was handed back is begun in order, when all of it is here
            if (following := self._following()) is None:
                return
            assignment, ahead = following
            self.running[assignment.execution_id] = task

    def _run_soon(self) -> None:
        """Fill free slots once for all executions that end in the same turn of the loop."""
        if not self._is_next_due:
            self._is_next_due = True
            self._loop.call_soon(self.run_next)

    def run_next(self) -> None:
        """Fill the slots, and send some ahead where the pool can hold them."""
        self._is_next_due = False
        while (following := self._following()) is not None:
            self._run(*following)
        if self._ready:
            self._give_back_later()

    def _following(self) -> tuple[Assignment, bool] | None:
        """Return the execution to begin now, and whether it is sent ahead; `None` if none may
        begin."""
        if not self._ready:
            return None
        is_ahead = len(self.running) >= self._slots
        if not is_ahead:
            self._one_waits = False
        elif not self._may_send_ahead() or (len(self.running) >= self._slots + self._pool.ahead):
            return None
        _, assignment = self._ready.popitem(last=False)
        return assignment, is_ahead

    def _may_send_ahead(self) -> bool:
        """Return whether executions may be sent ahead: not while one waits for a slot, and not when
        the cluster's settings allow this node fewer slots than the pool has."""
        return not self._one_waits and self._slots == self._offered_slots

    def _give_back_later(self) -> None:
        """Check again soon: executions that did not begin by then are given back."""
        if self._giving_back is None:
            newest = next(reversed(self._ready))
            self._giving_back = self._loop.call_later(READY_AT_MOST_S, self._give_back, newest)

    def _give_back(self, newest: str) -> None:
        self._giving_back = None
        if newest in self._ready:
            self._pace.hold_back()
            for assignment in self._ready.values():
                self._reports.say(assignment, ReportKind.RELEASED)
            self._ready.clear()
        elif self._ready:
            self._give_back_later()

    def _remember(self, execution_id: str) -> None:
        """Remember an execution, so that a late copy of its assignment does not start it again."""
        self._seen[execution_id] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)

    async def _execute(self, assignment: Assignment, ahead: bool) -> None:
        observer = self._relay.observe(assignment, self._reports.say_started)
        try:
            attempt = await self._pool.run(assignment, observer, ahead=ahead)
        except NotBegun:
            self._ready[assignment.execution_id] = assignment
            self._ready.move_to_end(assignment.execution_id, last=False)
            self._one_waits = True
        except asyncio.CancelledError:
            self._reports.say(assignment, ReportKind.STOPPED)
            raise
        except Exception as error:
            log.exception("the pool failed", execution_id=assignment.execution_id)
            failure = TaskError(
                error_class=ErrorClass.CRASH, message=f"the node could not run it: {error!r}"
            )
            self._reports.say(assignment, ReportKind.FAILED, Attempt(error=failure))
        else:
            kind = ReportKind.FAILED if attempt.error else ReportKind.SUCCEEDED
            if measured := observer.metrics():
                attempt = msgspec.structs.replace(attempt, metrics=attempt.metrics | measured)
            self._reports.say(assignment, kind, attempt)
            self._pace.count_end()
        finally:
            self.running.pop(assignment.execution_id, None)
            self._relay.end(assignment.execution_id)
            self._run_soon()

    def obey(self, orders: tuple[StopOrder, ...]) -> None:
        """Stop the executions that the master orders to stop. An order may come twice."""
        for order in orders:
            if order.execution_id in self.running:
                self._stop_one(order.execution_id)
            elif self._ready.pop(order.execution_id, None):
                self._reports.say(order, ReportKind.STOPPED)
            elif order.execution_id not in self.held:
                # Ordered to stop before it was ever delivered: it must not begin later.
                self._remember(order.execution_id)
                if not self._reports.mentions(order.execution_id):
                    self._reports.say(order, ReportKind.STOPPED)

    def active_tasks(self) -> tuple[str, ...]:
        """Return the tasks of the running executions that this node still holds."""
        held = self.held
        return tuple(held[id].task_id for id in self.running if id in held)

    def drop(self, listed: tuple[str, ...], lost_tasks: frozenset[str]) -> None:
        """Stop those listed executions whose leases this node has lost, as the master reported."""
        for id in listed:
            held = self.held.get(id)  # not what was forgotten, and takes its time to stop
            if held is not None and id in self.running and held.task_id in lost_tasks:
                log.warning("no longer ours", execution_id=id)
                self._stop_one(id)

    def forget(self, execution_id: str) -> None:
        """Drop an execution: the master knows its end, or this node no longer holds its lease."""
        self.held.pop(execution_id, None)
        self._ready.pop(execution_id, None)
        if execution_id in self.running:
            self._stop_one(execution_id)

    def _stop_one(self, execution_id: str) -> None:
        """Cancel an execution once: a second cancellation would cut short its time to clean up."""
        running = self.running[execution_id]
        if not running.cancelling():
            running.cancel()

    async def stop_all(self) -> None:
        """Stop all running executions and give back the others. Nothing runs when it returns."""
        if self._giving_back is not None:
            self._giving_back.cancel()
        self._slots = 0  # whatever comes back from the pool stays here
        await cancelled([*self.running.values()])
        for assignment in self._ready.values():
            self._reports.say(assignment, ReportKind.RELEASED)
        self._ready.clear()


async def cancelled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until each has ended."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
