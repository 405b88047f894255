"""Workflows in a simulated world: people submit some, and every step that begins is watched."""

import random
from collections import defaultdict
from typing import Any

import msgspec

from crawlfleet.features.workflows.model import (
    LIVE_RUN,
    SETTLED,
    On,
    Run,
    RunStatus,
    RunStep,
    StepStatus,
    WorkflowVersion,
)
from crawlfleet.features.workflows.rules import document
from crawlfleet.features.workflows.rules.plan import WorkflowPlan, plan_of
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.master import ControlPlane
from crawlfleet.model.change import Change
from crawlfleet.model.task import TERMINAL, Task, TaskStatus

VERBS = ("cancel", "rerun", "rerun", "from")
_MEETS = {
    On.SUCCESS: {StepStatus.COMPLETED},
    On.FAILURE: {StepStatus.FAILED},
    On.ALWAYS: SETTLED,
}


class WorkflowInvariants:
    """Invariants of runs, checked after every commit."""

    def __init__(self, tasks: dict[str, Task]) -> None:
        self._tasks = tasks
        self._plans: dict[tuple[str, int], WorkflowPlan] = {}
        self.runs: dict[str, Run] = {}
        self._rows: dict[str, dict[str, RunStep]] = defaultdict(dict)
        self._begun: dict[tuple[str, str, int], set[int]] = defaultdict(set)
        """Started instances, by run, step and attempt."""
        self.steered: set[str] = set()
        """Runs that people have cancelled, or run again."""

    def observe(self, change: Change) -> None:
        """Take one accepted change into account; its tasks were taken before."""
        for version in change.of(WorkflowVersion):
            read, problems = document.read(bytes(version.document))
            assert read is not None, f"a document was kept that cannot be read: {problems}"
            self._plans[version.workflow_id, version.number] = plan_of(read)
        steered = {run.id for run in change.of(Run) if self._see_run(run)}
        before = {row.id: self._rows[row.run_id].get(row.step) for row in change.of(RunStep)}
        for row in change.of(RunStep):
            self._rows[row.run_id][row.step] = row
        new: dict[str, list[Task]] = defaultdict(list)
        for task in change.tasks:
            if task.step is not None and task.version == 1:
                new[f"{task.step.run_id}.{task.step.step}"].append(task)
        for row in change.of(RunStep):
            self._see_step(before[row.id], row, new.pop(row.id, []), row.run_id in steered)
        assert not new, f"tasks without their step: {[*new]}"

    def _see_run(self, run: Run) -> bool:
        """Check a change of a run, and return whether the run was repeated."""
        before = self.runs.get(run.id)
        self.runs[run.id] = run
        if before is None:
            return False
        assert run.version == before.version + 1, f"{run.id} skipped a version"
        again = before.status not in LIVE_RUN
        if again:
            assert run.status is RunStatus.RUNNING, f"{run.id} changed after its end"
            assert run.attempt == before.attempt + 1, f"{run.id} was not run again"
        if again or run.status is RunStatus.CANCELLING:
            self.steered.add(run.id)
        return again

    def _see_step(self, before: RunStep | None, row: RunStep, new: list[Task], again: bool) -> None:
        assert row.version == (before.version if before else 0) + 1, f"{row.id} skipped a version"
        assert row.run_id in self.runs, f"{row.id} is of no run"
        was = before.status if before else StepStatus.WAITING
        if again:
            assert not new, f"{row.id} has tasks before it was decided on"
            return
        run = self.runs[row.run_id]
        if was is StepStatus.WAITING:
            assert run.status is not RunStatus.CANCELLING, f"{row.id} begins in {run.status}"
            self._see_decision(run, row, new)
            return
        assert was is StepStatus.RUNNING, f"{row.id} went from {was} to {row.status}"
        assert not new, f"{row.id} begins tasks when it ends"
        assert row.status in SETTLED, f"{row.id} went from running to {row.status}"
        statuses = self._statuses(row)
        assert all(each in TERMINAL for each in statuses), f"{row.id} ended before its tasks"
        assert row.status is _expected(statuses), f"{row.id} is {row.status} by {statuses}"

    def _see_decision(self, run: Run, row: RunStep, new: list[Task]) -> None:
        plan = self._plans[run.workflow_id, run.number]
        step = plan.steps[plan.places[row.step]]
        met = True
        for place, on in step.dependencies:
            earlier = self._rows[run.id].get(plan.steps[place].name)
            assert earlier is not None, f"{row.id} is decided on before {plan.steps[place].name}"
            assert earlier.status in SETTLED, f"{row.id} is decided on before {earlier.step}"
            met = met and earlier.status in _MEETS[on]
        if not met:
            assert row.status is StepStatus.SKIPPED, f"{row.id} is {row.status}, not skipped"
        assert len(new) == row.count, f"{row.id} has {len(new)} tasks, not {row.count}"
        begun = self._begun[run.id, row.step, row.attempt]
        for task in new:
            assert task.step is not None
            assert task.step.attempt == row.attempt, f"{task.id} is of another attempt"
            assert task.step.index not in begun, f"{row.id}[{task.step.index}] was begun twice"
            begun.add(task.step.index)
        if row.count:
            assert row.status is StepStatus.RUNNING, f"{row.id} has tasks, and is {row.status}"

    def _statuses(self, row: RunStep) -> list[TaskStatus]:
        return [
            task.status
            for task in self._tasks.values()
            if task.step is not None
            and (task.step.run_id, task.step.step) == (row.run_id, row.step)
            and task.step.attempt == row.attempt
        ]

    def is_over(self) -> bool:
        """Return whether every run has ended."""
        return all(run.status not in LIVE_RUN for run in self.runs.values())

    def check_end(self) -> None:
        """Every run has ended, and as its steps say; of no step an instance was left out."""
        for run in self.runs.values():
            assert run.status not in LIVE_RUN, f"{run.id} is still {run.status}"
            plan = self._plans[run.workflow_id, run.number]
            rows = self._rows[run.id]
            for row in rows.values():
                begun = self._begun[run.id, row.step, row.attempt]
                assert begun == {*range(row.count)}, f"{row.id} has begun {begun}"
            if run.status is RunStatus.CANCELLED:
                continue
            spoilt = set()
            for step in plan.steps:
                assert step.name in rows, f"{run.id} ended before {step.name}"
                assert rows[step.name].status in SETTLED, f"{run.id} ended before {step.name}"
                if not step.step.optional:
                    spoilt.add(rows[step.name].status)
            expected = RunStatus.COMPLETED
            if StepStatus.FAILED in spoilt:
                expected = RunStatus.FAILED
            elif StepStatus.CANCELLED in spoilt:
                expected = RunStatus.CANCELLED
            assert run.status is expected, f"{run.id} is {run.status}, not {expected}"


