"""What a workflow comes to, as simply as it can be said: the engine is held against it.

It goes over all steps again and again until nothing changes, and knows conditions as functions of
Python beside the text that the engine gets.
"""

from collections.abc import Callable
from typing import Any

import msgspec

Outcomes = Callable[[str, int], str]
"""How an instance of a step ends: completed, failed or cancelled."""
SETTLED = {"completed", "failed", "skipped", "cancelled"}


class Condition(msgspec.Struct, frozen=True):
    """The same condition or list twice."""

    text: str
    meaning: Callable[[dict[str, Any]], Any]
    """Of what is known of the steps; `LookupError` or `TypeError` where it makes no sense."""


class Sketch(msgspec.Struct, frozen=True):
    """A step of a random workflow."""

    name: str
    after: tuple[tuple[str, str], ...]
    when: Condition | None = None
    for_each: Condition | None = None
    optional: bool = False

    def as_json(self) -> dict[str, Any]:
        step: dict[str, Any] = {
            "task_type": "work",
            "parameters": {"of": self.name},
            "depends_on": [
                name if on == "success" else {"step": name, "on": on} for name, on in self.after
            ],
            "optional": self.optional,
        }
        if self.when is not None:
            step["when"] = self.when.text
        if self.for_each is not None:
            step["for_each"] = self.for_each.text
            step["parameters"]["item"] = "${item}"
        return step


def result_of(name: str, index: int) -> dict[str, Any]:
    """What an instance gives that completes: always the same."""
    number = sum(map(ord, name)) * 7 + index * 3
    return {"n": number % 5, "items": [*range(number % 4)], "text": f"{name}-{index}"}


def interpret(
    sketches: list[Sketch], outcomes: Outcomes
) -> tuple[str, dict[str, str], dict[str, list[Any]]]:
    """How the run ends, how each step does, and the items of the instances that were begun."""
    known: dict[str, dict[str, Any]] = {}
    begun: dict[str, list[Any]] = {}
    while len(known) < len(sketches):
        for sketch in sketches:
            if sketch.name in known or any(name not in known for name, _ in sketch.after):
                continue
            known[sketch.name] = _one(sketch, known, begun, outcomes)
    spoilt = {known[each.name]["status"] for each in sketches if not each.optional}
    run = "failed" if "failed" in spoilt else "cancelled" if "cancelled" in spoilt else "completed"
    return run, {name: value["status"] for name, value in known.items()}, begun


def _one(
    sketch: Sketch,
    known: dict[str, dict[str, Any]],
    begun: dict[str, list[Any]],
    outcomes: Outcomes,
) -> dict[str, Any]:
    for name, on in sketch.after:
        status = known[name]["status"]
        if (on == "success" and status != "completed") or (on == "failure" and status != "failed"):
            return _ended("skipped")
    items: Any = [None]
    try:
        if sketch.when is not None and not sketch.when.meaning(known):
            return _ended("skipped")
        if sketch.for_each is not None:
            items = sketch.for_each.meaning(known)
    except (LookupError, TypeError):
        return _ended("failed")
    begun[sketch.name] = items
    ends = [outcomes(sketch.name, index) for index in range(len(items))]
    results = [
        result_of(sketch.name, index) if end == "completed" else None
        for index, end in enumerate(ends)
    ]
    status = "failed" if "failed" in ends else "cancelled" if "cancelled" in ends else "completed"
    single = results[0] if sketch.for_each is None else None
    return {"status": status, "count": len(items), "results": results, "result": single}


def _ended(status: str) -> dict[str, Any]:
    return {"status": status, "count": 0, "results": [], "result": None}
