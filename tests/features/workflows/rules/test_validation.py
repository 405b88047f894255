"""What is wrong with a workflow document is told with its path and what to do."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from crawlfleet.core.tasks.admission import AdmissionRules
from crawlfleet.errors import FieldProblem
from crawlfleet.features.workflows.model import Kind, Parameter
from crawlfleet.features.workflows.rules import document, validation
from crawlfleet.features.workflows.rules.requests import request_of, task_id
from crawlfleet.model.task import StepRef


class Fetch(msgspec.Struct, forbid_unknown_fields=True):
    url: str
    depth: int = 1


RULES = AdmissionRules(strategies=("least_loaded",), parameter_types={"fetch": Fetch})
FETCH = {"task_type": "fetch", "parameters": {"url": "http://a/"}}


def problems(steps: Any, **more: Any) -> list[FieldProblem]:
    raw = msgspec.json.encode({"name": "shop", "steps": steps, **more})
    read, found = document.read(raw)
    return found if read is None else validation.problems_of(read, RULES)


@pytest.mark.parametrize(
    ("steps", "field", "message"),
    [
        ({}, "steps", "is empty"),
        ({"a": {}}, "steps.a.task_type", "is missing"),
        ({"a": {**FETCH, "prioritty": 1}}, "steps.a.prioritty", "is not a known field"),
        ({"a": {**FETCH, "priority": "high"}}, "steps.a.priority", "is a text, not a whole number"),
        ({"a": {**FETCH, "priority": 11}}, "steps.a.priority", "is out of range"),
        ({"a": {**FETCH, "timeout": -1}}, "steps.a.timeout", "is out of range"),
        ({"a-b": FETCH}, "steps.a-b", "is not a valid name"),
        ({"a": {**FETCH, "depends_on": ["b"]}}, "steps.a.depends_on[0]", "names no step: 'b'"),
        (
            {"a": {**FETCH, "depends_on": [{"step": "a", "on": "sucess"}]}},
            "steps.a.depends_on[0].on",
            "is not one of the possible values",
        ),
        (
            {"b": FETCH, "a": {**FETCH, "depends_on": ["b", {"step": "b", "on": "failure"}]}},
            "steps.a.depends_on[1]",
            "is named twice",
        ),
        ({"a": {**FETCH, "depends_on": ["a"]}}, "steps.a.depends_on", "is a cycle: a → a"),
        (
            {
                "first": FETCH,
                "a": {**FETCH, "depends_on": ["first", "c"]},
                "b": {**FETCH, "depends_on": ["a"]},
                "c": {**FETCH, "depends_on": ["b"]},
            },
            "steps.a.depends_on",
            "is a cycle: b → c → a → b",
        ),
        ({"a": {"task_type": "fetch"}}, "steps.a.parameters.url", "is missing"),
        (
            {"a": {"task_type": "fetch", "parameters": {"url": 3}}},
            "steps.a.parameters.url",
            "is a whole number, not a text",
        ),
        (
            {"a": {"task_type": "fetch", "parameters": {"url": "${run.id}", "depht": 1}}},
            "steps.a.parameters.depht",
            "is not a known field",
        ),
        (
            {"a": {"task_type": "fetch", "parameters": {"url": "${steps.b.result}"}}, "b": FETCH},
            "steps.a.parameters.url",
            "speaks of 'b', which need not have ended by then",
        ),
        (
            {"a": {"task_type": "x", "parameters": {"u": ["${steps.c.result}"]}}, "b": FETCH},
            "steps.a.parameters.u[0]",
            "names no step: 'c'",
        ),
        ({"a": {**FETCH, "when": "1 +"}}, "steps.a.when", "ends where a value should be"),
        ({"a": {**FETCH, "when": "1 + 1"}}, "steps.a.when", "is a number, not true or false"),
        ({"a": {**FETCH, "when": "1 / 0 == 1"}}, "steps.a.when", "divides by zero"),
        ({"a": {**FETCH, "for_each": "'x'"}}, "steps.a.for_each", "is a text, not a list"),
        ({"a": {**FETCH, "for_each": "[1"}}, "steps.a.for_each", "ends where ',' should be"),
        (
            {"a": {"task_type": "fetch", "parameters": {"url": "${item}"}}},
            "steps.a.parameters.url",
            "speaks of `item` in a step without for_each",
        ),
        ({"a": {**FETCH, "for_each": 3}}, "steps.a.for_each", "is a whole number, not"),
        ({"a": {**FETCH, "retry_policy": {"on": ["x"]}}}, "steps.a.retry_policy.on", "is not one"),
    ],
)
def test_a_problem_names_its_field_and_a_remedy(steps: Any, field: str, message: str) -> None:
    found = problems(steps)
    assert found
    assert found[0].field.startswith(field)
    assert found[0].message.startswith(message)
    assert found[0].remedy


def test_near_misses_are_suggested() -> None:
    found = problems({"fetch": FETCH, "parse": {**FETCH, "depends_on": ["fecth"]}})
    assert found[0].remedy == "did you mean 'fetch'?"


def test_several_problems_are_told_at_once() -> None:
    found = problems({"a": {**FETCH, "when": "x"}, "b": {**FETCH, "priority": 0}, "c": FETCH})
    assert [each.field for each in found] == ["steps.a.when", "steps.b.priority"]


def test_a_step_may_speak_of_steps_far_before_it() -> None:
    steps: dict[str, Any] = {"s0": FETCH}
    for number in range(1, 50):
        steps[f"s{number}"] = {**FETCH, "depends_on": [f"s{number - 1}"]}
    steps["s49"]["when"] = "steps.s0.result.ok == true"
    assert problems(steps) == []


def test_defaults_hold_for_steps_that_do_not_say_otherwise() -> None:
    raw = msgspec.json.encode(
        {
            "name": "shop",
            "project_id": "p",
            "defaults": {"priority": 7, "max_retries": 1, "timeout": 5},
            "steps": {"a": FETCH, "b": {**FETCH, "priority": 9, "timeout": None}},
        }
    )
    read, _ = document.read(raw)
    assert read is not None
    a, b = (request_of(read, name, msgspec.Raw(b"{}")) for name in ("a", "b"))
    assert (a.priority, a.max_retries, a.timeout, a.project_id) == (7, 1, 5.0, "p")
    assert (b.priority, b.max_retries, b.timeout) == (9, 1, None)


def test_what_a_step_expects_is_compared_with_that_step_of_earlier_runs() -> None:
    wanted = {"items": {"min": 1}, "drift": {"items": 0.5}}
    steps = {"a": {**FETCH, "expectations": wanted}, "b": FETCH}
    read, problems = document.read(msgspec.json.encode({"name": "shop", "steps": steps}))
    assert read is not None, problems
    one = request_of(read, "a", msgspec.Raw(b"{}")).expectations
    third = request_of(read, "a", msgspec.Raw(b"{}"), 2).expectations
    assert one is not None
    assert third is not None
    assert (one.series, third.series) == ("workflow.shop.a", "workflow.shop.a.2")
    assert request_of(read, "b", msgspec.Raw(b"{}")).expectations is None


def test_ids_of_tasks_follow_from_the_step_and_differ_for_each_instance() -> None:
    def id(**more: Any) -> str:
        return task_id(StepRef(**{"run_id": "run-1", "step": "a", **more}), 1.7e9)

    made = [id(), id(index=1), id(attempt=2), id(step="b"), id(run_id="run-2")]
    assert len({*made}) == 5
    assert id(index=1) == made[1]
    assert all(len(each) == len("task-") + 25 for each in made)


def test_the_parameters_of_a_run_are_held_against_the_declared_ones() -> None:
    declared = {
        "pages": Parameter(type=Kind.INTEGER),
        "name": Parameter(type=Kind.TEXT, default="shop"),
        "any": Parameter(default=None),
    }
    assert not validation.given_problems(declared, {"pages": 3, "any": [1]})
    found = validation.given_problems(declared, {"name": 3, "colour": "red", "pages": 1.5})
    assert [(each.field, each.message) for each in found] == [
        ("parameters.name", "is a number, not a text"),
        ("parameters.colour", "is not a parameter of the workflow"),
        ("parameters.pages", "is a number, not a whole number"),
    ]
    assert validation.given_problems(declared, {})[0].message == "is missing"


def test_the_schema_knows_every_field_of_a_document() -> None:
    made = document.schema()
    step = made["$defs"]["Step"]
    assert {"task_type", "depends_on", "when", "for_each", "retry_policy"} <= {*step["properties"]}
    assert step["required"] == ["task_type"]
    assert made["$ref"] == "#/$defs/WorkflowDocument"


def test_constant_expressions_share_what_may_be_spent_on_a_document() -> None:
    costly = {**FETCH, "when": "sum(range(40000)) > 0"}
    assert problems({f"s{number}": costly for number in range(200)}) == []
    cheap = {**FETCH, "when": "sum(range(10000)) > 0"}
    (problem,) = problems({"a": cheap, "b": {**FETCH, "when": "1 / 0 > 1"}})
    assert (problem.field, problem.message) == ("steps.b.when", "divides by zero")


def test_a_number_without_end_is_a_problem_like_any_other() -> None:
    (problem,) = problems({"a": {**FETCH, "when": f"number('{'9' * 1_900}') > 1"}})
    assert problem.message == "comes to a number that is too large"


def test_a_document_may_hold_so_many_expressions_and_so_deep_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validation, "MAX_EXPRESSIONS", 200)
    work = {"task_type": "work"}
    many = ["${run.id}"] * validation.MAX_EXPRESSIONS
    assert problems({"a": {**work, "parameters": {"x": [*many[1:], "$${no}"]}}}) == []
    (problem,) = problems({"a": {**work, "parameters": {"x": many}, "when": "1 < 2"}})
    assert (problem.field, problem.message) == ("steps", "has 201 expressions")
    deep: Any = "end"
    for _ in range(validation.DEEPEST):
        deep = [deep]
    assert problems({"a": {**work, "for_each": deep}}) == []
    (problem,) = problems({"a": {**work, "parameters": {"x": deep}}})
    assert problem.field == "steps.a.parameters"
    assert problem.message.startswith("has more than 100 lists")


def test_a_document_deeper_than_anybody_reads_is_a_problem() -> None:
    deep = b"[" * 5_000 + b"]" * 5_000
    read, (problem,) = document.read(b'{"name": "x", "steps": {"a": %s}}' % deep)
    assert read is None
    assert problem.message == "has too many lists and objects within each other"


def test_the_documents_of_the_guide_are_whole() -> None:
    guide = (Path(__file__).parents[4] / "docs/guides/workflows.md").read_text("utf-8")
    documents = re.findall(r"^```yaml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert len(documents) >= 4
    for each in documents:
        read, found = document.read(msgspec.json.encode(yaml.safe_load(each)))
        assert read is not None, found
        assert validation.problems_of(read, RULES) == []
