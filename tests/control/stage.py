"""A control plane over the memory store, on a simulated clock, with nodes played by hand."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.access.keys import Principal
from crawlfleet.control.openings import Adapters
from crawlfleet.core.placement.rules import default_rules
from crawlfleet.core.tasks.admission import AdmissionRules
from crawlfleet.core.tasks.orders import TaskOrder, Verb
from crawlfleet.master import ControlPlane
from crawlfleet.model.event import Event
from crawlfleet.model.key import Role
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.settings import RetentionSettings, Settings
from crawlfleet.model.task import JSON_NULL, ErrorClass, Task, TaskError
from crawlfleet.model.wire.node_protocol import (
    PROTOCOL,
    Assignment,
    Heartbeat,
    LeaseReply,
    LeaseRequest,
    Registered,
    Registration,
    Report,
    ReportBatch,
    ReportKind,
    ReportOutcome,
)
from crawlfleet.model.wire.services import ServiceRequest, ServiceResponse
from crawlfleet.ports.files import BundleStore
from crawlfleet.ports.output import OutputStore
from crawlfleet.ports.seal import Seal
from crawlfleet.ports.sender import Sender
from crawlfleet.ports.store import Store
from crawlfleet.testing.simulation.clock import SimulatedSystem

JOINER = Principal(role=Role.NODE, name="join")


class Heard:
    """An event sink that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    async def publish(self, events: Sequence[Event]) -> None:
        self.events += events


class PlayedNode:
    """A node whose every message the test decides."""

    def __init__(self, control: ControlPlane, registered: Registered) -> None:
        self._control = control
        self.id = registered.node_id
        self.session_id = registered.session_id

    def turn_to(self, stage: "Stage") -> None:
        """From now on talk to another master."""
        self._control = stage.control

    async def beat(self, *active: str) -> Any:
        heartbeat = Heartbeat(active_tasks=active, session_id=self.session_id)
        return await self._control.nodes.heartbeat(self.id, heartbeat)

    async def pass_time(self, seconds: float) -> None:
        """Wait, and be heard meanwhile."""
        while seconds > 0:
            await asyncio.sleep(min(seconds, 4.0))
            await self.beat()
            seconds -= 4.0

    async def lease(self, *held: Assignment, wait_s: float = 1.0, backlog: int = 0) -> LeaseReply:
        request = LeaseRequest(
            session_id=self.session_id,
            held=tuple(each.execution_id for each in held),
            wait_s=wait_s,
            backlog=backlog,
        )
        return await self._control.leases.lease(self.id, request)

    async def request(
        self, work: Assignment | None, service: str, payload: Any = None, **fields: Any
    ) -> ServiceResponse:
        """Request something of a service, in the name of an execution or of the node itself."""
        named = {} if work is None else {"execution_id": work.execution_id, "token": work.token}
        request = ServiceRequest(
            session_id=self.session_id,
            payload=msgspec.Raw(msgspec.json.encode(payload)),
            **{**named, **fields},
        )
        return await self._control.node_services.answer(self.id, service, request)

    async def take(self) -> Assignment:
        """The one assignment that is expected."""
        reply = await self.lease()
        (assignment,) = reply.assignments
        return assignment

    async def take_all(self) -> tuple[Assignment, ...]:
        """All that there is to do."""
        return (await self.lease()).assignments

    async def report(
        self,
        assignment: Assignment,
        *kinds: ReportKind,
        error: ErrorClass | None = None,
        data: bytes = b"null",
        token: int | None = None,
    ) -> list[ReportOutcome]:
        reports = tuple(
            Report(
                execution_id=assignment.execution_id,
                task_id=assignment.task_id,
                token=assignment.token if token is None else token,
                kind=kind,
                at=0.0,
                data=msgspec.Raw(data) if kind is ReportKind.SUCCEEDED else JSON_NULL,
                error=TaskError(error_class=error, message="it broke") if error else None,
            )
            for kind in kinds
        )
        batch = ReportBatch(session_id=self.session_id, reports=reports)
        return [*(await self._control.leases.report(self.id, batch)).outcomes]


class Stage:
    """A running control plane and what is around it."""

    def __init__(self, control: ControlPlane, store: Store, heard: Heard) -> None:
        self.control = control
        self.store = store
        self.heard = heard

    async def submit(self, **fields: Any) -> Task:
        outcome = await self.control.tasks.submit(
            TaskRequest(**{"task_type": "work", **fields}), by="people"
        )
        assert outcome.task is not None
        return outcome.task

    async def node(self, name: str = "n", *, slots: float = 2, **fields: Any) -> PlayedNode:
        registration = Registration(
            name=name,
            resources={"slots": slots, "cpu": 4},
            **{"protocol": PROTOCOL, **fields},
        )
        return PlayedNode(self.control, await self.control.nodes.register(registration, by=JOINER))

    async def task(self, task: Task) -> Task:
        return await self.control.tasks.get(task.id)

    async def order(self, verb: Verb, task: Task) -> Task:
        return await self.control.orders.carry_out_one(TaskOrder(verb=verb, by="people"), task.id)


@contextlib.asynccontextmanager
async def stage(
    store: Store | None = None,
    *,
    name: str = "master",
    skew_s: float = 0.0,
    output: OutputStore | None = None,
    archives: BundleStore | None = None,
    seal: Seal | None = None,
    sender: Sender | None = None,
    **sections: Any,
) -> AsyncIterator[Stage]:
    store = store or MemoryStore()
    heard = Heard()
    rules = default_rules()
    settings = Settings(**{"retention": RetentionSettings(tasks_days=0, events_days=0), **sections})
    control = ControlPlane(
        store=store,
        system=SimulatedSystem(random.Random(name), skew_s=skew_s),
        settings=settings,
        rules=rules,
        admission=AdmissionRules(strategies=rules.strategies),
        sinks=[heard],
        name=name,
        adapters=Adapters(output=output, archives=archives, seal=seal, sender=sender),
    )
    async with control:
        yield Stage(control, store, heard)
