"""What people type, into values."""

from pathlib import Path
from typing import Any

import pytest
import typer

from crawlfleet.cli.shell.arguments import (
    parse_amounts,
    parse_expectations,
    parse_pairs,
    parse_parameters,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("seconds=1", 1),
        ("share=0.5", 0.5),
        ("on=true", True),
        ("nothing=null", None),
        ("urls=[1,2]", [1, 2]),
        ("url=https://example.org/?a=b", "https://example.org/?a=b"),
        ("name=Ada", "Ada"),
        ("number=007", "007"),
        ('quoted="5"', "5"),
        ("empty=", ""),
        ("broken={", "{"),
    ],
)
def test_a_value_is_json_if_it_can_be_else_text(text: str, value: Any) -> None:
    assert list(parse_pairs([text], "-p").values()) == [value]


@pytest.mark.parametrize("text", ["seconds", "=1", " =1"])
def test_what_is_no_pair_is_a_usage_error(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="KEY=VALUE"):
        parse_pairs([text], "-p")


def test_amounts_are_numbers() -> None:
    assert parse_amounts(["cpu_cores=2", "memory_mb=0.5"], "--min") == {
        "cpu_cores": 2,
        "memory_mb": 0.5,
    }
    for text in ("cpu_cores=many", "cpu_cores=true"):
        with pytest.raises(typer.BadParameter, match="not a number"):
            parse_amounts([text], "--min")


def test_pairs_go_over_the_object_they_are_given_with(tmp_path: Path) -> None:
    file = tmp_path / "parameters.json"
    file.write_text('{"url": "a", "depth": 1}')
    assert parse_parameters(f"@{file}", ["depth=2"]) == {"url": "a", "depth": 2}
    assert parse_parameters('{"url": "b"}', None) == {"url": "b"}
    assert parse_parameters(None, None) == {}


@pytest.mark.parametrize("source", ["[1]", "{", "@/nowhere/at/all.json"])
def test_parameters_that_are_no_object_are_a_usage_error(source: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_parameters(source, None)


def test_expectations_are_json_or_a_file_of_yaml(tmp_path: Path) -> None:
    file = tmp_path / "expected.yaml"
    file.write_text("items: {min: 3}\non_drift: hold\n")
    assert parse_expectations(None) is None
    assert parse_expectations('{"items": {"min": 3}}') == {"items": {"min": 3}}
    assert parse_expectations(f"@{file}") == {"items": {"min": 3}, "on_drift": "hold"}
    file.write_text("- 1")
    for wrong in ("[1]", f"@{file}", f"@{tmp_path}/none.yaml"):
        with pytest.raises(typer.BadParameter):
            parse_expectations(wrong)
