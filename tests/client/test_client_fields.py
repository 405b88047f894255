"""What a type checker lets through is what the API takes, and nothing else."""

from typing import Any, get_args

import msgspec
import pytest

from crawlfleet.api.app import ROUTES
from crawlfleet.api.routes import audit, dead_letters, tasks
from crawlfleet.client.http import fields
from crawlfleet.model.admin_requests import DeadLetterSelection
from crawlfleet.model.requests import (
    CloneRequest,
    JoinTokenRequest,
    KeyRequest,
    RotateRequest,
    TaskRequest,
    TaskSelection,
)

PAGE = {"cursor", "limit"}


@pytest.mark.parametrize(
    ("known", "request_", "given_otherwise"),
    [
        (fields.TaskFields, TaskRequest, {"task_type", "parameters"}),
        (fields.CloneFields, CloneRequest, set()),
        (fields.TaskFilters, tasks.ListQuery, PAGE),
        (fields.TaskChoice, TaskSelection, set()),
        (fields.DeadLetterChoice, DeadLetterSelection, set()),
        (fields.DeadLetterChoice, dead_letters.DeadLetterQuery, PAGE),
        (fields.KeyFields, KeyRequest, {"name", "role"}),
        (fields.RotateFields, RotateRequest, set()),
        (fields.JoinTokenFields, JoinTokenRequest, set()),
        (fields.AuditFilters, audit.AuditQuery, PAGE),
    ],
)
def test_the_fields_are_those_of_the_api(
    known: Any, request_: type[msgspec.Struct], given_otherwise: set[str]
) -> None:
    names = {field.name for field in msgspec.structs.fields(request_)}
    assert set(known.__annotations__) == names - given_otherwise


def test_the_verbs_are_those_of_the_api() -> None:
    routes = {route.path for route in ROUTES}
    for verb in get_args(fields.TaskVerb):
        assert f"/api/v1/tasks/{{task_id}}:{verb}" in routes
    for verb in get_args(fields.TasksVerb):
        assert f"/api/v1/tasks:{verb}" in routes
    for verb in get_args(fields.CrawlVerb):
        assert f"/api/v1/crawls/{{task_id}}:{verb}" in routes
