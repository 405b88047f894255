"""The master's copy of the live part of the store, and the only way to change it.

Every service commits through `FleetState.commit`. Changes that the store accepts are applied to the
copy in the same order, and wake those that wait for them; a refused change changes nothing here
either. After a commit with an unknown outcome the copy is loaded anew, so the store stays the only
truth. Nothing finished is kept: memory grows with the work that is alive.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from math import inf
from typing import Final, TypeVar

import msgspec

from crawlfleet.control.openings import Index
from crawlfleet.control.state.audit_trail import current_trail
from crawlfleet.control.state.backlogs import Backlogs
from crawlfleet.control.state.counters import Counters
from crawlfleet.control.state.holdings import Holdings
from crawlfleet.control.state.if_version import has_changed
from crawlfleet.control.state.keyring import Keyring
from crawlfleet.control.state.log_position import LogPosition
from crawlfleet.control.state.nodes_due import NodesDue
from crawlfleet.control.state.pending import PendingTasks
from crawlfleet.control.state.recent_events import RecentEvents
from crawlfleet.control.state.refresh import ChangeTracker, Refresh, ids_of, is_newer, lease_of
from crawlfleet.control.state.retry_gate import RetryGate
from crawlfleet.control.state.signals import Signals
from crawlfleet.control.state.time_limits import TimeLimits
from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.core.placement.plan import experience_of, ready_for
from crawlfleet.core.placement.tenancy import Tenancy
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.core.usage import counted
from crawlfleet.errors import InvalidRequest, LeadershipLost, StoreUnavailable
from crawlfleet.model.change import Change
from crawlfleet.model.key import ApiKey
from crawlfleet.model.node import Node, Session
from crawlfleet.model.project import Cluster, ClusterStatus, Project
from crawlfleet.model.settings import Settings
from crawlfleet.model.task import LIVE_EXECUTION, TERMINAL, Execution, Task, TaskStatus
from crawlfleet.model.usage import DAY_S
from crawlfleet.ports.kernel_tables import CLUSTERS, KEYS, PROJECTS, usage_between
from crawlfleet.ports.store import Refusal, RefusalKind, Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
RELOAD_PAUSE_S: Final = 1.0
VERIFY_WITHIN_S: Final = 2.0
MAX_DECISIONS: Final = 8
"""Maximum number of times that a change is decided while other commits come first."""

Answer = TypeVar("Answer")
Commit = Callable[[Sequence[Change]], Awaitable[list[Refusal | None]]]


class FleetState:
    """The live part of the store in memory, indexed for the services."""

    def __init__(self, *, store: Store, system: System, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        self._store = store
        self._system = system
        self.signals = Signals()
        self.position = LogPosition()
        self.refresh = Refresh(
            store=store,
            state=self,
            system=system,
            session_timeout_s=settings.session.timeout_s,
        )
        self.tracker = ChangeTracker()
        self.counters = Counters(since=system.now())
        self.gate = RetryGate(settings.recovery, settings.breakers)
        self.epoch = 0
        self._doubted = ""
        """Reason for loading the copy anew."""
        self._under_way: dict[asyncio.Task[list[Refusal | None]], None] = {}
        self.recent_events = RecentEvents()
        self.assigning = asyncio.Lock()
        """Lock held from reading the free capacity until it is assigned."""
        self.indexes: list[Index] = []
        """Rows of features that are held in memory beside those of the kernel."""
        self._clear()

    def _clear(self) -> None:
        self.fleet = Fleet()
        signals = self.signals
        self.pending = PendingTasks(
            self.gate, wake_dispatch=signals.dispatch.set, wake_timers=signals.timers.set
        )
        self.queue, self.delays = self.pending.queue, self.pending.delays
        self.backlogs = Backlogs(self.fleet, wake_dispatch=signals.dispatch.set)
        self.tenancy = Tenancy()
        self._holdings = Holdings(self.tenancy, self.gate.budgets)
        self.nodes: dict[str, Node] = {}
        self.clusters: dict[str, Cluster] = {}
        self.sessions: dict[str, Session] = {}
        self.keyring = Keyring()
        self.leases: dict[str, Lease] = {}
        """Live executions by id, each with the newest known state of its task."""
        self._by_session: dict[str, dict[str, None]] = {}
        self._versions: dict[str, int] = {}
        """Newest known version of each unfinished task: rows that were read may be older."""
        self.time_limits = TimeLimits(self.leases, wake=self.signals.timers.set)
        self.nodes_due = NodesDue(wake=self.signals.timers.set)
        self.projects: dict[str, Project] = {}
        for index in self.indexes:
            index.clear()

    async def load(self) -> None:
        """Read the live part of the store; the copy is replaced in one step at the end.

        Commits of other masters meanwhile may be in it or not; they are behind the position.
        """
        store = self._store
        await store.verify()
        position = (await store.commit([])).last_seq
        clusters, nodes = await store.find(CLUSTERS.where()), await store.nodes()
        projects = await store.find(PROJECTS.where())
        others = [row for index in self.indexes for row in await index.read()]
        spent = await store.find(
            usage_between(since=self._system.now() // DAY_S * DAY_S, until=inf)
        )
        sessions, keys = await store.live_sessions(), await store.find(KEYS.where())
        executions = await store.live_executions()
        tasks = [task async for portion in store.unfinished_tasks() for task in portion]
        known = {task.id: task for task in tasks}
        stopping = [e.task_id for e in executions if e.task_id not in known]
        known.update((task.id, task) for task in await store.tasks(stopping))
        timed = self.refresh.timed(sessions, self.sessions)
        self.tracker.add_everything()
        self._clear()
        self.position.begin(position)
        self.take(
            Change(
                rows=(*projects, *clusters, *keys, *others),
                nodes=tuple(nodes),
                sessions=tuple(timed),
                usage=tuple(spent),
            )
        )
        for execution in executions:
            if execution.task_id in known:
                self._put_lease(Lease(known[execution.task_id], execution))
        self._holdings.settle()
        self.gate.breakers.learn(tasks, self._system.now())
        for task in tasks:
            self._put_task(task)
        self.signals.wake_all(sessions=self.sessions)

    async def recover(self) -> None:
        """Load the copy anew after a commit with an unknown outcome; runs until cancelled."""
        complained = ""
        while True:
            await self.signals.doubt.wait()
            await self.catch_up()
            try:
                await self.load()
                self.signals.doubt.clear()
                if complained:
                    log.info("store usable again")
                complained = ""
            except StoreUnavailable as error:
                self._doubted = str(error)
                if complained != self._doubted:
                    log.error("store unavailable", error=self._doubted)
                complained = self._doubted
            if self.signals.doubt.is_set():
                await asyncio.sleep(RELOAD_PAUSE_S)

    async def trouble(self) -> str:
        """Return why nothing can be committed now, and what to do about it; "" when all is well."""
        if not self.signals.doubt.is_set():
            try:
                async with asyncio.timeout(VERIFY_WITHIN_S):
                    await self._store.verify()
            except TimeoutError:
                # A busy machine is no reason to load everything anew.
                return "the store does not answer; look at the disk, and at how busy it is"
            except StoreUnavailable as error:
                self._begin_doubt(str(error))
        if not self.signals.doubt.is_set():
            return ""
        return self._doubted or "the store does not answer; it is being read again"

    async def commit(
        self, changes: Sequence[Change], *, room_at: str | None = None
    ) -> list[Refusal | None]:
        """Commit the changes that fit, each whole, in one transaction; apply those to the copy.

        Executions that the changes end on the node `room_at` enlarge its backlog at once. Where
        another commit came first the copy is brought up to date, so that the caller can decide
        anew. Raises `StoreUnavailable` when the outcome is unknown, and until the copy was loaded
        anew.
        """
        if not changes:
            return []
        if self.signals.doubt.is_set():
            raise StoreUnavailable(
                f"{self._doubted}; the store is being read again, try again soon"
                if self._doubted
                else "the store is being read again after a failure; try again soon"
            )
        changes = counted(changes, now=self._system.now())
        trail = current_trail()
        if trail is not None:
            changes = trail.sign(changes, self._system)
        # Shielded as one piece: a caller that goes away between commit and copy would leave
        # the store changed and the copy not.
        commit = asyncio.create_task(self._commit_and_apply(changes, room_at))
        self._under_way[commit] = None
        commit.add_done_callback(lambda done: self._under_way.pop(done, None))
        refusals = await asyncio.shield(commit)
        if trail is not None:
            trail.note(changes, refusals)
        if any(refusals):
            with contextlib.suppress(StoreUnavailable):
                await self.refresh.refused(changes, refusals)
        return refusals

    async def commit_as_leader(self, changes: Sequence[Change]) -> list[Refusal | None]:
        """Commit as `commit` does, but only if this master is the leader when the store decides.

        Raises `LeadershipLost` when another master leads by now.
        """
        epoch = self.epoch
        refusals = await self.commit(
            [msgspec.structs.replace(change, epoch=epoch) for change in changes]
        )
        if any(refusal and refusal.kind is RefusalKind.EPOCH for refusal in refusals):
            raise LeadershipLost("another master leads now; this one must not act as the leader")
        return refusals

    async def decide(
        self,
        id: str,
        decide: Callable[[], Awaitable[tuple[Answer, Change | None]]],
        *,
        on_refusal: Callable[[Refusal], None] | None = None,
        as_leader: bool = False,
    ) -> Answer:
        """Commit the change that `decide` returns, and return the answer that comes with it.

        Where another commit came first, `decide` is called again on the new state; without a change
        its answer is returned at once. `on_refusal` is called with each refusal, and may raise
        where deciding anew cannot help. Raises `Conflict` for `id` after `MAX_DECISIONS`.
        """
        commit = self.commit_as_leader if as_leader else self.commit
        for _ in range(MAX_DECISIONS):
            answer, change = await decide()
            if change is None:
                return answer
            (refusal,) = await commit([change])
            if refusal is None:
                return answer
            if on_refusal is not None:
                on_refusal(refusal)
            await self.catch_up()
        raise has_changed(id)

    async def decide_batch(
        self,
        decide: Callable[[], Awaitable[Sequence[Change]]],
        *,
        is_settled: Callable[[Sequence[Change], Sequence[Refusal | None]], bool] | None = None,
        commit: Commit | None = None,
    ) -> bool:
        """Commit the changes that `decide` returns, and call it again until all is settled.

        All is settled when nothing was refused, or when `is_settled` returns so for the changes and
        their refusals. Returns `False` if that is not so after `MAX_DECISIONS`. `commit` replaces
        the method that commits.
        """
        commit = commit or self.commit
        for _ in range(MAX_DECISIONS):
            changes = await decide()
            refusals = await commit(changes) if changes else []
            if not any(refusals) if is_settled is None else is_settled(changes, refusals):
                return True
            await self.catch_up()
        return False

    async def catch_up(self) -> None:
        """Wait until every commit that is under way now has reached the copy.

        A reader of the store may see a commit before the copy does.
        """
        if self._under_way:
            await asyncio.wait([*self._under_way])

    def reload(self, why: str) -> StoreUnavailable:
        """Have a wrong copy loaded anew; returns the error to raise meanwhile."""
        log.error("memory contradicts the store, loading it anew", why=why)
        self._begin_doubt(why)
        return StoreUnavailable(f"{why}; the state is being read again, try again soon")

    def _begin_doubt(self, why: str) -> None:
        if not self.signals.doubt.is_set():
            self._doubted = why
            self.signals.doubt.set()

    async def _commit_and_apply(
        self, changes: Sequence[Change], room_at: str | None
    ) -> list[Refusal | None]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            with self.backlogs.ending(room_at, changes) if room_at else contextlib.nullcontext():
                committed = await self._store.commit(changes)
                took_s = loop.time() - begun
                pairs = zip(changes, committed.refusals, strict=True)
                made = [change for change, refusal in pairs if refusal is None]
                for change in made:
                    self._take(change)
                self._holdings.settle()
        except InvalidRequest:
            raise
        except BaseException as error:
            # Some of it may have happened: believe nothing that memory says.
            self._begin_doubt(str(error))
            raise
        events = [event for change in made for event in change.events]
        if events:
            self.recent_events.keep(events, committed.last_seq)
            self.position.add_own(committed.last_seq - len(events), committed.last_seq)
            self.signals.grown()
        self.counters.count(made, at=self._system.now())
        self.counters.commit_s.observe(took_s)
        self.counters.commit_changes.observe(len(changes))
        return list(committed.refusals)

    async def ready_tasks(self, ids: Sequence[str]) -> list[Task]:
        """Return the tasks that exist among `ids`, from memory where it has them."""
        known = self.pending.remembered(ids)
        missing = [id for id in ids if id not in known]
        if missing:
            known.update((task.id, task) for task in await self._store.tasks(missing))
        return [known[id] for id in ids if id in known]

    def take_task(
        self, id: str, task: Task | None, live: Sequence[Execution], ended: Collection[str]
    ) -> None:
        """Put a task that another master changed into the copy, with its live executions.

        Executions in `ended` that the copy still holds for the task are dropped.
        """
        self.tracker.add((id, *(each.id for each in live)))
        for execution_id in ended:
            held = self.leases.get(execution_id)
            if held is not None and held.execution.task_id == id:
                self.tracker.add((execution_id,))
                self._drop_lease(held.execution)
        if task is None:
            self._forget_task(id)
        else:
            for execution in live:
                self._put_lease(lease_of(task, execution, self.leases.get(execution.id)))
            self._put_task(task)
        self._holdings.settle()

    def session_executions(self, session_id: str) -> Iterator[Lease]:
        """The live executions of a session."""
        for execution_id in tuple(self._by_session.get(session_id, ())):
            yield self.leases[execution_id]

    def lease_of(self, task: Task) -> Lease | None:
        """The lease under which a task is being attempted."""
        return self.leases.get(task.execution_id) if task.execution_id else None

    async def release_delayed(self, now: float) -> int:
        """Put delayed tasks that have become due into the queue; returns how many."""
        due = self.delays.take_due(now)
        try:
            await self.refresh_tasks([id for _, id in due])
        except BaseException:
            # Also when a leader is cut short that leads no longer: they are due all the same.
            self.delays.put_back(due)
            raise
        return len(due)

    async def release_held(self, now: float) -> None:
        """Put held tasks that may go now into the queue."""
        await self.refresh_tasks(self.gate.due(now))

    async def refresh_tasks(self, task_ids: Sequence[str]) -> None:
        """Read these tasks from the store into the copy, unless the copy is newer."""
        if not task_ids:
            return
        found = await self._store.tasks(task_ids)
        for task in found:
            self._put_task(task)
        for gone in {*task_ids} - {task.id for task in found}:
            self._forget_task(gone)

    def _forget_task(self, task_id: str) -> None:
        self.pending.forget(task_id)
        self._versions.pop(task_id, None)

    def orphaned_sessions(self) -> list[str]:
        """Return the ids of sessions that have ended while executions of theirs are still live."""
        return [id for id in self._by_session if id not in self.sessions]

    def take(self, change: Change) -> None:
        """Put rows that were read from the store into the copy, where they are newer."""
        self._take(change)
        self._holdings.settle()

    def _take(self, change: Change) -> None:
        if self.tracker:
            self.tracker.add(ids_of(change))
        if change.rows or change.nodes or change.sessions:
            self._take_fleet(change)
        if change.rows:
            for index in self.indexes:
                index.take(change)
        if change.executions:
            self._take_executions(change)
        for task in change.tasks:
            self._put_task(task)
        if change.usage:
            self.tenancy.spend(change.usage)

    def _take_executions(self, change: Change) -> None:
        only = change.tasks[0] if len(change.tasks) == 1 else None
        tasks = {only.id: only} if only else {task.id: task for task in change.tasks}
        for execution in change.executions:
            lease = self.leases.get(execution.id)
            task = tasks.get(execution.task_id) or (lease.task if lease else None)
            if task is not None:
                self._put_lease(Lease(task, execution))

    def _take_fleet(self, change: Change) -> None:
        for cluster in change.of(Cluster):
            self._put_cluster(cluster)
        for project in change.of(Project):
            self._put_project(project)
        for node in change.nodes:
            self._put_node(node)
        for session in change.sessions:
            self._put_session(session)
        for key in change.of(ApiKey):
            if is_newer(key, self.keyring.keys.get(key.id)):
                self.keyring.put_key(key)

    def _put_project(self, project: Project) -> None:
        if not is_newer(project, self.projects.get(project.id)):
            return
        self.projects[project.id] = project
        if self.tenancy.put(project):
            self.fleet.keep_nodes(self.tenancy.reservations())
        self.signals.dispatch.set()

    def _put_node(self, node: Node) -> None:
        if node.archived_at is not None:
            self._drop_node(node.id)
        elif is_newer(node, self.nodes.get(node.id)):
            self.keyring.put_node(node)
            self.nodes[node.id] = node
            self._put_in_fleet(node)
            self.nodes_due.put(node)
            self.signals.dispatch.set()
            if node.session_id:
                self.signals.session(node.session_id).set()

    def _drop_node(self, node_id: str) -> None:
        if self.nodes.pop(node_id, None) is not None:
            self.fleet.drop(node_id)
            self.keyring.drop_node(node_id)
            self.nodes_due.drop(node_id)

    def _put_cluster(self, cluster: Cluster) -> None:
        before = self.clusters.get(cluster.id)
        if not is_newer(cluster, before):
            return
        self.clusters[cluster.id] = cluster
        self.fleet.set_cluster(cluster.id, cluster.status is ClusterStatus.ACTIVE)
        self.fleet.set_strategy(cluster.id, cluster.configuration.default_strategy)
        if before is not None and before.configuration != cluster.configuration:
            for node in self.nodes.values():
                if node.cluster_id == cluster.id:
                    self._put_in_fleet(node)
        self.signals.dispatch.set()

    def _put_in_fleet(self, node: Node) -> None:
        cluster = self.clusters.get(node.cluster_id)
        most = None if cluster is None else cluster.configuration.max_slots
        slots = node.resources.slots if most is None else min(node.resources.slots, most)
        resources = msgspec.structs.replace(node.resources, slots=slots)
        self.fleet.put(msgspec.structs.replace(node, resources=resources))
        self.backlogs.renew(node.id)

    def _put_session(self, session: Session) -> None:
        if not is_newer(session, self.sessions.get(session.id)):
            return
        if session.ended_at is None:
            self.sessions[session.id] = session
            self.fleet.observe(session.node_id, session.load)
            if session.version == 1:
                self.signals.timers.set()
        else:
            self.sessions.pop(session.id, None)
            self.signals.forget_session(session.id)

    def _put_lease(self, lease: Lease) -> None:
        execution = lease.execution
        known = self.leases.get(execution.id)
        if known is not None and known.execution.version > execution.version:
            return
        if execution.status in LIVE_EXECUTION:
            self.leases[execution.id] = lease
            self._by_session.setdefault(execution.session_id, {})[execution.id] = None
            self.signals.session(execution.session_id).set()
            if known is None:
                self.fleet.reserve(execution.node_id, execution.reserved)
                self._holdings.take(lease)
                self.time_limits.watch(lease)
        elif known is not None:
            self._drop_lease(execution)

    def _drop_lease(self, execution: Execution) -> None:
        self._holdings.give_back(self.leases.pop(execution.id))
        of_session = self._by_session[execution.session_id]
        of_session.pop(execution.id, None)
        if not of_session:
            del self._by_session[execution.session_id]
        self.fleet.release(execution.node_id, execution.reserved)
        self.signals.dispatch.set()
        if execution.session_id in self.sessions:
            self.signals.session(execution.session_id).set()

    def _put_task(self, task: Task) -> None:
        if task.version < self._versions.get(task.id, 0):
            return
        if task.status in TERMINAL:
            self._versions.pop(task.id, None)
        else:
            self._versions[task.id] = task.version
        lease = self.lease_of(task)
        if lease is not None and lease.task.version < task.version:
            self.leases[lease.execution.id] = Lease(task, lease.execution)
        if task.status is TaskStatus.PENDING or task.target is not None:
            self.pending.put(task, self._system.now())
        else:
            self.pending.forget(task.id)
        if task.status in TERMINAL:
            self.signals.ended.publish(task.id)
        node_id = task.assigned_node if task.status is not TaskStatus.PENDING else None
        if node_id and (task.content_features or task.bundle):
            self.fleet.remember_success(node_id, experience_of(task))
            if digest := ready_for(task):
                self.fleet.add_ready(node_id, digest)
