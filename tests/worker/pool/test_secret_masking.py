"""What is told of an execution does not hold its secrets, in whatever form they were printed."""

import base64
import json
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.model.log import LogLevel
from crawlfleet.model.task import ErrorClass, TaskError
from crawlfleet.model.wire.node_protocol import OrderAnswer
from crawlfleet.ports.execution import Attempt
from crawlfleet.worker.pool.secret_masking import MaskingObserver, SecretMask

VALUE = 'pa"ss wörd/\\1+2'
KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nshort\n-----END KEY-----\n"
MASK = SecretMask({"PASSWORD": VALUE, "KEY": KEY})


@pytest.mark.parametrize(
    "text",
    [
        VALUE,
        f"login with {VALUE}, then again {VALUE}",
        json.dumps({"password": VALUE}),
        json.dumps({"password": VALUE}, ensure_ascii=False),
        repr(VALUE),
        repr(VALUE.encode()),
        f"https://ann:{quote(VALUE, safe='')}@shop.example/",
        f"https://shop.example/?p={quote_plus(VALUE)}",
        *(
            f"Authorization: Basic {base64.b64encode(f'{user}:{VALUE}'.encode()).decode()}"
            for user in ("a", "an", "ann", "anna")
        ),
        base64.urlsafe_b64encode(VALUE.encode()).decode(),
    ],
)
def test_a_value_is_masked_in_all_forms_that_programs_print(text: str) -> None:
    masked = MASK.text(text)
    assert "[secret PASSWORD]" in masked
    for form in ("ss w", "rd/", "1+2", quote("ss wö"), "ss+w"):
        assert form not in masked


def test_the_lines_of_a_value_are_masked_one_by_one() -> None:
    assert MASK.text("MIIEvQIBADANBgkqhkiG9w0") == "[secret KEY]"
    assert MASK.text("short") == "short"
    assert "MIIE" not in MASK.text(f"key:\n{KEY}")


def test_what_was_cut_is_masked_where_it_was_cut() -> None:
    long = SecretMask({"LONG": "".join(f"{number:04}-" for number in range(1000))})
    value = "".join(f"{number:04}-" for number in range(1000))
    for text in (f"it is {value[:2000]}", f"{value[-1000:]} it was", value[1000:3000]):
        masked = long.text(text)
        assert "[secret LONG]" in masked
        assert "1001" not in masked.replace("[secret LONG]", "")
        assert len(masked) < 30
    assert long.text("nothing of it") == "nothing of it"


def test_how_an_attempt_ended_is_masked() -> None:
    found = {"output": [f"said {VALUE}", 1, None], VALUE: 1.5}
    attempt = Attempt(data=msgspec.Raw(msgspec.json.encode(found)), metrics={"items": 1.0})
    masked = MASK.attempt(attempt)
    assert msgspec.json.decode(masked.data or b"") == {
        "output": ["said [secret PASSWORD]", 1, None],
        "[secret PASSWORD]": 1.5,
    }
    assert masked.metrics == {"items": 1.0}
    error = TaskError(error_class=ErrorClass.ERROR, message=f"no {VALUE}", details=f"at {VALUE}")
    told = MASK.attempt(Attempt(error=error)).error
    assert told is not None
    assert (told.message, told.details) == ("no [secret PASSWORD]", "at [secret PASSWORD]")


@pytest.mark.parametrize("data", [b"[" * 500 + b"]" * 500, b"1e999"])
def test_a_result_that_cannot_be_searched_is_a_failure_that_says_so(data: bytes) -> None:
    masked = MASK.attempt(Attempt(data=msgspec.Raw(data), metrics={"items": 1.0}))
    assert masked.data is None
    assert masked.metrics == {"items": 1.0}
    assert masked.error is not None
    assert masked.error.error_class is ErrorClass.ERROR
    assert masked.error.message.startswith("the result cannot be searched for secrets: ")


def test_what_cannot_be_searched_is_left_out_of_all_else_that_is_told() -> None:
    observer = Mock()
    discreet = MaskingObserver(observer, MASK)
    deep: Any = VALUE
    for _ in range(500):
        deep = [deep]
    discreet.log("x", LogLevel.INFO, {"deep": deep})
    discreet.figures({"deep": deep})
    discreet.answer(OrderAnswer(number=1, data=msgspec.Raw(b"1e999")))
    assert "left_out" in observer.log.call_args.args[2]
    observer.figures.assert_not_called()
    (answer,) = observer.answer.call_args.args
    assert bytes(answer.data) == b"null"
    assert "cannot be searched" in answer.error


def test_what_holds_no_secret_stays_as_it_is() -> None:
    data = msgspec.Raw(b'{"a": [1, "x",  2.50]}')
    assert MASK.raw(data) is data
    value: dict[str, Any] = {"a": [1, "x", None, True], "b": {"c": 2.5}}
    assert MASK.value(value) == value


@settings(deadline=None)
@given(
    value=st.text(min_size=8, max_size=60).filter(lambda text: text.strip() == text),
    before=st.text(max_size=40),
    after=st.text(max_size=40),
)
def test_no_text_has_a_value_in_it_afterwards(value: str, before: str, after: str) -> None:
    masked = SecretMask({"S": value}).text(f"{before}{value}{after}")
    assert value not in masked.replace("[secret S]", "\0")
