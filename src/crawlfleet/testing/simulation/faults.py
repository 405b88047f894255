"""The parts of a world that fail on purpose: the store's process, the network, the executors."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from crawlfleet.errors import (
    Conflict,
    MasterUnreachable,
    NotFound,
    Refused,
    StoreUnavailable,
    Unauthenticated,
)
from crawlfleet.model.admin_requests import ClusterPatch, ClusterSettingsPatch
from crawlfleet.model.change import Change
from crawlfleet.model.log import LogLevel
from crawlfleet.model.project import DEFAULT_CLUSTER
from crawlfleet.model.task import ErrorClass, Task, TaskError
from crawlfleet.model.wire.node_protocol import (
    Assignment,
    ExecutionOrder,
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
from crawlfleet.model.wire.services import ServiceRequest, ServiceResponse
from crawlfleet.ports.execution import Attempt, Identity, Observer
from crawlfleet.ports.store import Committed, Store
from crawlfleet.testing.simulation.invariants import Invariants

if TYPE_CHECKING:
    from crawlfleet.master import ControlPlane

T = TypeVar("T")


async def change_terms(control: "ControlPlane", chance: random.Random) -> None:
    """Give the nodes other time-outs, shorter or longer than before."""
    timeout_s = chance.uniform(4.0, 24.0)
    interval_s = timeout_s / chance.choice((3, 4, 8))
    settings = ClusterSettingsPatch(session_timeout_s=timeout_s, heartbeat_interval_s=interval_s)
    await control.clusters.change(DEFAULT_CLUSTER, ClusterPatch(configuration=settings), by="x")


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Rates of failures; all zero in a quiet world."""

    lost_request: float = 0.0
    lost_reply: float = 0.0
    repeated: float = 0.0
    late: float = 0.0
    crash_before_commit: float = 0.0
    crash_after_commit: float = 0.0
    store_fails_before: float = 0.0
    store_fails_after: float = 0.0
    slow_answer: float = 0.0
    """Rate of commits that readers of the store see long before the writer gets the answer."""
    turned: float = 0.0
    """A node turns to another master, although its own answers."""
    slow_read: float = 0.0
    failed_read: float = 0.0


QUIET = Rates()


class WatchedStore:
    """A store in which the master may die just before or just after any commit."""

    def __init__(
        self,
        store: Store,
        *,
        invariants: Invariants,
        chance: random.Random,
        rates: Callable[[], Rates],
        commit_s: Sequence[float],
        die: Callable[[], None],
    ) -> None:
        self._store = store
        self._commit_s = commit_s
        self._invariants = invariants
        self._chance = chance
        self._rates = rates
        self._die = die
        self._turn = asyncio.Lock()
        self._grave: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        if self.dead:
            raise asyncio.CancelledError
        return getattr(self._store, name)

    async def close(self) -> None:
        """The store outlives its masters."""

    async def commit(self, changes: Sequence[Change]) -> Committed:
        async with self._turn:
            rates = self._rates()
            await asyncio.sleep(self._chance.choice(self._commit_s))
            await self._perhaps_die(rates.crash_before_commit)
            self._perhaps_fail(rates.store_fails_before)
            committed = await self._store.commit(changes)
            for change, refusal in zip(changes, committed.refusals, strict=True):
                if refusal is None:
                    self._invariants.observe(change)
            await self._perhaps_die(rates.crash_after_commit)
            await self._perhaps_wait(rates.slow_answer)
            self._perhaps_fail(rates.store_fails_after)
            return committed

    async def tasks(self, ids: Sequence[str]) -> list[Task]:
        rates = self._rates()
        self._perhaps_fail(rates.failed_read)
        found = await self._store.tasks(ids)
        await self._perhaps_wait(rates.slow_read)
        if self.dead:
            await self._grave
        return found

    def _perhaps_fail(self, rate: float) -> None:
        if self._chance.random() < rate:
            raise StoreUnavailable("the store fails on purpose")

    async def _perhaps_wait(self, rate: float) -> None:
        if self._chance.random() < rate:
            await asyncio.sleep(self._chance.uniform(0.0, 0.5))

    @property
    def is_busy(self) -> bool:
        """Return whether a commit is running, so that the master may not know of it yet."""
        return self._turn.locked()

    async def _perhaps_die(self, rate: float) -> None:
        if not self.dead and self._chance.random() < rate:
            self.dead = True
            self._die()
        if self.dead:
            await self._grave

    def bury(self) -> None:
        """End the calls that hang in this store, at the end of the world."""
        self.dead = True
        if not self._grave.done():
            self._grave.cancel()


