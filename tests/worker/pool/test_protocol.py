from itertools import pairwise
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.model.task import ErrorClass
from crawlfleet.worker.pool import protocol
from crawlfleet.worker.pool.results import attempt_of

line = st.binary(max_size=40).filter(lambda text: b"\n" not in text)


@given(st.lists(line), st.lists(st.integers(min_value=0, max_value=400)))
def test_lines_come_whole_however_the_bytes_arrive(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    reader = protocol.Lines(limit=40)

    received = [line for begin, end in pairwise(places) for line in reader.feed(stream[begin:end])]

    assert received == lines


def test_a_line_that_gets_too_long_is_not_read_to_its_end() -> None:
    reader = protocol.Lines(limit=10)
    reader.feed(b"12345\n12345")

    with pytest.raises(protocol.LineTooLong, match="10 bytes"):
        reader.feed(b"678901")


def test_a_message_is_one_line_that_begins_with_its_type() -> None:
    start = protocol.Start(
        execution_id="exec-1",
        task_id="task-1",
        attempt=1,
        task_type="sleep",
        parameters=msgspec.Raw(b'{\n"a": "b\\n"}'),
    )

    encoded = protocol.encode(start)

    assert encoded.startswith(b'{"type":"start","execution_id":"exec-1",')
    assert encoded.count(b"\n") == 1
    decoded = protocol.decode_order(encoded)
    assert msgspec.json.decode(decoded.parameters) == {"a": "b\n"}


@pytest.mark.parametrize("parameters", [b'{"a":1}', b'{\n  "a": 1\n}'])
def test_several_messages_are_as_many_lines(parameters: bytes) -> None:
    orders = [
        protocol.Start(
            execution_id=f"exec-{number}",
            task_id="task-1",
            attempt=1,
            task_type="work",
            parameters=msgspec.Raw(parameters),
        )
        for number in range(3)
    ]
    assert protocol.encode_all(orders) == b"".join(protocol.encode(order) for order in orders)


def test_one_that_is_too_long_among_others_is_seen() -> None:
    reader = protocol.Lines(limit=10)
    assert reader.feed(b"0123456789\n0123456789\n") == [b"0123456789"] * 2
    with pytest.raises(protocol.LineTooLong):
        reader.feed(b"short\n01234567890\nshort\n")


def test_a_log_line_without_a_level_is_understood() -> None:
    line = b'{"type":"log","execution_id":"e","message":"m"}'

    assert protocol.decode_reply(line) == protocol.Log(execution_id="e", message="m", level="info")


def test_fields_from_the_future_are_ignored() -> None:
    reply = protocol.decode_reply(b'{"type":"error","execution_id":"e","message":"m","mood":"bad"}')

    assert reply == protocol.Error(execution_id="e", message="m", error_class=ErrorClass.ERROR)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"hello",
        b"[]",
        b'{"type":"sing"}',
        b'{"type":"result"}',
        b'{"type":"start","execution_id":"e"}',
        b'{"type":"error","execution_id":"e","message":"m","error_class":"odd"}',
        b'{"type":"result","execution_id":"e","data":"\xff"}',
    ],
)
def test_what_is_no_reply_is_refused_with_its_beginning(text: bytes) -> None:
    with pytest.raises(protocol.Malformed) as caught:
        protocol.decode_reply(text)

    assert repr(text) in str(caught.value)


def test_the_documented_conversation_is_the_protocol() -> None:
    page = Path(__file__).parents[3] / "docs/reference/executor-protocol.md"
    lines = page.read_text().splitlines()
    orders = [line[2:].encode() for line in lines if line.startswith("→ ")]
    replies = [line[2:].encode() for line in lines if line.startswith("← ")]

    assert {type(protocol.decode_order(order)) for order in orders} == set(
        get_args(protocol.AnyOrder)
    )
    assert {type(protocol.decode_reply(reply)) for reply in replies} == set(
        get_args(protocol.AnyReply)
    )
    for order in orders:
        assert protocol.encode(protocol.decode_order(order)) == order + b"\n"


def test_a_reply_that_nests_too_deep_is_refused() -> None:
    deep = b'{"type":"result","execution_id":"e","data":%s}'
    reply = protocol.decode_reply(deep % (b"[" * 200 + b"]" * 200))
    assert isinstance(reply, protocol.Result)
    assert attempt_of(reply, 1.0).error is None
    reply = protocol.decode_reply(deep % (b"[" * 201 + b"]" * 201))
    assert isinstance(reply, protocol.Result)
    error = attempt_of(reply, 1.0).error
    assert error is not None
    assert "200 lists" in error.message
    with pytest.raises(protocol.Malformed, match="200 lists"):
        protocol.decode_reply(deep % (b"[" * 500 + b"]" * 500))
