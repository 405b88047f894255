"""Runs assignments in pooled child processes, apart from the agent.

A process is started when it is first needed and kept for the next execution; a stop is an order
first and SIGKILL after the grace, so that it always works. Programs in other languages
(`worker.commands`) speak the same protocol and live in the same pool. Foreign code gets a process
of its own in a cell of the sandbox, for one execution.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Final

import msgspec

from crawlfleet import plugins, telemetry
from crawlfleet.core.isolation import needs_cell
from crawlfleet.model.isolation import Isolation
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.model.wire.node_protocol import Assignment, ExecutionOrder
from crawlfleet.model.wire.services import SECRETS
from crawlfleet.ports.execution import Attempt, NotBegun, Observer
from crawlfleet.ports.sandbox import CellOrder, Provide, Sandbox
from crawlfleet.worker.pool import protocol
from crawlfleet.worker.pool.confinement import Masters, Unprovided, order_of
from crawlfleet.worker.pool.executions import SentExecution, TimeLimitReached
from crawlfleet.worker.pool.process import ExecutorProcess, ProcessGone, ProcessNotStarted
from crawlfleet.worker.pool.results import NO_SECRETS, attempt_of, failed, over_time, start_of
from crawlfleet.worker.pool.run_code import CodeRunner
from crawlfleet.worker.pool.secret_masking import MaskingObserver, SecretMask
from crawlfleet.worker.pool.workspace import TYPES, UNCONFINED, Workspaces

PYTHON: Final = ""
"""The kind of process that runs all executors of installed packages."""
RECYCLE_AFTER: Final = 100_000
"""Maximum number of executions of one process, so that leaks of user code stay bounded. A new
process takes as long to start as thousands of the shortest tasks take to run."""
READY_TIMEOUT_S: Final = 20.0


class ProcessPool:
    """An `ExecutorPool` of at most `settings.slots` processes; more calls of `run` wait."""

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        sandbox: Sandbox | None = None,
        provide: Mapping[str, Provide] | None = None,
        workshop: Workspaces | None = None,
        masters: Masters | None = None,
        recycle_after: int = RECYCLE_AFTER,
        ready_timeout_s: float = READY_TIMEOUT_S,
    ) -> None:
        """Create a pool. Without a `sandbox` nothing is confined, and executions that demand it
        fail. `provide` returns, by task type, the extra needs of executions in a cell. With a
        `workshop` the pool also runs handed-over code. No cell can reach the `masters`."""
        self._settings = settings
        self._sandbox = sandbox
        self._provide = provide or {}
        self._masters = masters or Masters()
        self._recycle_after = recycle_after
        self._ready_timeout_s = ready_timeout_s
        apart = () if workshop is None else TYPES
        self._task_types = tuple(
            sorted({*plugins.names(plugins.EXECUTORS), *settings.commands, *apart})
        )
        self._hello = protocol.hello_of(settings)
        self._slots = asyncio.Semaphore(settings.slots)
        self._taken = 0
        self._children: set[ExecutorProcess] = set()
        self._holding: set[ExecutorProcess] = set()
        """Processes that hold a slot."""
        self._idle: list[ExecutorProcess] = []
        self._at_work: dict[str, ExecutorProcess] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        """Tasks that end cells whose work is done; no execution waits for them."""
        self._code_runner: CodeRunner | None = None
        if workshop is not None:
            self._code_runner = CodeRunner(
                settings,
                workshop,
                sandbox=sandbox,
                order=self._order,
                at_work=self._at_work,
                ready_timeout_s=ready_timeout_s,
            )
        self._closed = False
        self._log = telemetry.logger(telemetry.Component.WORKER)

    @property
    def task_types(self) -> tuple[str, ...]:
        return self._task_types

    @property
    def isolation(self) -> Isolation | None:
        """The strength of the isolation of foreign code; `None` when there is no sandbox."""
        return self._sandbox.isolation if self._sandbox is not None else None

    @property
    def ahead(self) -> int:
        return sum(child.ahead for child in self._children if not self._is_old(child))

    async def prestart(self) -> None:
        """Start one process ahead of the first execution. Raises nothing: the first execution would
        fail with the reason."""
        try:
            child, _ = await self._acquire(PYTHON)
        except ProcessNotStarted as failure:
            self._log.warning("executor_prestart_failed", reason=str(failure))
        else:
            await self._release(child)
        offers_code = self._settings.python_allow or self._settings.python_modules
        if self._sandbox is not None and offers_code:
            await self._sandbox.open()

    async def run(
        self, assignment: Assignment, observer: Observer, *, ahead: bool = False
    ) -> Attempt:
        """Run an execution. It is repeated once when an idle process turned out to be dead before
        the work began."""
        if not assignment.secrets:
            return await self._run(assignment, observer, NO_SECRETS, ahead=ahead)
        if ahead and self._slots.locked():
            raise NotBegun("it needs a process of its own")
        response = await observer.request(SECRETS)
        why = response.refusal
        secrets = {} if why else msgspec.json.decode(response.payload, type=dict[str, str])
        if not why and secrets.keys() != {*assignment.secrets}:
            why = "the master gave others than were declared"
        if why:
            return failed(ErrorClass.INVALID, f"it cannot be given its secrets: {why}")
        mask = SecretMask(secrets)
        discreet = MaskingObserver(observer, mask)
        return mask.attempt(await self._run(assignment, discreet, secrets, ahead=ahead))

    async def _run(
        self,
        assignment: Assignment,
        observer: Observer,
        secrets: Mapping[str, str],
        *,
        ahead: bool,
    ) -> Attempt:
        if assignment.bundle is not None or (
            assignment.task_type in TYPES and assignment.task_type not in self._settings.commands
        ):
            return await self._run_code(assignment, observer, secrets, ahead=ahead)
        kind = self._kind_of(assignment.task_type)
        if kind is None:
            known = ", ".join(self._task_types)
            return failed(
                ErrorClass.INVALID,
                f"this node has no executor for {assignment.task_type!r}, only for {known};"
                " install the package that offers it, or set `worker.commands`",
            )
        try:
            order = await self._order(assignment, ahead=ahead)
        except Unprovided as error:
            return failed(error.error_class, str(error))
        while True:
            warm = True
            try:
                if ahead and self._slots.locked():
                    if secrets:
                        raise NotBegun("it needs a process of its own")
                    child = self._quickest(kind)
                else:
                    child, warm = await self._acquire(kind, order, is_private=bool(secrets))
            except ProcessNotStarted as failure:
                return failed(ErrorClass.CRASH, str(failure), failure.output)
            talk = child.begin(start_of(assignment, secrets), observer, assignment.timeout_s)
            try:
                return await self._listen(child, talk, assignment)
            except ProcessGone as departure:
                end, output = await self._reap(child)
                if self._closed:
                    return failed(ErrorClass.CRASH, "the worker was shut down during the work")
                if talk.has_begun or not warm or str(departure):
                    message = str(departure) or f"the executor process {end} during the work"
                    return failed(departure.error_class, message, output)

    async def _run_code(
        self,
        assignment: Assignment,
        observer: Observer,
        secrets: Mapping[str, str],
        *,
        ahead: bool,
    ) -> Attempt:
        if self._code_runner is None:
            return failed(
                ErrorClass.INVALID,
                "this node runs no code that people hand over; set `worker.bundles` to allow it",
            )
        if self._sandbox is None and not self._settings.bundles_unconfined:
            return failed(ErrorClass.INVALID, f"this node has no sandbox: {UNCONFINED}")
        if ahead and self._slots.locked():
            raise NotBegun("it needs a process of its own")
        await self._slots.acquire()
        self._taken += 1
        try:
            if self._idle and len(self._idle) + self._taken > self._settings.slots:
                await self._dismiss(self._idle.pop(0))
            return await self._code_runner.run(assignment, observer, secrets)
        finally:
            self._free_slot()

    async def _order(
        self, assignment: Assignment, provide: Provide | None = None, *, ahead: bool = False
    ) -> CellOrder | None:
        """Return the order for the cell of an execution; `None` when it needs no cell. Raises
        `NotBegun` and `Unprovided`."""
        if not needs_cell(
            assignment.task_type,
            assignment.isolation,
            self._settings.sandbox,
            has_bundle=assignment.bundle is not None,
        ):
            return None
        if self._sandbox is None:
            if assignment.isolation is None:
                return None  # what is handed over was refused before, if it must be
            raise Unprovided(f"this node has no sandbox, but {assignment.isolation} is demanded")
        if ahead and self._slots.locked():
            raise NotBegun("it needs a process of its own")
        offer = self._sandbox.isolation
        if assignment.isolation is not None and offer.level < assignment.isolation:
            raise Unprovided(
                f"{assignment.isolation} is demanded, but this node only offers {offer.level}"
            )
        provide = provide or self._provide.get(assignment.task_type)
        return await order_of(assignment, self._settings, provide, self._masters)

    def order(self, order: ExecutionOrder) -> bool:
        child = self._at_work.get(order.execution_id)
        if child is None or not child.takes_orders:
            return False
        return child.tell(
            protocol.WorkOrder(
                execution_id=order.execution_id,
                number=order.number,
                name=order.name,
                arguments=order.arguments,
            )
        )

    async def close(self) -> None:
        self._closed = True
        self._idle.clear()
        if self._code_runner is not None:
            await self._code_runner.close()
        async with asyncio.TaskGroup() as group:
            for child in self._children:
                group.create_task(child.retire(self._settings.stop_grace_s))
        self._children.clear()
        if self._leaving:
            await asyncio.wait(self._leaving)
        if self._sandbox is not None:
            await self._sandbox.close()

    def _kind_of(self, task_type: str) -> str | None:
        if task_type in self._settings.commands:
            return task_type
        return PYTHON if task_type in self._task_types else None

    async def _listen(
        self, child: ExecutorProcess, talk: SentExecution, assignment: Assignment
    ) -> Attempt:
        """Wait for the end of an execution, and return its outcome. Raises `NotBegun` or
        `ProcessGone`."""
        self._at_work[talk.id] = child
        try:
            reply = await talk.ended
        except (ProcessGone, NotBegun):
            raise
        except TimeLimitReached:
            await self._halt(child, talk)
            return over_time(assignment)
        except BaseException:
            await self._halt(child, talk)
            raise
        finally:
            self._at_work.pop(talk.id, None)
        if child.is_confined:
            child.kill()  # what it did after its figures were read would be in none
        figures = child.figures
        if not child.under_way:
            await self._release(child)
        return attempt_of(reply, talk.took_s, figures)

    async def _halt(self, child: ExecutorProcess, talk: SentExecution) -> None:
        clean = False
        try:
            clean = await child.halt(talk, self._settings.stop_grace_s)
        finally:
            if not clean:
                child.kill()
                await self._reap(child)
            elif not child.under_way:
                await self._release(child)

    async def _reap(self, child: ExecutorProcess) -> tuple[str, str]:
        """End a process. Returns how it ended, and the last of its output."""
        holds_slot = self._take_slot_from(child)
        try:
            return await child.exit_report()
        finally:
            await child.end()
            self._children.discard(child)
            self._free_slot(holds_slot)

    def _quickest(self, kind: str) -> ExecutorProcess:
        """Return a busy process of the kind that can queue one more execution. Raises
        `NotBegun`."""
        best, least = None, protocol.MAX_AHEAD + 1
        for child in self._children:
            under_way = child.under_way
            is_quick = 0 < under_way <= child.ahead and not self._is_old(child)
            if is_quick and under_way < least and child.kind == kind:
                best, least = child, under_way
        if best is None:
            raise NotBegun("no executor is that quick now")
        return best

    async def _acquire(
        self, kind: str, order: CellOrder | None = None, *, is_private: bool = False
    ) -> tuple[ExecutorProcess, bool]:
        """Return an idle process of the kind, and whether it existed before. With an `order`, it is
        a new one in a cell. A private one is for a single execution.

        Waits for a slot, which the process then holds until no execution is under way in it. Raises
        `ProcessNotStarted`.
        """
        await self._slots.acquire()
        self._taken += 1
        try:
            child, warm = await self._find(kind, order, is_private)
        except BaseException:
            self._free_slot()
            raise
        self._holding.add(child)
        return child, warm

    def _take_slot_from(self, child: ExecutorProcess) -> bool:
        """Take the slot from a process. Returns whether it had one, which the caller then frees."""
        held = child in self._holding
        self._holding.discard(child)
        return held

    def _free_slot(self, held: bool = True) -> None:
        if held:
            self._taken -= 1
            self._slots.release()

    async def _find(
        self, kind: str, order: CellOrder | None, is_private: bool
    ) -> tuple[ExecutorProcess, bool]:
        is_shared = order is None and not is_private
        while is_shared and (fitting := [child for child in self._idle if child.kind == kind]):
            child = fitting[-1]  # the one used last, so that the others can be given up
            self._idle.remove(child)
            if not child.departed:
                return child, True
            await self._dismiss(child)
        if self._idle and len(self._idle) + self._taken > self._settings.slots:
            await self._dismiss(self._idle.pop(0))  # one of another kind
        if self._closed:
            raise ProcessNotStarted("the worker is shutting down")
        began = time.monotonic()
        if order is not None and self._sandbox is not None:
            child = await ExecutorProcess.confine(
                kind, order, self._sandbox, self._hello, self._ready_timeout_s
            )
        else:
            child = await ExecutorProcess.spawn(
                kind, self._settings.commands.get(kind, ()), self._hello, self._ready_timeout_s
            )
        self._log.debug("executor_ready", kind=kind, seconds=time.monotonic() - began)
        child.is_private = is_private
        self._children.add(child)
        if self._closed:
            await self._dismiss(child)
            raise ProcessNotStarted("the worker is shutting down")
        return child, False

    async def _release(self, child: ExecutorProcess) -> None:
        """Release a process without executions. All callers whose work has just ended may call
        it."""
        if not self._take_slot_from(child):
            return
        if child.is_confined:
            # Nothing of it runs when its end is told; it is gone before its slot is another's.
            try:
                await child.stop()
            finally:
                leaving = asyncio.create_task(self._see_off(child), name="end of a cell")
                self._leaving.add(leaving)
                leaving.add_done_callback(self._leaving.discard)
            return
        try:
            if self._is_old(child) or self._closed:
                await self._dismiss(child)
            else:
                self._idle.append(child)
        finally:
            self._free_slot()

    async def _see_off(self, child: ExecutorProcess) -> None:
        try:
            await self._dismiss(child)
        finally:
            self._free_slot()

    def _is_old(self, child: ExecutorProcess) -> bool:
        is_sole = child.is_confined or child.is_private
        return is_sole or child.executions >= self._recycle_after

    async def _dismiss(self, child: ExecutorProcess) -> None:
        self._children.discard(child)
        await child.retire(self._settings.stop_grace_s)