class FaultyLink:
    """A `ControlLink` into the control plane over a network that loses, repeats and delays."""

    def __init__(
        self,
        *,
        masters: Callable[[], "Sequence[ControlPlane]"],
        chance: random.Random,
        rates: Callable[[], Rates],
        join_token: str,
        latency_s: float,
    ) -> None:
        self._masters = masters
        """Masters that are alive."""
        self._chosen: ControlPlane | None = None
        self._chance = chance
        self._rates = rates
        self._join_token = join_token
        self._token = join_token
        self._latency_s = latency_s
        self._calls: dict[asyncio.Task[Any], ControlPlane] = {}
        self.cut = False
        """No message passes, in either direction."""

    async def register(self, registration: Registration, node_token: str | None) -> Registered:
        token = node_token or self._join_token

        async def call(master: "ControlPlane") -> Registered:
            by = await master.authentication.authenticate(token)
            return await master.nodes.register(registration, by=by)

        registered = await self._send(call)
        self._token = registered.node_token or token
        return registered

    async def heartbeat(self, node_id: str, heartbeat: Heartbeat) -> HeartbeatReply:
        return await self._send(lambda master: master.nodes.heartbeat(node_id, heartbeat))

    async def lease(self, node_id: str, request: LeaseRequest) -> LeaseReply:
        return await self._send(lambda master: master.leases.lease(node_id, request))

    async def report(self, node_id: str, batch: ReportBatch) -> ReportReply:
        return await self._send(lambda master: master.leases.report(node_id, batch))

    async def note(self, node_id: str, batch: NoteBatch) -> NoteReply:
        return await self._send(lambda master: master.logs.take(node_id, batch))

    async def request(self, node_id: str, service: str, request: ServiceRequest) -> ServiceResponse:
        return await self._send(
            lambda master: master.node_services.answer(node_id, service, request)
        )

    async def drain(self, node_id: str, deadline_s: float) -> None:
        await self._send(
            lambda master: master.node_orders.drain(node_id, by="itself", deadline_s=deadline_s)
        )

    async def leave(self, node_id: str, session_id: str) -> None:
        await self._send(
            lambda master: master.node_orders.unregister(
                node_id, session_id=session_id, by="itself"
            )
        )

    def break_calls(self, master: "ControlPlane") -> None:
        """Break the calls to a master that has died."""
        for call, asked in [*self._calls.items()]:
            if asked is master:
                call.cancel()

    async def _send(self, call: Callable[["ControlPlane"], Awaitable[T]]) -> T:
        rates = self._rates()
        await self._travel(rates.lost_request)
        master = self._choose(rates.turned)
        if self._chance.random() < rates.repeated:
            self._start(self._again(call, master), master)
        try:
            answer: T = await self._start(_awaited(call, master), master)
        except asyncio.CancelledError:
            mine = asyncio.current_task()
            if master in self._masters() or (mine is not None and mine.cancelling()):
                raise  # whoever asks was stopped, perhaps at the moment in which the master died
            raise MasterUnreachable("the master died before it answered") from None
        except (NotFound, Unauthenticated) as error:
            raise Refused(str(error)) from error
        except StoreUnavailable as error:
            raise MasterUnreachable(str(error)) from error
        await self._travel(rates.lost_reply)
        return answer

    def _choose(self, turned: float) -> "ControlPlane":
        """Choose the last master, unless it is dead; by chance another one."""
        masters = self._masters()
        if not masters:
            raise MasterUnreachable("the master is down")
        chosen = self._chosen
        if chosen is None or chosen not in masters or self._chance.random() < turned:
            chosen = self._chosen = self._chance.choice(masters)
        return chosen

    async def _again(
        self, call: Callable[["ControlPlane"], Awaitable[T]], master: "ControlPlane"
    ) -> None:
        """Send the same message once more, later, and ignore the answer."""
        await asyncio.sleep(self._chance.uniform(0.0, 3.0))
        try:
            await call(master)
        except (NotFound, Unauthenticated, Refused, StoreUnavailable, Conflict):
            return

    async def _travel(self, lost: float) -> None:
        delay = self._chance.uniform(0.0, self._latency_s)
        if self._chance.random() < self._rates().late:
            delay += self._chance.uniform(0.0, 20.0)
        await asyncio.sleep(delay)
        if self.cut or self._chance.random() < lost:
            await asyncio.sleep(self._chance.uniform(0.1, 5.0))
            raise MasterUnreachable("the message was lost")

    def _start(self, work: Any, master: "ControlPlane") -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.create_task(work)
        self._calls[task] = master
        task.add_done_callback(lambda done: self._calls.pop(done, None))
        return task


