"""Finds the interpreters that the fast tests are run with."""

import sys
from pathlib import Path

import pytest

from tests import pythons


def test_an_interpreter_tells_its_version() -> None:
    found = pythons.interpreter(sys.executable)
    assert found is not None
    assert found.version == sys.version_info[:3]


@pytest.mark.parametrize("text", ["exit 1", "echo '[3, 99, 0, false]'", "echo Python 3.99"])
def test_what_is_no_released_python_is_passed_over(text: str, tmp_path: Path) -> None:
    shim = tmp_path / "python3.99"
    shim.write_text(f"#!/bin/sh\n{text}\n")
    shim.chmod(0o755)
    assert pythons.interpreter(str(shim)) is None


def test_the_newest_of_each_other_minor_version_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = list(sys.version_info[:3])
    versions = ([3, 10, 9], own, [3, 98, 1], [3, 99, 0], [3, 99, 10], [3, 99, 9])
    for number, version in enumerate(versions):
        folder = tmp_path / "versions" / f"3.{number}" / "bin"
        folder.mkdir(parents=True)
        (folder / "python").write_text(f"#!/bin/sh\necho '{[*version, True]}' | sed s/T/t/\n")
        (folder / "python").chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr(pythons.os, "get_exec_path", list)
    assert [one.version for one in pythons.others()] == [(3, 98, 1), (3, 99, 10)]
