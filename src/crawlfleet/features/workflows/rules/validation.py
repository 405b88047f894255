"""Validation of a workflow before it runs: cycles, unknown steps, kinds that do not fit.

All problems are returned at once, each with the path to its field and a remedy. Faults that depend
on results are found when the step begins, and fail that step with the same words.
"""

import contextlib
import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

import msgspec

from crawlfleet.core.tasks import credentials
from crawlfleet.core.tasks.admission import AdmissionRules
from crawlfleet.core.tasks.admission import problems_of as task_problems
from crawlfleet.core.text.names import NAME
from crawlfleet.errors import FieldProblem
from crawlfleet.features.workflows.model import Dependency, Kind, Parameter, Step, WorkflowDocument
from crawlfleet.features.workflows.rules import requests
from crawlfleet.features.workflows.rules.document import MAX_PROBLEMS
from crawlfleet.features.workflows.rules.language.evaluation import (
    ExpressionScope,
    TooMuchWork,
    evaluate,
)
from crawlfleet.features.workflows.rules.language.functions import WORDS, kind_of
from crawlfleet.features.workflows.rules.language.syntax import BadExpression, Expression
from crawlfleet.features.workflows.rules.language.template import BadTemplate, Template
from crawlfleet.features.workflows.rules.language.types import (
    TypeContext,
    is_settled,
    kind_at,
    references,
)
from crawlfleet.features.workflows.rules.plan import ExpressionParts, parts_of

STEP_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")
MAX_DEPENDENCIES: Final = 200_000
"""Maximum number of dependencies in a document."""
MAX_EXPRESSIONS: Final = 50_000
"""Maximum number of expressions in a document: five for each of the maximum number of steps."""
DEEPEST: Final = 100
"""Maximum nesting of lists and objects in the values of a step."""
WORK: Final = 50_000
"""Work limit for all constant expressions of a document; faults beyond it appear when it runs."""
MAX_DESCRIPTION: Final = 2_000
MAX_NAMED: Final = 8
"""Maximum number of steps named in the problem of a cycle."""


def problems_of(document: WorkflowDocument, rules: AdmissionRules) -> list[FieldProblem]:
    """Return the problems of a document; an empty list means that it may run."""
    found = list(islice(chain(_names(document), _dependencies(document)), MAX_PROBLEMS))
    # What follows speaks of the steps before a step, which there are not in a circle.
    if found:
        return found
    if cycle := _cycle(document):
        return [cycle]
    if large := _too_large(document):
        return [large]
    return list(islice(_steps(document, rules), MAX_PROBLEMS))


def _names(document: WorkflowDocument) -> Iterator[FieldProblem]:
    if not NAME.match(document.name):
        yield FieldProblem(
            field="name",
            value=document.name[:64],
            message="is not a valid name",
            remedy="use letters, digits, dot, dash and underscore, at most 64",
        )
    if len(document.description) > MAX_DESCRIPTION:
        yield FieldProblem(
            field="description",
            message=f"has {len(document.description)} characters",
            remedy=f"use at most {MAX_DESCRIPTION}",
        )
    if not document.steps:
        yield FieldProblem(field="steps", message="is empty", remedy="add a step")
    for field, names in (("steps", document.steps), ("parameters", document.parameters)):
        for name in names:
            if not STEP_NAME.match(name):
                yield FieldProblem(
                    field=f"{field}.{name[:64]}",
                    message="is not a valid name",
                    remedy="begin with a letter; use letters, digits and underscore, at most 64",
                )
    for name, parameter in document.parameters.items():
        if parameter.default is not msgspec.UNSET and not fits(parameter.default, parameter.type):
            yield FieldProblem(
                field=f"parameters.{name}.default",
                message=f"is {WORDS[kind_of(parameter.default)]}, not {WORDS[parameter.type]}",
                remedy="change it, or its `type`",
            )


def fits(value: Any, kind: Kind) -> bool:
    """Return true if a value fits the kind of a parameter."""
    if kind is Kind.ANY:
        return True
    if kind is Kind.INTEGER:
        return kind_of(value) is Kind.NUMBER and value == int(value)
    return kind_of(value) is kind


def _dependencies(document: WorkflowDocument) -> Iterator[FieldProblem]:
    count = 0
    for name, step in document.steps.items():
        seen: set[str] = set()
        for at, each in enumerate(step.depends_on):
            before = each.step if isinstance(each, Dependency) else each
            field = f"steps.{name}.depends_on[{at}]"
            if before not in document.steps:
                near = difflib.get_close_matches(before, document.steps, n=1)
                yield FieldProblem(
                    field=field,
                    value=before[:64],
                    message=f"names no step: {before[:64]!r}",
                    remedy=f"did you mean {near[0]!r}?" if near else "name a step of this document",
                )
            elif before in seen:
                yield FieldProblem(
                    field=field,
                    value=before,
                    message="is named twice",
                    remedy="name each step once; `when` can say more about it",
                )
            seen.add(before)
        count += len(step.depends_on)
    if count > MAX_DEPENDENCIES:
        yield FieldProblem(
            field="steps",
            value=count,
            message=f"has {count} dependencies",
            remedy=f"use at most {MAX_DEPENDENCIES}; let steps meet in one that others wait for",
        )


