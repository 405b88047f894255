"""Who sends JSON that does not fit is told which field, what is wrong, and what to send."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from crawlfleet.core.text.decode_errors import field_problem
from crawlfleet.model.requests import KeyRequest, NodeChangeRequest, TaskRequest


class Since(msgspec.Struct):
    since: datetime | None = None


class Nested(msgspec.Struct):
    all: list[dict[str, dict[str, int]]]


def told(sent: Any, type: Any) -> tuple[str, str, str]:
    raw = msgspec.json.encode(sent)
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.json.decode(raw, type=type)
    problem = field_problem(refused.value, type, raw=raw)
    return problem.field, problem.message, problem.remedy


def test_a_name_that_cannot_be_one_of_a_map_is_told_with_those_that_can() -> None:
    field, message, remedy = told(
        {"task_type": "x", "retry_policy": {"classes": {"network": {}, "bogus": {}}}}, TaskRequest
    )

    assert field == "retry_policy.classes.bogus"
    assert message == "is not one of the possible values"
    assert remedy.startswith("use one of ")
    assert "network" in remedy


def test_an_unknown_field_in_an_entry_of_a_map_is_told_with_the_known_ones() -> None:
    policy = {"classes": {"network": {"max_delay": 1}}}

    field, message, remedy = told({"task_type": "x", "retry_policy": policy}, TaskRequest)

    assert field == "retry_policy.classes.network.max_delay"
    assert message == "is not a known field"
    assert remedy == "did you mean 'max_delay_s'?"


@pytest.mark.parametrize(
    ("sent", "type", "field"),
    [
        ({"labels": {"a": "1", "b.c": 2, "d": 3}}, NodeChangeRequest, "labels.b.c"),
        ({"labels": {str(n): n for n in range(1000)}}, NodeChangeRequest, "labels.*"),
        ({"labels": {"a" * 70_000: "1", "b": 2, "c" * 70_000: "1"}}, NodeChangeRequest, "labels.*"),
        ({"all": [{}, {"x": {"y": 1}, "z": {"y": 1, "w": "2"}}]}, Nested, "all[1].z.w"),
    ],
)
def test_an_entry_of_a_map_is_named_where_it_is_found(sent: Any, type: Any, field: str) -> None:
    assert told(sent, type)[0] == field


def test_without_the_json_an_entry_is_any() -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.json.decode(b'{"labels": {"a": 1}}', type=NodeChangeRequest)

    assert field_problem(refused.value, NodeChangeRequest).field == "labels.*"


@pytest.mark.parametrize(("sent", "is_wrong"), [("x", "an instant"), (True, "true or false")])
def test_an_instant_is_told_with_an_example(sent: Any, is_wrong: str) -> None:
    field, message, remedy = told({"since": sent}, Since)

    assert field == "since"
    assert is_wrong in message
    assert remedy == "send an instant such as 2026-11-18T08:00:00Z"


def test_a_key_is_told_only_the_roles_that_a_key_may_have() -> None:
    told_of = told({"name": "x", "role": "root"}, KeyRequest)

    assert told_of == (
        "role",
        "is not one of the possible values",
        "use one of viewer, operator, admin",
    )
