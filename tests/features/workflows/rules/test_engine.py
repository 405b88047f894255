"""The engine of workflows against a simple interpreter, on random graphs with random failures."""

import os
import random
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.core.tasks.admission import AdmissionRules
from crawlfleet.features.workflows.model import SETTLED, RunStatus, StepStatus
from crawlfleet.features.workflows.rules import document, engine, validation
from crawlfleet.features.workflows.rules.engine import FailStep, RunProgress, SkipStep, StartStep
from crawlfleet.features.workflows.rules.language.evaluation import ExpressionScope, StepValue
from crawlfleet.features.workflows.rules.plan import WorkflowPlan, plan_of
from tests.core.graph_reference import Condition, Outcomes, Sketch, interpret, result_of

RULES = AdmissionRules(strategies=())
EXAMPLES = 3_000 if os.environ.get("CRAWLFLEET_SOAK") else 60


def planned(steps: dict[str, Any], **more: Any) -> WorkflowPlan:
    """The plan of a document that has no problems."""
    raw = msgspec.json.encode({"name": "test", "steps": steps, **more})
    read, problems = document.read(raw)
    assert read is not None, problems
    problems = validation.problems_of(read, RULES)
    assert not problems
    return plan_of(read)


class Rehearsal:
    """Runs a plan without a fleet: instances end in a random order, as outcomes say."""

    def __init__(self, plan: WorkflowPlan, outcomes: Outcomes, chance: random.Random) -> None:
        self.plan, self.outcomes, self.chance = plan, outcomes, chance
        self.course = RunProgress(plan)
        self.begun: dict[str, tuple[msgspec.Raw, ...]] = {}
        self.reasons: dict[str, str] = {}
        self._open: list[tuple[int, int]] = []
        self._ends: dict[int, dict[int, str]] = {}

    def run(self) -> RunStatus:
        self._decide()
        while self._open:
            place, index = self._open.pop(self.chance.randrange(len(self._open)))
            name = self.plan.steps[place].name
            ends = self._ends[place]
            ends[index] = self.outcomes(name, index)
            if len(ends) == len(self.begun[name]):
                found = {*ends.values()}
                worst = next(each for each in ("failed", "cancelled", "completed") if each in found)
                self.course.settle(place, StepStatus(worst))
            self._decide()
        outcome = self.course.outcome()
        assert outcome is not None, "nothing runs, and the run has not ended"
        return outcome

    def _decide(self) -> None:
        while steps := self.course.ready(self.chance.randint(1, 4)):
            for step in steps:
                assert step.name not in self.begun, f"{step.name} is decided on twice"
                for before, _ in step.dependencies:
                    assert self.course.status(before) in SETTLED, f"{step.name} is too early"
                spoken_of = {self.plan.steps[place].name: place for place in step.spoken_of}
                scope = ExpressionScope(
                    steps={name: self._value(at) for name, at in spoken_of.items()}
                )
                decision = self.course.decide(step, scope)
                match decision.verdict:
                    case StartStep(parameters=parameters):
                        self.begun[step.name] = parameters
                        self._ends[step.place] = {}
                        self._open += ((step.place, at) for at in range(len(parameters)))
                    case SkipStep(reason=reason) | FailStep(reason=reason):
                        self.reasons[step.name] = reason

    def _value(self, place: int) -> StepValue:
        step = self.plan.steps[place]
        ends = self._ends.get(place, {})
        results: list[Any] = [
            result_of(step.name, at) if ends[at] == "completed" else None for at in sorted(ends)
        ]
        spread = step.items is not None
        return StepValue(
            status=str(self.course.status(place)),
            count=len(results),
            result=results[0] if results and not spread else None,
            results=results if spread else None,
        )


def conditions(name: str, spread: bool) -> list[Condition]:
    """What can be asked of an earlier step."""
    asked = [
        Condition(
            f"steps.{name}.status == 'completed'",
            lambda known: known[name]["status"] == "completed",
        ),
        Condition(
            f"steps.{name}.status in ['failed', 'skipped']",
            lambda known: known[name]["status"] in {"failed", "skipped"},
        ),
        Condition(f"steps.{name}.count > 1", lambda known: known[name]["count"] > 1),
    ]
    if spread:
        asked.append(
            Condition(
                f"len(steps.{name}.results[*].n) >= 1",
                lambda known: len([each for each in known[name]["results"] if each]) >= 1,
            )
        )
    else:
        asked += [
            Condition(
                f"steps.{name}.result.n % 2 == 0",
                lambda known: known[name]["result"]["n"] % 2 == 0,
            ),
            Condition(
                f"default(steps.{name}.result.n, 9) > 2",
                lambda known: (known[name]["result"] or {"n": 9})["n"] > 2,
            ),
            Condition(
                f"not (steps.{name}.result.nothing == 1)",
                lambda known: known[name]["result"]["nothing"] != 1,
            ),
        ]
    return asked


