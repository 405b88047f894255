"""What a step of a workflow costs the master, by the number of steps: it should not grow.

The control plane is the real one, over the memory store; a node is played that does every task at
once. Counted is the processor's time from the submission to the end of the run, with the
assignment and the reports of each task; and apart from that, checking and planning the document.
"""

import argparse
import asyncio
import os
import time
from typing import Any

import msgspec
from rich.console import Console

from bench.sheets import Sheet, show
from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.access.keys import Principal
from crawlfleet.core.placement.rules import default_rules
from crawlfleet.core.tasks.admission import AdmissionRules
from crawlfleet.features.workflows.model import LIVE_RUN, RunStatus
from crawlfleet.features.workflows.rules import document, validation
from crawlfleet.features.workflows.rules.plan import plan_of
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.master import ControlPlane
from crawlfleet.model.key import Role
from crawlfleet.model.settings import Settings
from crawlfleet.model.wire.node_protocol import (
    PROTOCOL,
    LeaseRequest,
    Registration,
    Report,
    ReportBatch,
    ReportKind,
)
from crawlfleet.ports.system import System

SIZES = (100, 1_000, 10_000)
WIDTH = 100


class _System(System):
    """The machine's own clock and chance."""

    def now(self) -> float:
        return time.time()

    def wall(self) -> float:
        return time.time()

    def entropy(self, count: int) -> bytes:
        return os.urandom(count)


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    steps: int
    check_us: float
    plan_us: float
    run_us: float


def layers(count: int) -> bytes:
    """Layers of a hundred steps, each after three of the layer before, with a value of one."""
    steps: dict[str, Any] = {}
    for number in range(count):
        layer, place = divmod(number, WIDTH)
        before = [f"s{(layer - 1) * WIDTH + (place + shift) % WIDTH}" for shift in range(3)]
        steps[f"s{number}"] = {
            "task_type": "work",
            "depends_on": before if layer else [],
            "parameters": {"of": f"${{steps.{before[0]}.result.n}}" if layer else 0},
        }
    return msgspec.json.encode({"name": "layers", "steps": steps})


def measure(count: int) -> Cost:
    """The processor's time for each step, in microseconds."""
    raw = layers(count)
    rules = AdmissionRules(strategies=default_rules().strategies)
    begun = time.process_time()
    read, problems = document.read(raw)
    assert read is not None, problems
    assert not validation.problems_of(read, rules)
    checked = time.process_time()
    plan_of(read)
    planned = time.process_time()
    run_s = asyncio.run(_run(raw))
    each = 1e6 / count
    return Cost(
        steps=count,
        check_us=(checked - begun) * each,
        plan_us=(planned - checked) * each,
        run_us=run_s * each,
    )


async def _run(raw: bytes) -> float:
    rules = default_rules()
    control = ControlPlane(
        store=MemoryStore(),
        system=_System(),
        settings=Settings(),
        rules=rules,
        admission=AdmissionRules(strategies=rules.strategies),
    )
    async with control:
        workflow, _ = await control.service(Workflows).save(raw, by="bench")
        joiner = Principal(role=Role.NODE, name="bench")
        node = await control.nodes.register(
            Registration(name="n", resources={"slots": 1_000}, protocol=PROTOCOL), by=joiner
        )
        begun = time.process_time()
        run, _ = await control.service(Workflows).start(workflow.id, {}, by="bench")
        while run.status in LIVE_RUN:
            request = LeaseRequest(session_id=node.session_id, held=(), wait_s=0.05)
            reply = await control.leases.lease(node.node_id, request)
            reports = tuple(
                Report(
                    execution_id=each.execution_id,
                    task_id=each.task_id,
                    token=each.token,
                    kind=ReportKind.SUCCEEDED,
                    at=0.0,
                    data=msgspec.Raw(b'{"n":1}'),
                )
                for each in reply.assignments
            )
            if reports:
                batch = ReportBatch(session_id=node.session_id, reports=reports)
                await control.leases.report(node.node_id, batch)
            else:
                run = await control.service(Workflows).run(run.id)
        assert run.status is RunStatus.COMPLETED, run.error
        return time.process_time() - begun


def main(arguments: list[str] | None = None) -> list[Cost]:
    parser = argparse.ArgumentParser(prog="bench.workflows", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the largest")
    options = parser.parse_args(arguments)
    found = [measure(count) for count in (SIZES[:2] if options.quick else SIZES)]
    show([sheet(found)], Console())
    return found


def sheet(found: list[Cost]) -> Sheet:
    return Sheet(
        title="A step of a workflow, CPU-microseconds of the master",
        head=("steps", "check", "plan", "run, with its task"),
        rows=[
            (f"{each.steps:,}", f"{each.check_us:.0f}", f"{each.plan_us:.0f}", f"{each.run_us:.0f}")
            for each in found
        ],
    )


if __name__ == "__main__":
    main()
