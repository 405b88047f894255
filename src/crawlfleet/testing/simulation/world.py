"""One world from one seed: masters that die, nodes that join and leave, operators that
interfere."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.core.placement.explanation import explain
from crawlfleet.core.placement.plan import requirement_of
from crawlfleet.core.placement.rules import default_rules
from crawlfleet.core.tasks.admission import AdmissionRules
from crawlfleet.core.tasks.orders import TaskOrder, Verb
from crawlfleet.errors import Conflict, NotFound, StoreUnavailable
from crawlfleet.master import ControlPlane
from crawlfleet.model.key import Role
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.resources import Usage
from crawlfleet.model.settings import RetentionSettings, Settings
from crawlfleet.model.task import TERMINAL, Task, TaskStatus
from crawlfleet.model.wire.node_protocol import PROTOCOL, Registration
from crawlfleet.ports.kernel_tables import usage_between
from crawlfleet.testing.simulation import schedules, workflows
from crawlfleet.testing.simulation.audit import Audit, Life, Recorder
from crawlfleet.testing.simulation.clock import SimulatedLoop, SimulatedSystem
from crawlfleet.testing.simulation.faults import (
    QUIET,
    FaultyLink,
    KeptIdentity,
    Rates,
    SimulatedPool,
    WatchedStore,
    change_terms,
    divide_work,
)
from crawlfleet.testing.simulation.invariants import Violation
from crawlfleet.testing.simulation.scenario import Scenario, ScenarioOutcome
from crawlfleet.testing.simulation.shared import SharedMemory
from crawlfleet.testing.simulation.tenants import founding, named
from crawlfleet.testing.simulation.wishes import wanted
from crawlfleet.worker.agent import Agent
from crawlfleet.worker.report_journal import ReportJournal

JOIN_TOKEN: Final = "join " * 8
PEOPLE: Final = "people"
LOOK_EVERY_S: Final = 30.0


def simulate(seed: int, scenario: Scenario = Scenario()) -> ScenarioOutcome:  # noqa: B008 (frozen)
    """Run the world of a seed to its end; raises `Violation` when a promise was broken."""
    loop = SimulatedLoop()
    try:
        return loop.run_until_complete(_World(seed, scenario).run())
    except Violation as violation:
        raise Violation(f"seed {seed}: {violation}") from violation
    finally:
        with contextlib.suppress(BaseException):
            _drain(loop)
        loop.close()


class _World:
    def __init__(self, seed: int, scenario: Scenario) -> None:
        self._seed = seed
        self._scenario = scenario
        self._chance = random.Random(seed)
        self._settings = Settings(
            recovery=msgspec.structs.replace(scenario.recovery, max_losses=6, timeout_grace_s=5.0),
            breakers=scenario.breakers,
            retention=RetentionSettings(tasks_days=0, events_days=0),
            session=scenario.session,
        )
        self._store = MemoryStore()
        self._projects = dict(named(scenario.allowances))
        self._watch = Recorder(
            max_losses=self._settings.recovery.max_losses, allowances=self._projects
        )
        self._shared = SharedMemory(self._store, delay_s=self._news_delay)
        self._masters: dict[ControlPlane, Life] = {}
        """Masters that are alive and ready."""
        self._audit = Audit(self._watch, self._masters)
        self._master_lives = 0
        self._stores: list[WatchedStore] = []
        self._links: list[FaultyLink] = []
        self._completed: set[str] = set()
        self._accepted: list[str] = []
        self._rough = True

    def _rates(self) -> Rates:
        return self._scenario.rates if self._rough else QUIET

    async def run(self) -> ScenarioOutcome:
        if self._projects:
            await self._store.open()
            await self._store.commit(founding(self._projects))
        people = [
            *(
                asyncio.create_task(self._keep_master(number), name=f"master {number}")
                for number in range(self._scenario.masters)
            ),
            asyncio.create_task(self._depose(), name="depose"),
            asyncio.create_task(self._submit(), name="submit"),
            asyncio.create_task(self._meddle(), name="meddle"),
            asyncio.create_task(self._schedule(), name="schedule"),
            asyncio.create_task(self._run_workflows(), name="workflows"),
            asyncio.create_task(
                self._audit.run(self._fork(), self._scenario.audit_every_s), name="audit"
            ),
            *(
                asyncio.create_task(self._keep_node(number), name=f"node {number}")
                for number in range(self._scenario.nodes)
            ),
        ]
        await self._pass_time(self._scenario.rough_s, people)
        self._rough = False
        await self._pass_time(5.0, people)
        await self._resume_all()
        settled = False
        for _ in range(int(self._scenario.settle_s / LOOK_EVERY_S)):
            await self._pass_time(LOOK_EVERY_S, people)
            settled = settled or await self._is_settled()
            if settled:
                break
        await self._check_end()
        simulated_s = asyncio.get_running_loop().time()
        for person in people:
            person.cancel()
        await asyncio.gather(*people, return_exceptions=True)
        for store in self._stores:
            store.bury()
        counts: dict[str, int] = {}
        for task in self._watch.tasks.values():
            counts[str(task.status)] = counts.get(str(task.status), 0) + 1
        return ScenarioOutcome(
            seed=self._seed,
            by_status=counts,
            commits=self._watch.commits,
            master_lives=self._master_lives,
            simulated_s=simulated_s,
            fingerprint=self._watch.fingerprint,
        )

    async def _pass_time(self, seconds: float, people: list[asyncio.Task[None]]) -> None:
        """Let time pass; errors of any task are raised here."""
        done, _ = await asyncio.wait(people, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        if self._watch.violation is not None:
            raise self._watch.violation
        for person in people:
            if person in done and not person.cancelled():
                person.result()

    async def _keep_master(self, number: int) -> None:
        await asyncio.sleep(number * self._chance.uniform(0.0, 30.0))
        while True:
            seat = self._shared.seat()
            died = asyncio.Event()
            store = WatchedStore(
                seat,
                invariants=self._watch,
                chance=self._fork(),
                rates=self._rates,
                commit_s=self._scenario.commit_s,
                die=died.set,
            )
            self._stores.append(store)
            master = self._new_master(store, f"master {number}")
            self._master_lives += 1
            life = asyncio.create_task(self._live(master, Life(store, died)))
            death = asyncio.create_task(died.wait())
            await asyncio.wait({life, death}, return_when=asyncio.FIRST_COMPLETED)
            self._masters.pop(master, None)
            for link in self._links:
                link.break_calls(master)
            if life.done() and not store.dead:
                with contextlib.suppress(StoreUnavailable):
                    # A master that cannot read the store when it starts ends, and starts again.
                    life.result()
                    raise Violation("the master stopped by itself")
            store.dead = True
            freed_in = self._chance.uniform(0.0, self._scenario.freed_late_s)
            asyncio.get_running_loop().call_later(freed_in, self._shared.leave, seat)
            for task in (life, death):
                task.cancel()
            await asyncio.wait({life, death})
            await asyncio.sleep(self._chance.uniform(0.1, 30.0))

    async def _live(self, master: ControlPlane, life: Life) -> None:
        async with master:
            await master.keys.ensure(JOIN_TOKEN, name="join", role=Role.NODE)
            self._masters[master] = life
            await master.watch()

    def _new_master(self, store: WatchedStore, name: str) -> ControlPlane:
        rules = default_rules()
        return ControlPlane(
            store=store,
            system=SimulatedSystem(self._fork(), skew_s=self._chance.uniform(-20.0, 20.0)),
            settings=self._settings,
            rules=rules,
            admission=AdmissionRules(strategies=rules.strategies, divisions={"work": divide_work}),
            name=name,
        )

    async def _depose(self) -> None:
        while self._scenario.masters > 1:
            await asyncio.sleep(self._next(self._scenario.depose_every_s))
            if self._rough and self._shared.leader is not None:
                self._shared.leave(self._shared.leader)

    def _news_delay(self) -> float:
        return self._chance.uniform(0.0, self._scenario.late_news_s)

    async def _keep_node(self, number: int) -> None:
        identity = KeptIdentity()
        keeper = ReportJournal(None)
        slow = 10.0 if self._chance.random() < 0.2 else 1.0
        link = FaultyLink(
            masters=lambda: [*self._masters],
            chance=self._fork(),
            rates=self._rates,
            join_token=JOIN_TOKEN,
            latency_s=0.05 * slow,
        )
        self._links.append(link)
        await asyncio.sleep(self._chance.uniform(0.0, 5.0))
        while True:
            agent = Agent(
                link=link,
                pool=SimulatedPool(
                    self._fork(), acting=self._watch.acting, completed=self._completed
                ),
                identity=identity,
                system=SimulatedSystem(self._fork(), skew_s=self._chance.uniform(-3600, 3600)),
                registration=Registration(
                    name=f"node {number}",
                    resources={"cpu": 4, "memory_mb": 4096, "slots": 3},
                    task_types=("work",),
                    protocol=PROTOCOL,
                ),
                measure=self._measure,
                stop_grace_s=self._settings.worker.stop_grace_s,
                long_poll_s=self._settings.session.long_poll_s,
                keeper=keeper,
            )
            life = asyncio.create_task(agent.run())
            await self._trouble(link, life)
            link.cut = False
            if self._chance.random() < 0.2:
                identity.identity = None
            await asyncio.sleep(self._chance.uniform(0.1, 30.0))

    async def _trouble(self, link: FaultyLink, life: asyncio.Task[Any]) -> None:
        """Cut the node off now and then, until it crashes or ends by itself."""
        while True:
            crash_in = self._next(self._scenario.node_crash_every_s)
            cut_in = self._next(self._scenario.cut_every_s)
            done, _ = await asyncio.wait({life}, timeout=min(crash_in, cut_in))
            if done:
                life.result()
                return
            if not self._rough:
                link.cut = False
            elif crash_in <= cut_in:
                life.cancel()
                await asyncio.wait({life})
                return
            else:
                link.cut = not link.cut

    def _next(self, every_s: float) -> float:
        return self._chance.expovariate(1.0 / every_s) if self._rough else 30.0

    async def _measure(self) -> Usage:
        return Usage(cpu_usage=self._chance.random(), memory_usage=self._chance.random())

    async def _submit(self) -> None:
        left = self._scenario.tasks
        while left:
            await asyncio.sleep(self._chance.uniform(0.0, self._scenario.submit_every_s))
            number = min(self._chance.choice(self._scenario.batches), left)
            outcomes = await self._submit_batch([self._request() for _ in range(number)])
            if outcomes is not None:
                left -= number
                accepted = [each.task.id for each in outcomes if each.task is not None]
                # People see the shards, too, and order them about.
                self._accepted += [*accepted, *self._watch.family.shards_of(accepted)]

    def _request(self) -> TaskRequest:
        return wanted(self._scenario, self._chance, [*self._projects])

    async def _meddle(self) -> None:
        """People cancel, pause, resume, retry and reprioritise whatever they see."""
        while self._rough:
            await asyncio.sleep(self._next(self._scenario.meddle_every_s))
            if not self._accepted or not self._rough:
                continue
            ids = self._chance.choices(self._accepted, k=self._chance.choice((1, 1, 1, 10)))
            verb = self._chance.choice((*Verb, Verb.RESUME))
            await self._order(verb, ids)
            if self._watch.nodes and self._chance.random() < 0.1:
                node = self._chance.choice(sorted(self._watch.nodes))
                order = self._chance.choice(("drain", "maintain", "resume", "resume"))
                await self._order_node(order, node)
            if self._scenario.new_terms and self._chance.random() < 0.2:
                await self._ask(lambda on: change_terms(on, self._chance))

    async def _schedule(self) -> None:
        """People make schedules, pause and resume some, and run them by hand."""
        made: list[str] = []
        for number in range(self._scenario.schedules):
            work: TaskRequest | str = self._request()
            if self._scenario.workflows and number % 2:
                document = workflows.request(number, self._chance, "by-clock")
                work = await self._ask_until_answered(partial(workflows.save, wanted=document))
            wanted = schedules.request(number, self._chance, work, self._scenario.rough_s)
            create = partial(schedules.create, request=wanted)
            # Until it is answered: made twice, it is the same schedule.
            made.append(await self._ask_until_answered(create))
        while self._rough and made:
            await asyncio.sleep(self._next(self._scenario.meddle_every_s))
            # Some are left alone: of those everything must be accounted for.
            id = self._chance.choice(made[: len(made) // 2] or made)
            verb = self._chance.choice(schedules.VERBS)
            await self._ask(partial(schedules.order, verb=verb, schedule_id=id))

    async def _run_workflows(self) -> None:
        """People submit workflows, cancel some, and run some again."""
        made: list[str] = []
        for number in range(self._scenario.workflows):
            wanted = workflows.request(number, self._chance)
            made.append(await self._ask_until_answered(partial(workflows.submit, wanted=wanted)))
        while self._rough and made:
            await asyncio.sleep(self._next(self._scenario.meddle_every_s))
            id, verb = self._chance.choice(made), self._chance.choice(workflows.VERBS)
            await self._ask(partial(workflows.order, verb=verb, run_id=id))

    async def _ask_until_answered(self, ask: Callable[[ControlPlane], Awaitable[Any]]) -> Any:
        while True:
            if (answer := await self._ask(ask)) is not None:
                return answer
            await asyncio.sleep(1.0)

    async def _submit_batch(self, requests: Sequence[TaskRequest]) -> Any:
        return await self._ask(lambda on: on.tasks.submit_batch(requests, by=PEOPLE))

    async def _order(self, verb: Verb, task_ids: Sequence[str]) -> None:
        order = TaskOrder(verb=verb, by=PEOPLE, priority=10 if verb is Verb.REPRIORITISE else None)
        await self._ask(lambda on: on.orders.carry_out(order, task_ids))

    async def _order_node(self, verb: str, node_id: str) -> None:
        more = {}
        if verb == "drain" and self._chance.random() < 0.5:
            more["deadline_s"] = self._chance.uniform(0.0, 5.0)
        await self._ask(lambda on: getattr(on.node_orders, verb)(node_id, by=PEOPLE, **more))

    async def _ask(self, ask: Callable[[ControlPlane], Awaitable[Any]]) -> Any:
        """Ask the master to do something; a "no", a dead master and a lost answer are all fine."""
        if not self._masters:
            return None
        master = self._chance.choice([*self._masters])
        asking = asyncio.ensure_future(ask(master))
        dying = asyncio.create_task(self._masters[master].died.wait())
        await asyncio.wait({asking, dying}, return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if not asking.done():
            asking.cancel()
            return None
        try:
            return asking.result()
        except (Conflict, NotFound, StoreUnavailable):
            return None

    async def _resume_all(self) -> None:
        tasks = self._watch.tasks.values()
        await self._order(
            Verb.RESUME, [task.id for task in tasks if task.status is TaskStatus.PAUSED]
        )
        for node_id in [*self._watch.nodes]:
            await self._order_node("resume", node_id)
        for id in self._watch.timetable.schedules:
            await self._ask(partial(schedules.order, verb="resume", schedule_id=id))

    async def _is_settled(self) -> bool:
        await self._resume_all()
        is_over = all(task.status in TERMINAL for task in self._watch.tasks.values())
        # An attempt that is stopped outlives its task by a moment.
        waits = any(each.waiting for each in self._watch.timetable.schedules.values())
        waits = waits or not self._watch.runs.is_over()
        return is_over and not waits and not await self._store.live_executions()

    async def _check_end(self) -> None:
        for id in self._accepted:
            if id not in self._watch.tasks:
                raise Violation(f"{id} was accepted and is gone")
        for task in self._watch.tasks.values():
            if task.status not in TERMINAL:
                raise Violation(self._why_waiting(task))
            done = task.is_parent or task.execution_id in self._completed
            if task.status is TaskStatus.COMPLETED and not done:
                raise Violation(f"{task.id} is completed, but no executor completed it")
            stored = (await self._store.tasks([task.id]))[0]
            if stored != task:
                raise Violation(f"{task.id} is not in the store as it was committed")
        try:
            self._watch.timetable.check_end()
            self._watch.runs.check_end()
            self._watch.usage.check_end(
                await self._store.find(usage_between(since=0.0, until=float("inf")))
            )
        except AssertionError as broken:
            raise Violation(str(broken)) from broken
        live = await self._store.live_executions()
        if live:
            raise Violation(f"{live[0].id} is still {live[0].status} when all tasks have ended")

    def _why_waiting(self, task: Task) -> str:
        leader = next((each for each in self._masters if each.leads), None)
        if leader is None:
            return f"{task.id} is {task.status} without a leader"
        state = leader.state
        why = explain(
            requirement_of(task), state.fleet, default_rules(), project_id=task.project_id
        )
        return (
            f"{task.id} is still {task.status} after {self._scenario.settle_s:g} quiet seconds: "
            f"{why.summary} "
            f"(queued: {task.id in state.queue}, delayed: {task.id in state.delays.until})"
        )

    def _fork(self) -> random.Random:
        return random.Random(self._chance.getrandbits(64))


def _drain(loop: SimulatedLoop) -> None:
    """Let the dead finish dying, so that nothing is destroyed while pending."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