def lists(name: str, spread: bool) -> list[Condition]:
    if spread:
        return [
            Condition(
                f"${{flatten(steps.{name}.results[*].items)}}",
                lambda known: [i for each in known[name]["results"] if each for i in each["items"]],
            )
        ]
    return [
        Condition(f"steps.{name}.result.items", lambda known: known[name]["result"]["items"]),
        Condition(
            f"${{range(default(steps.{name}.result.n, 0))}}",
            lambda known: [*range((known[name]["result"] or {"n": 0})["n"])],
        ),
    ]


@st.composite
def workflows(draw: st.DrawFn) -> list[Sketch]:
    sketches: list[Sketch] = []
    for number in range(draw(st.integers(1, 12))):
        before: list[Sketch] = []
        if sketches:
            some = st.lists(st.sampled_from(sketches), max_size=3, unique_by=lambda each: each.name)
            before = draw(some)
        after = tuple(
            (each.name, draw(st.sampled_from(["success", "success", "failure", "always"])))
            for each in before
        )
        when = for_each = None
        if draw(st.booleans()) and before:
            asked = draw(st.sampled_from(before))
            when = draw(st.sampled_from(conditions(asked.name, asked.for_each is not None)))
        if draw(st.integers(0, 2)) == 0 and before:
            asked = draw(st.sampled_from(before))
            for_each = draw(st.sampled_from(lists(asked.name, asked.for_each is not None)))
        sketches.append(
            Sketch(f"s{number}", after, when, for_each, optional=draw(st.integers(0, 4)) == 0)
        )
    return draw(st.permutations(sketches))


@settings(deadline=None, max_examples=EXAMPLES)
@given(workflows(), st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 0.4]))
def test_every_run_comes_to_what_the_interpreter_says(
    sketches: list[Sketch], seed: int, trouble: float
) -> None:
    def outcomes(name: str, index: int) -> str:
        chance = random.Random(f"{seed} {name} {index}")
        if chance.random() >= trouble:
            return "completed"
        return chance.choice(["failed", "failed", "cancelled"])

    plan = planned({each.name: each.as_json() for each in sketches})
    rehearsal = Rehearsal(plan, outcomes, random.Random(seed))
    ended = rehearsal.run()
    run, statuses, begun = interpret(sketches, outcomes)
    assert {s.name: str(rehearsal.course.status(s.place)) for s in plan.steps} == statuses
    assert str(ended) == run
    assert rehearsal.begun.keys() == begun.keys()
    for name, items in begun.items():
        made = [msgspec.json.decode(raw) for raw in rehearsal.begun[name]]
        spread = next(each for each in sketches if each.name == name).for_each is not None
        assert made == [{"of": name, **({"item": item} if spread else {})} for item in items]