def _expected(statuses: list[TaskStatus]) -> StepStatus:
    if TaskStatus.FAILED in statuses or TaskStatus.TIMEOUT in statuses:
        return StepStatus.FAILED
    return StepStatus.CANCELLED if TaskStatus.CANCELLED in statuses else StepStatus.COMPLETED


async def save(on: ControlPlane, wanted: dict[str, Any]) -> str:
    """Keep a workflow; its name."""
    workflow, _ = await on.service(Workflows).save(msgspec.json.encode(wanted), by="people")
    return workflow.name


async def submit(on: ControlPlane, wanted: dict[str, Any]) -> str:
    """Submit a workflow, and return the id of its run; a repeated request returns the same run."""
    workflow, _ = await on.service(Workflows).save(msgspec.json.encode(wanted), by="people")
    run, _ = await on.service(Workflows).start(workflow.id, {}, by="people", key=wanted["name"])
    return run.id


async def order(on: ControlPlane, verb: str, run_id: str) -> None:
    """Carry out an order of an operator for a run."""
    if verb == "cancel":
        await on.service(Workflows).cancel(run_id, by="people")
    else:
        chosen = ("s0",) if verb == "from" else ()
        await on.service(Workflows).rerun(run_id, chosen, by="people")


def request(number: int, chance: random.Random, name: str = "workflow") -> dict[str, Any]:
    """Return a random workflow: steps with dependencies, fan-out and conditions."""
    steps: dict[str, Any] = {}
    for place in range(chance.randint(2, 9)):
        before = chance.sample(sorted(steps), k=min(len(steps), chance.randint(0, 3)))
        outcome = chance.choices(("ok", "error", "bad"), (80, 15, 5))[0]
        step: dict[str, Any] = {
            "task_type": "work",
            "parameters": {
                "seconds": chance.choice((0.0, 0.1, 2.0)),
                "outcome": outcome,
                "of": "${run.id}",
            },
            "max_retries": chance.randint(0, 2),
            "retry_policy": {"initial_delay_s": 0.5},
            "depends_on": [
                {"step": name, "on": chance.choice(("success", "success", "failure", "always"))}
                for name in before
            ],
            "optional": chance.random() < 0.2,
        }
        if chance.random() < 0.4:
            step["for_each"] = chance.choice(("range(3)", "range(0)", "range(12)"))
        if before and chance.random() < 0.3:
            step["when"] = f"steps.{before[0]}.status != 'failed'"
        single = [name for name in before if "for_each" not in steps[name]]
        if single and chance.random() < 0.5:
            step["parameters"]["of"] = f"${{default(steps.{single[0]}.result, 'nothing')}}"
        steps[f"s{place}"] = step
    return {"name": f"{name}-{number}", "steps": steps}