async def _awaited(call: Callable[["ControlPlane"], Awaitable[T]], master: "ControlPlane") -> T:
    return await call(master)


class SimulatedWork(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a simulated task."""

    seconds: float
    outcome: str
    """`ok`, `error` (sometimes), `bad` (always an error), `hang` (ignores its time limit)."""
    shards: int = 1
    """Number of tasks to split it into; the last of them ends as `outcome` says, the others
    succeed."""


def divide_work(parameters: msgspec.Raw) -> tuple[msgspec.Raw, ...]:
    """The shards of a simulated task."""
    work = msgspec.json.decode(parameters, type=SimulatedWork)
    parts = [SimulatedWork(seconds=work.seconds, outcome="ok")] * (work.shards - 1)
    parts.append(SimulatedWork(seconds=work.seconds, outcome=work.outcome))
    return tuple(msgspec.Raw(msgspec.json.encode(part)) for part in parts)


class SimulatedPool:
    """An `ExecutorPool` whose executors only sleep and return an outcome."""

    task_types = ("work",)
    ahead = 0

    def __init__(self, chance: random.Random, *, acting: set[str], completed: set[str]) -> None:
        self._chance = chance
        self._acting = acting
        self._completed = completed

    async def run(
        self, assignment: Assignment, observer: Observer, *, ahead: bool = False
    ) -> Attempt:
        self._acting.add(assignment.execution_id)
        try:
            return await self._work(assignment, observer)
        finally:
            self._acting.discard(assignment.execution_id)

    async def _work(self, assignment: Assignment, observer: Observer) -> Attempt:
        work = msgspec.json.decode(assignment.parameters, type=SimulatedWork)
        await asyncio.sleep(self._chance.uniform(0.0, 0.02))
        observer.started()
        observer.progress(0, 1)
        observer.log(f"attempt {assignment.attempt}", LogLevel.INFO, {})
        limit = assignment.timeout_s
        if limit is not None and work.seconds > limit and work.outcome != "hang":
            await asyncio.sleep(limit)
            return _failed(ErrorClass.TIMEOUT, "took too long")
        await asyncio.sleep(work.seconds)
        if work.outcome == "bad" or (work.outcome == "error" and self._chance.random() < 0.5):
            kind = self._chance.choice((ErrorClass.ERROR, ErrorClass.CRASH, ErrorClass.NETWORK))
            return _failed(kind, "failed on purpose")
        self._completed.add(assignment.execution_id)
        return Attempt(data=msgspec.Raw(msgspec.json.encode(assignment.execution_id)))

    def order(self, order: ExecutionOrder) -> bool:
        return False

    async def close(self) -> None:
        """Nothing to close."""


class KeptIdentity:
    """An identity that survives the crash of its node, unless the disk goes too."""

    def __init__(self) -> None:
        self.identity: Identity | None = None

    def load(self) -> Identity | None:
        return self.identity

    def adopt(self, identity: Identity) -> None:
        self.identity = identity


def _failed(kind: ErrorClass, message: str) -> Attempt:
    return Attempt(error=TaskError(error_class=kind, message=message))
