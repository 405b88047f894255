"""Plans of workflow documents: the dependencies of each step, and the results that it needs.

Steps are numbered by their place in the document. A plan is made once for each version of a
workflow, in time that grows with its steps and dependencies, and serves all of its runs.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from crawlfleet.features.workflows.model import On, Step, WorkflowDocument
from crawlfleet.features.workflows.rules.language.syntax import Expression
from crawlfleet.features.workflows.rules.language.template import Template, compiled, whole
from crawlfleet.features.workflows.rules.language.types import OF_RESULTS, references


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step, and its place among the others."""

    name: str
    place: int
    step: Step
    dependencies: tuple[tuple[int, On], ...]
    dependents: tuple[int, ...]
    when: Expression | None
    items: Expression | Template | None
    """Parsed `for_each` of the step."""
    parameters: Template
    spoken_of: frozenset[int]
    """Places of the steps that the expressions name."""
    read: frozenset[int]
    """Places of the named steps whose results have to be read."""


class WorkflowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All steps of a document in their order."""

    document: WorkflowDocument
    steps: tuple[PlannedStep, ...]
    places: Mapping[str, int]

    def downstream(self, places: set[int]) -> set[int]:
        """Return these steps and all that follow them."""
        found = {*places}
        stack = [*places]
        while stack:
            new = [each for each in self.steps[stack.pop()].dependents if each not in found]
            found.update(new)
            stack += new
        return found


class ExpressionParts(msgspec.Struct, frozen=True, kw_only=True):
    """The expressions of a step."""

    when: Expression | None
    items: Expression | Template | None
    parameters: Template

    def nodes(self) -> list[tuple[str, Expression]]:
        """Return the expressions, each with its path within the step."""
        found = [*self.parameters.nodes]
        if self.when is not None:
            found.append(("when", self.when))
        if isinstance(self.items, Template):
            found += self.items.nodes
        elif self.items is not None:
            found.append(("for_each", self.items))
        return found


def parts_of(step: Step) -> ExpressionParts:
    """The expressions of a step; raises `BadExpression`."""
    items: Any = step.for_each
    return ExpressionParts(
        when=None if step.when is None else whole(step.when),
        items=whole(items)
        if isinstance(items, str)
        else None
        if items is None
        else compiled(items, "for_each"),
        parameters=compiled(step.parameters, "parameters"),
    )


def plan_of(document: WorkflowDocument) -> WorkflowPlan:
    """The plan of a document without problems."""
    places = {name: place for place, name in enumerate(document.steps)}
    before = [dependencies_of(step, places) for step in document.steps.values()]
    after: list[list[int]] = [[] for _ in before]
    for place, dependencies in enumerate(before):
        for earlier, _ in dependencies:
            after[earlier].append(place)
    steps = []
    for (name, step), dependencies in zip(document.steps.items(), before, strict=True):
        parts = parts_of(step)
        spoken_of = {each for _, node in parts.nodes() for each in references(node)}
        steps.append(
            PlannedStep(
                name=name,
                place=places[name],
                step=step,
                dependencies=dependencies,
                dependents=tuple(after[places[name]]),
                when=parts.when,
                items=parts.items,
                parameters=parts.parameters,
                spoken_of=frozenset(places[step] for step, _ in spoken_of),
                read=frozenset(places[step] for step, field in spoken_of if field in OF_RESULTS),
            )
        )
    return WorkflowPlan(document=document, steps=tuple(steps), places=places)


def dependencies_of(step: Step, places: Mapping[str, int]) -> tuple[tuple[int, On], ...]:
    """Return the places of the steps that a step depends on, each with the required end."""
    return tuple(
        (places[each], On.SUCCESS) if isinstance(each, str) else (places[each.step], each.on)
        for each in step.depends_on
    )