def before_of(step: Step) -> list[str]:
    """The names of the steps that one waits for."""
    return [each.step if isinstance(each, Dependency) else each for each in step.depends_on]


def ordered(document: WorkflowDocument) -> list[str]:
    """The steps in an order in which each comes after those it waits for; short in a cycle."""
    waiting = {name: len(step.depends_on) for name, step in document.steps.items()}
    after: dict[str, list[str]] = {name: [] for name in document.steps}
    for name, step in document.steps.items():
        for before in before_of(step):
            after[before].append(name)
    order = [name for name, count in waiting.items() if not count]
    for name in order:
        for follower in after[name]:
            waiting[follower] -= 1
            if not waiting[follower]:
                order.append(follower)
    return order


def _cycle(document: WorkflowDocument) -> FieldProblem | None:
    order = ordered(document)
    if len(order) == len(document.steps):
        return None
    left = document.steps.keys() - {*order}
    path: dict[str, None] = {}
    # Everybody who is left waits for somebody who is: so the way back ends where it was before.
    name = next(name for name in document.steps if name in left)
    while name not in path:
        path[name] = None
        name = next(each for each in before_of(document.steps[name]) if each in left)
    circle = [*path][[*path].index(name) :][::-1]
    shown = [*circle[:MAX_NAMED], *(["…"] if len(circle) > MAX_NAMED else []), circle[0]]
    return FieldProblem(
        field=f"steps.{name}.depends_on",
        value=name,
        message=f"is a cycle: {' → '.join(shown)}",
        remedy="no step of it could ever begin; take one of these dependencies out",
    )


def _too_large(document: WorkflowDocument) -> FieldProblem | None:
    """Return the problem of a document with too many expressions or too deep values; `None` if it
    is fine."""
    count = 0
    for name, step in document.steps.items():
        count += step.when is not None
        for field, value in (("for_each", step.for_each), ("parameters", step.parameters)):
            if isinstance(value, str):
                count += 1
                continue
            found, depth = _counted(value)
            count += found
            if depth > DEEPEST:
                return FieldProblem(
                    field=f"steps.{name}.{field}",
                    message=f"has more than {DEEPEST} lists and objects within each other",
                    remedy=f"use at most {DEEPEST}, or pass it on as a text",
                )
    if count <= MAX_EXPRESSIONS:
        return None
    return FieldProblem(
        field="steps",
        value=count,
        message=f"has {count} expressions",
        remedy=f"use at most {MAX_EXPRESSIONS}; for_each makes many instances of one step",
    )


def _counted(value: Any) -> tuple[int, int]:
    """Return the number of expressions in a value, and its depth; counting stops beyond
    `DEEPEST`."""
    count, deepest = 0, 0
    stack = [(value, 1)]
    while stack and deepest <= DEEPEST:
        inner, depth = stack.pop()
        if isinstance(inner, str):
            count += inner.count("${") - inner.count("$${")
        elif isinstance(inner, dict | list):
            deepest = max(deepest, depth)
            below = inner.values() if isinstance(inner, dict) else inner
            stack += ((each, depth + 1) for each in below)
    return count, deepest


def _steps(document: WorkflowDocument, rules: AdmissionRules) -> Iterator[FieldProblem]:
    spread = {name: step.for_each is not None for name, step in document.steps.items()}
    kinds = {name: parameter.type for name, parameter in document.parameters.items()}
    is_before = _ancestry(document)
    scope = ExpressionScope(left=WORK)
    for name, step in document.steps.items():
        path = f"steps.{name}"
        try:
            parts = parts_of(step)
        except BadExpression as problem:
            yield _told(f"{path}.{_where(step, problem)}", problem)
            continue
        around = TypeContext(spread=spread, parameters=kinds, is_instance=spread[name])
        outside = TypeContext(spread=spread, parameters=kinds, is_instance=False)
        for field, node in parts.nodes():
            inner = around if field.startswith("parameters") else outside
            yield from _expression(f"{path}.{field}", field, node, inner, scope)
            yield from _references(f"{path}.{field}", name, node, document, is_before)
        yield from _task(path, document, name, parts, rules)


def _where(step: Step, problem: BadExpression) -> str:
    """Return the field of a step that has the faulty expression."""
    if isinstance(problem, BadTemplate):
        return problem.path
    try:
        if step.when is not None:
            parts_of(msgspec.structs.replace(step, for_each=None, parameters={}))
    except BadExpression:
        return "when"
    return "for_each"


