"""What is sent becomes what was meant, or a "no" that says what to send."""

from datetime import UTC, datetime

import pytest

from crawlfleet.api.http.decoding import decode_body, decode_query
from crawlfleet.api.http.problems import MalformedBody
from crawlfleet.api.routes.audit import AuditQuery
from crawlfleet.errors import InvalidRequest
from crawlfleet.model.requests import TaskRequest


def test_a_bare_date_is_the_beginning_of_that_day() -> None:
    pairs = [("since", "2026-11-18"), ("until", "2026-11-18T08:00:00Z"), ("actor", "2026-11-18")]

    query = decode_query(pairs, AuditQuery)

    assert query.since == datetime(2026, 11, 18, tzinfo=UTC)
    assert query.until == datetime(2026, 11, 18, 8, tzinfo=UTC)
    assert query.actor == "2026-11-18"


@pytest.mark.parametrize("since", ["x", "2026-11-31", "2026-13-01", "18.11.2026", ""])
def test_what_is_no_instant_is_told_with_an_example(since: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decode_query([("since", since)], AuditQuery)

    (problem,) = refused.value.problems
    assert problem.field == "since"
    assert problem.remedy == "send an instant such as 2026-11-18T08:00:00Z"


@pytest.mark.parametrize(
    "text", [r"\ud800", r"\\\ud800", r"\udc00", r"\ud800abcdefgh", r"\ud800A", r"\uD83D\uD83D"]
)
def test_half_a_surrogate_pair_is_told_as_such(text: str) -> None:
    with pytest.raises(MalformedBody, match="not valid Unicode"):
        decode_body(b'{"task_type": "%s"}' % text.encode(), TaskRequest)


@pytest.mark.parametrize("text", [r"\ud83d\ude00", r"\\ud800", "plain"])
def test_what_is_only_truncated_is_told_as_not_valid_json(text: str) -> None:
    with pytest.raises(MalformedBody, match="not valid JSON"):
        decode_body(b'{"task_type": "%s' % text.encode(), TaskRequest)
