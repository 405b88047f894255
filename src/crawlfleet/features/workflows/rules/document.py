"""Reads a workflow document: every field that is not of its type, with the path to it."""

from typing import Any, Final

import msgspec

from crawlfleet.core.text.decode_errors import field_problem
from crawlfleet.core.text.nesting import is_too_deep
from crawlfleet.errors import FieldProblem
from crawlfleet.features.workflows.model import (
    MAX_STEPS,
    Parameter,
    Step,
    TaskOptions,
    WorkflowDocument,
)
from crawlfleet.model.project import DEFAULT_PROJECT

MAX_PROBLEMS: Final = 20
MAX_BYTES: Final = 8_000_000


class _Frame(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document with undecoded steps: they are decoded one after the other, so that a problem
    names its step."""

    name: str
    steps: dict[str, msgspec.Raw]
    project_id: str | msgspec.UnsetType = msgspec.UNSET
    description: str = ""
    parameters: dict[str, msgspec.Raw] = {}
    defaults: TaskOptions = TaskOptions()


def read(
    raw: bytes, *, within: str = "", own: str | None = None
) -> tuple[WorkflowDocument | None, list[FieldProblem]]:
    """Parse the JSON text of a document; return the document, or its problems. With `own` the
    document must belong to that project, and need not name it."""
    prefix = f"{within}." if within else ""
    if len(raw) > MAX_BYTES:
        return None, [
            FieldProblem(
                field=within or "(body)",
                value=len(raw),
                message=f"has {len(raw)} bytes",
                remedy=f"use at most {MAX_BYTES}; for_each makes many instances of one step",
            )
        ]
    if is_too_deep(raw):
        return None, [_too_deep(within or "(body)")]
    try:
        frame = msgspec.json.decode(raw, type=_Frame)
    except msgspec.ValidationError as error:
        return None, [field_problem(error, WorkflowDocument, within=within)]
    project_id = frame.project_id
    if project_id is msgspec.UNSET:
        project_id = own or DEFAULT_PROJECT
    elif own is not None and project_id != own:
        return None, [
            FieldProblem(
                field=f"{prefix}project_id",
                value=project_id[:64],
                message="is not the project of your key",
                remedy=f"use {own!r}, or leave it out",
            )
        ]
    if len(frame.steps) > MAX_STEPS:
        return None, [
            FieldProblem(
                field=f"{prefix}steps",
                value=len(frame.steps),
                message=f"has {len(frame.steps)} steps",
                remedy=f"use at most {MAX_STEPS}; for_each makes many instances of one step",
            )
        ]
    problems: list[FieldProblem] = []
    steps = _each(frame.steps, Step, f"{prefix}steps", problems)
    parameters = _each(frame.parameters, Parameter, f"{prefix}parameters", problems)
    if problems:
        return None, problems
    return (
        WorkflowDocument(
            name=frame.name,
            steps=steps,
            project_id=project_id,
            description=frame.description,
            parameters=parameters,
            defaults=frame.defaults,
        ),
        [],
    )


def _each(
    raws: dict[str, msgspec.Raw], kind: Any, within: str, problems: list[FieldProblem]
) -> dict[str, Any]:
    decoder = msgspec.json.Decoder(kind)
    found: dict[str, Any] = {}
    for name, raw in raws.items():
        try:
            found[name] = decoder.decode(raw)
        except msgspec.ValidationError as error:
            if len(problems) < MAX_PROBLEMS:
                problems.append(field_problem(error, kind, within=f"{within}.{name[:64]}"))
    return found


def _too_deep(field: str) -> FieldProblem:
    return FieldProblem(
        field=field,
        message="has too many lists and objects within each other",
        remedy="use fewer, or pass them on as a text",
    )


def schema() -> dict[str, Any]:
    """The JSON schema of a document, for editors and other programs."""
    (made,), definitions = msgspec.json.schema_components(
        [WorkflowDocument], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A workflow of crawlfleet",
        **made,
        "$defs": definitions,
    }
