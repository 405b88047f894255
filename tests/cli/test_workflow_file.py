"""Workflow documents in files."""

from pathlib import Path

import pytest
import typer

from crawlfleet.cli.shell.workflow_file import read_yaml


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_a_file_that_nests_without_end_is_refused(opening: str, tmp_path: Path) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text(opening * 20_000)
    with pytest.raises(typer.BadParameter, match="too deep"):
        read_yaml(str(path))


def test_values_may_lie_within_each_other(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text("[" * 100 + "]" * 100 + "\n")
    assert str(read_yaml(str(path))) == "[" * 100 + "]" * 100