@settings(deadline=None, max_examples=EXAMPLES // 3)
@given(workflows(), st.integers(0, 2**32), st.integers(0, 30))
def test_a_run_goes_on_from_what_was_written_down(
    sketches: list[Sketch], seed: int, stop: int
) -> None:
    """As after a crash: a course that is made from the statuses decides what the first would."""
    plan = planned({each.name: each.as_json() for each in sketches})
    first = Rehearsal(plan, lambda name, index: "completed", random.Random(seed))
    first._decide()
    for _ in range(stop):
        if not first._open:
            break
        place, index = first._open.pop()
        first._ends[place][index] = "completed"
        if len(first._ends[place]) == len(first.begun[plan.steps[place].name]):
            first.course.settle(place, StepStatus.COMPLETED)
        first._decide()
    written = {
        step.place: first.course.status(step.place)
        for step in plan.steps
        if first.course.status(step.place) is not StepStatus.WAITING
    }
    again = RunProgress(plan, written)
    assert not again.ready(100), "what could be decided on had been"
    first.course = again
    run, statuses, _ = interpret(sketches, lambda *_: "completed")
    assert str(first.run()) == run
    assert {s.name: str(again.status(s.place)) for s in plan.steps} == statuses


def chain_of(count: int) -> dict[str, Any]:
    """Layers of a hundred, each step after some of the layer before."""
    steps: dict[str, Any] = {}
    for number in range(count):
        layer, place = divmod(number, 100)
        before = [f"s{(layer - 1) * 100 + (place + shift) % 100}" for shift in range(3)]
        steps[f"s{number}"] = {
            "task_type": "work",
            "depends_on": before if layer else [],
            "when": f"steps.{before[0]}.result.n >= 0" if layer else "true",
            "parameters": {"from": f"${{steps.{before[0]}.result.text}}" if layer else "nobody"},
        }
    return steps


@pytest.mark.slow
def test_ten_thousand_steps_are_planned_and_run_through() -> None:
    begun = time.process_time()
    plan = planned(chain_of(10_000))
    rehearsal = Rehearsal(plan, lambda name, index: "completed", random.Random(1))
    assert rehearsal.run() is RunStatus.COMPLETED
    assert len(rehearsal.begun) == 10_000
    assert time.process_time() - begun < 60.0, "it takes two seconds"


def test_the_work_for_a_step_does_not_grow_with_the_workflow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted, not timed: how often a step's followers and dependencies are looked at."""
    looked = {}
    for count in (200, 1_000):
        plan = planned(chain_of(count))
        calls = 0
        put = RunProgress._put

        def counting(self: RunProgress, place: int, status: StepStatus, put: Any = put) -> None:
            nonlocal calls
            calls += 1 + len(self.plan.steps[place].dependents)
            put(self, place, status)

        monkeypatch.setattr(RunProgress, "_put", counting)
        Rehearsal(plan, lambda name, index: "completed", random.Random(1)).run()
        monkeypatch.setattr(RunProgress, "_put", put)
        looked[count] = calls / count
    assert looked[1_000] < 1.6 * looked[200]


def test_an_empty_list_completes_the_step_and_those_after_it_begin() -> None:
    plan = planned(
        {
            "list": {"task_type": "work", "for_each": []},
            "after": {"task_type": "work", "depends_on": ["list"]},
        }
    )
    rehearsal = Rehearsal(plan, lambda name, index: "completed", random.Random(1))
    assert rehearsal.run() is RunStatus.COMPLETED
    assert len(rehearsal.begun["list"]) == 0
    assert len(rehearsal.begun["after"]) == 1


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"for_each": "steps.first.result.text"}, "for_each: is a text; it has to be a list"),
        ({"when": "steps.first.result.n"}, "when: is a number; it has to be true or false"),
        (
            {"parameters": {"url": "${steps.first.result.url}"}},
            "parameters: finds no field 'url'; there are n, items, text",
        ),
        ({"for_each": "range(10001)"}, "for_each: has 10001 elements"),
        (
            {"for_each": "range(3000000 + steps.first.result.n)"},
            "for_each: is too much work",
        ),
    ],
)
def test_a_step_that_cannot_begin_fails_and_says_why(step: dict[str, Any], reason: str) -> None:
    plan = planned(
        {
            "first": {"task_type": "work"},
            "second": {"task_type": "work", "depends_on": ["first"], **step},
        }
    )
    rehearsal = Rehearsal(plan, lambda name, index: "completed", random.Random(1))
    assert rehearsal.run() is RunStatus.FAILED
    assert rehearsal.reasons["second"].startswith(reason)


def test_what_an_instance_may_spend_is_shared_by_all_of_a_step() -> None:
    costly = "${len(flatten([range(1000), range(1000)]))}"
    plan = planned(
        {"many": {"task_type": "work", "for_each": "range(9000)", "parameters": {"n": costly}}}
    )
    decision = RunProgress(plan).decide(plan.steps[0], ExpressionScope())
    assert isinstance(decision.verdict, FailStep)
    assert "too much work" in decision.verdict.reason


def test_parameters_that_come_to_too_much_fail_the_step() -> None:
    plan = planned(
        {"large": {"task_type": "work", "for_each": "range(200)", "parameters": {"x": "${run.x}"}}}
    )
    scope = ExpressionScope(roots={"run": {"x": "x" * 900_000}})
    verdict = engine.judge(plan.steps[0], scope)
    assert isinstance(verdict, FailStep)
    assert "keep large results in a sink" in verdict.reason


def test_the_most_instances_with_a_dozen_fields_each_may_begin() -> None:
    fields = {f"field{number}": "${item}" for number in range(12)}
    plan = planned(
        {"many": {"task_type": "work", "for_each": "range(10000)", "parameters": fields}}
    )
    verdict = engine.judge(plan.steps[0], ExpressionScope())
    assert isinstance(verdict, StartStep)
    assert len(verdict.parameters) == 10_000


def test_a_step_with_many_references_to_a_large_value_fails_before_it_is_built() -> None:
    fields = {f"field{number}": "${run.x}" for number in range(50)}
    plan = planned({"large": {"task_type": "work", "parameters": fields}})
    verdict = engine.judge(plan.steps[0], ExpressionScope(roots={"run": {"x": "x" * 460_000}}))
    assert verdict == FailStep(
        "parameters: come to more than 1000000 bytes; keep large results in a sink, and pass on "
        "where they are"
    )
