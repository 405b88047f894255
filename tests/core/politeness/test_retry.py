import pytest

from crawlfleet.core.politeness.retry import (
    MAX_WAIT_S,
    GiveUpUrl,
    RetryUrl,
    decide,
    retry_after_s,
    supersedes,
)
from crawlfleet.model.crawl.parameters import Outcome, Politeness

NOW = 1_800_000_000.0


def verdict(outcome: Outcome, status: int = 0, attempt: int = 1, **more):
    politeness = more.pop("politeness", Politeness())
    more = {"retry_after_s": None, "now": NOW, "chance": 0.5} | more
    return decide(outcome, status, attempt, politeness, **more)


@pytest.mark.parametrize(
    ("outcome", "status", "again"),
    [
        (Outcome.DNS, 0, True),
        (Outcome.CONNECT, 0, True),
        (Outcome.TLS, 0, True),
        (Outcome.TIMEOUT, 0, True),
        (Outcome.BAD_RESPONSE, 200, True),
        (Outcome.SERVER_ERROR, 500, True),
        (Outcome.SERVER_ERROR, 503, True),
        (Outcome.SERVER_ERROR, 501, False),
        (Outcome.PAYMENT_REQUIRED, 402, False),
        (Outcome.BLOCKED, 429, True),
        (Outcome.BLOCKED, 403, False),
        (Outcome.CLIENT_ERROR, 404, False),
        (Outcome.CLIENT_ERROR, 408, True),
        (Outcome.ROBOTS, 0, False),
        (Outcome.REFUSED, 0, False),
        (Outcome.TOO_LARGE, 200, False),
        (Outcome.BAD_CONTENT, 200, False),
        (Outcome.UNWANTED, 200, False),
        (Outcome.REDIRECT_LOOP, 302, False),
        (Outcome.OK, 200, False),
    ],
)
def test_only_what_may_pass_is_tried_again(outcome: Outcome, status: int, again: bool) -> None:
    assert isinstance(verdict(outcome, status), RetryUrl if again else GiveUpUrl)


def test_who_cannot_be_reached_or_wants_to_be_paid_keeps_what_was_there() -> None:
    standing = {outcome for outcome in Outcome if not supersedes(outcome)}

    assert standing == {
        *(Outcome.DNS, Outcome.CONNECT, Outcome.TLS, Outcome.TIMEOUT, Outcome.BAD_RESPONSE),
        *(Outcome.SERVER_ERROR, Outcome.BLOCKED, Outcome.PAYMENT_REQUIRED),
        *(Outcome.ROBOTS, Outcome.REFUSED, Outcome.NOT_MODIFIED),
    }


def test_waits_double_and_end() -> None:
    waits = [verdict(Outcome.TIMEOUT, attempt=attempt).due - NOW for attempt in (1, 2, 3)]

    assert waits == [5.0, 10.0, 20.0]
    last = verdict(Outcome.TIMEOUT, attempt=4)
    assert last == GiveUpUrl("failed 4 times (politeness.retries 3)")


def test_chance_spreads_the_waits() -> None:
    assert verdict(Outcome.TIMEOUT, chance=0.0).due - NOW == 3.75
    assert verdict(Outcome.TIMEOUT, chance=0.9999).due - NOW == pytest.approx(6.25, abs=0.01)


def test_waits_are_bounded_but_a_site_may_ask_for_more() -> None:
    patient = Politeness(retries=100)

    assert verdict(Outcome.TIMEOUT, attempt=99, politeness=patient).due - NOW == MAX_WAIT_S
    asked = verdict(Outcome.BLOCKED, 429, retry_after_s=7200.0)
    assert asked.due - NOW == 7200.0
    assert "Retry-After 7200 s" in asked.reason
    assert verdict(Outcome.BLOCKED, 429, retry_after_s=1e9).due - NOW == 86_400.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("120", 120.0),
        (" 0 ", 0.0),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("²", None),
        ("9" * 400, 999_999_999_999.0),
        ("Fri, 15 Jan 2027 08:01:00 GMT", 60.0),
        ("Fri, 15 Jan 2027 07:59:00 GMT", 0.0),
        ("Fri, 99 Jan 2027 08:01:00 GMT", None),
        ("Fri, 15 Jan 99999 08:01:00 GMT", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, NOW) == seconds
