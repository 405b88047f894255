import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.core.text.nesting import MAX_NESTING, brackets_too_deep, is_too_deep

DEEP = b"[" * MAX_NESTING + b"]" * MAX_NESTING


@pytest.mark.parametrize(
    ("json", "limit", "too_deep"),
    [
        (b"", 0, False),
        (b"1", 0, False),
        (b"[]", 0, True),
        (b"[[],[],{}]", 2, False),
        (b'[{"a":[]}]', 2, True),
        (b'["[[[["]', 1, False),
        (rb'["\"[[[["]', 1, False),
        (rb'["\\",[[]]]', 1, True),
        (rb'["\\\"",[[]]]', 2, True),
        (rb'["\\\"[[[","]"]', 1, False),
        (b"[" * 9, 8, True),
        (b"]" * 9 + b"[" * 9, 9, False),
    ],
)
def test_depth_is_counted_outside_strings(json: bytes, limit: int, too_deep: bool) -> None:
    assert is_too_deep(json, limit) is too_deep


def test_values_may_be_so_deep() -> None:
    assert not is_too_deep(DEEP)
    assert not brackets_too_deep(DEEP)
    assert is_too_deep(b"[" + DEEP + b"]")
    assert brackets_too_deep(b"[" + DEEP + b"]")


def depth_of(value: Any) -> int:
    match value:
        case dict():
            return 1 + max(map(depth_of, value.values()), default=0)
        case list():
            return 1 + max(map(depth_of, value), default=0)
        case _:
            return 0


@given(
    st.recursive(
        st.none() | st.text('"\\[]{}ab', max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('"\\{['), inner),
    )
)
def test_the_depth_of_a_text_is_that_of_its_value(value: Any) -> None:
    json, depth = msgspec.json.encode(value), depth_of(value)
    assert not is_too_deep(json, depth)
    assert not depth or is_too_deep(json, depth - 1)


@pytest.mark.parametrize("json", [b"[" * 2_000_000, b'"[' * 1_000_000, (DEEP + b",") * 5_000])
def test_no_text_takes_long(json: bytes) -> None:
    begun = time.process_time()
    is_too_deep(json)
    assert time.process_time() - begun < 2.0
