"""Paths lead into JSON, or nowhere."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.core.pages.json_path import MOST, parse, select

DOCUMENT = {"a": {"b": [{"c": 1}, {"c": 2}, {"d": 3}]}, "x y": [10, 20], "n": None}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("$", [DOCUMENT]),
        ("$.a.b[0].c", [1]),
        ("a.b[0].c", [1]),
        ("$.a.b[-1].d", [3]),
        ("$.a.b[*].c", [1, 2]),
        ("a.b.*.c", [1, 2]),
        ("$['x y'][1]", [20]),
        ('$["x y"].*', [10, 20]),
        ("$.a.*[0]", [{"c": 1}]),
        ("$.a.b[7]", []),
        ("$.a.b.c", []),
        ("$.nothing.at.all", []),
        ("$.n", [None]),
        ("$.n.m", []),
    ],
)
def test_a_path_leads_to_values(path: str, values: list[Any]) -> None:
    steps = parse(path)
    assert not isinstance(steps, str)
    assert select(DOCUMENT, steps) == values


@pytest.mark.parametrize("path", ["$.", "$[", "a..b", "a b", "$['x", "a[b]", "[1", "$.a]"])
def test_a_wrong_path_is_told(path: str) -> None:
    assert "cannot be read" in str(parse(path))


def test_a_path_takes_a_bounded_number_of_values() -> None:
    steps = parse("[*][*]")
    assert not isinstance(steps, str)
    assert len(select([[0] * 1000] * 1000, steps)) == MOST


@given(st.text(max_size=40), st.recursive(st.none() | st.integers(), st.lists, max_leaves=5))
def test_no_path_is_too_strange(path: str, value: Any) -> None:
    steps = parse(path)
    if not isinstance(steps, str):
        select(value, steps)