def _expression(
    path: str, field: str, node: Expression, around: TypeContext, scope: ExpressionScope
) -> Iterator[FieldProblem]:
    wanted = {"when": Kind.FLAG, "for_each": Kind.LIST}.get(field, Kind.ANY)
    try:
        kind = kind_at(node, around)
        if wanted not in (kind, Kind.ANY) and kind is not Kind.ANY:
            raise BadExpression(f"is {WORDS[kind]}, not {WORDS[wanted]}", _WANTED[wanted])
        if is_settled(node):
            with contextlib.suppress(TooMuchWork):
                evaluate(node, scope)
    except BadExpression as problem:
        yield _told(path, problem)


_WANTED: Final = {
    Kind.FLAG: "compare something, such as steps.fetch.result.count > 0",
    Kind.LIST: "name a list, such as steps.fetch.result.links",
}


def _references(
    path: str,
    name: str,
    node: Expression,
    document: WorkflowDocument,
    is_before: Callable[[str, str], bool],
) -> Iterator[FieldProblem]:
    for step, _ in references(node):
        if step not in document.steps:
            near = difflib.get_close_matches(step, document.steps, n=1)
            yield FieldProblem(
                field=path,
                value=step[:64],
                message=f"names no step: {step[:64]!r}",
                remedy=f"did you mean {near[0]!r}?" if near else "name a step of this document",
            )
        elif not is_before(step, name):
            yield FieldProblem(
                field=path,
                value=step,
                message=f"speaks of {step!r}, which need not have ended by then",
                remedy=f"add {step!r} to steps.{name}.depends_on",
            )


def _ancestry(document: WorkflowDocument) -> Callable[[str, str], bool]:
    """Return a function that tells if one step comes before another. It uses bit sets, which are
    cheap for thousands of steps."""
    places = {name: place for place, name in enumerate(document.steps)}
    above: dict[str, int] = {}
    for name in ordered(document):
        bits = 0
        for before in before_of(document.steps[name]):
            bits |= above[before] | 1 << places[before]
        above[name] = bits
    return lambda before, name: bool(above[name] >> places[before] & 1)


def _task(
    path: str, document: WorkflowDocument, name: str, parts: ExpressionParts, rules: AdmissionRules
) -> Iterator[FieldProblem]:
    """Yield the problems of the step's task, as far as its values are known."""
    step = document.steps[name]
    request = requests.request_of(document, name, _sample(parts.parameters))
    if parts.parameters.nodes:
        kind = rules.parameter_types.get(step.task_type)
        if kind is not None:
            yield from _unknown(f"{path}.parameters", step.parameters, kind)
        for found in credentials.problems_of(step.task_type, step.parameters, is_template=True):
            yield msgspec.structs.replace(found, field=f"{path}.parameters.{found.field}")
        rules = msgspec.structs.replace(rules, parameter_types={})
    for problem in task_problems(request, rules):
        if problem.field != "project_id" or path == f"steps.{next(iter(document.steps))}":
            field = problem.field if problem.field == "project_id" else f"{path}.{problem.field}"
            yield msgspec.structs.replace(problem, field=field)


def _sample(parameters: Template) -> msgspec.Raw:
    value = {} if parameters.nodes else parameters.value
    return msgspec.Raw(msgspec.json.encode(value))


def _unknown(
    path: str, given: dict[str, Any], kind: type[msgspec.Struct]
) -> Iterator[FieldProblem]:
    """Yield the fields that the task type does not know, also where their values are not known
    yet."""
    if not kind.__struct_config__.forbid_unknown_fields:
        return
    known = kind.__struct_encode_fields__
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            yield FieldProblem(
                field=f"{path}.{name[:64]}",
                message="is not a known field",
                remedy=f"did you mean {near[0]!r}?"
                if near
                else f"remove it; known are {', '.join(known)}",
            )


def _told(path: str, problem: BadExpression) -> FieldProblem:
    return FieldProblem(field=path, message=problem.message, remedy=problem.remedy)


def given_problems(
    declared: dict[str, Parameter], given: dict[str, Any], within: str = "parameters"
) -> Sequence[FieldProblem]:
    """Return the problems of the parameters of a run: unknown, missing, or of the wrong kind."""
    problems = []
    for name, value in given.items():
        parameter = declared.get(name)
        if parameter is None:
            known = ", ".join(declared)
            problems.append(
                FieldProblem(
                    field=f"{within}.{name[:64]}",
                    message="is not a parameter of the workflow",
                    remedy=f"there are {known}" if known else "it has none",
                )
            )
        elif not fits(value, parameter.type):
            problems.append(
                FieldProblem(
                    field=f"{within}.{name}",
                    message=f"is {WORDS[kind_of(value)]}, not {WORDS[parameter.type]}",
                    remedy=f"give {WORDS[parameter.type]}",
                )
            )
    problems += [
        FieldProblem(
            field=f"{within}.{name}",
            message="is missing",
            remedy=f"give it, such as -p {name}=VALUE",
        )
        for name, parameter in declared.items()
        if parameter.default is msgspec.UNSET and name not in given
    ]
    return problems[:MAX_PROBLEMS]
