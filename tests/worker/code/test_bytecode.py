"""What is taken over of all that a compiler in a cell may have left."""

import os
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from crawlfleet.worker.code.bytecode import OUTPUT, _put_in_place


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Of an environment, with a folder for the output beside it."""
    code = tmp_path / "environment" / "code"
    (code / "inner").mkdir(parents=True)
    for name in ("tool.py", "inner/part.py"):
        (code / name).write_text("ANSWER = 42")
    (tmp_path / "environment" / OUTPUT).mkdir()
    return code


def output_of(code: Path) -> Path:
    return code.parent / OUTPUT


def made_for(code: Path) -> Path:
    """Where the compiler puts what it makes of the code."""
    return Path(f"{output_of(code)}{code}")


def compiled(code: Path) -> list[str]:
    _put_in_place(output_of(code), (code,))
    return sorted(str(path.relative_to(code)) for path in code.rglob("*.pyc"))


def pyc(code: Path, name: str) -> str:
    return str(Path(cache_from_source(str(code / name))).relative_to(code))


def test_bytecode_is_put_beside_its_sources(sources: Path) -> None:
    for name in ("tool.py", "inner/part.py", "stranger.py", "inner/note.txt"):
        file = made_for(sources) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"bytecode")
        file.chmod(0o600)
    assert compiled(sources) == sorted([pyc(sources, "tool.py"), pyc(sources, "inner/part.py")])
    assert (sources / pyc(sources, "tool.py")).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("planted", ["inner", ""])
def test_no_folder_is_looked_for_behind_a_link(sources: Path, tmp_path: Path, planted: str) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "inner").mkdir(parents=True)
    for name in ("tool.py", "part.py", "inner/part.py"):
        (theirs / name).write_text("not the cell's")
        (theirs / name).chmod(0o600)
    link = made_for(sources) / planted
    link.parent.mkdir(parents=True)
    link.symlink_to(theirs)
    assert compiled(sources) == []
    assert {path.stat().st_mode & 0o777 for path in theirs.rglob("*.py")} == {0o600}


def test_only_plain_files_of_the_cells_own_are_taken(sources: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("not the cell's")
    theirs.chmod(0o600)
    made = made_for(sources)
    (made / "inner").mkdir(parents=True)
    os.link(theirs, made / "tool.py")
    os.mkfifo(made / "inner" / "part.py")
    assert compiled(sources) == []
    assert theirs.stat().st_mode & 0o777 == 0o600
    (made / "tool.py").unlink()
    (made / "tool.py").symlink_to(theirs)
    assert compiled(sources) == []


def test_nothing_is_put_behind_a_link_among_the_sources(sources: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (sources / "__pycache__").symlink_to(tmp_path / "theirs")
    made_for(sources).mkdir(parents=True)
    (made_for(sources) / "tool.py").write_bytes(b"bytecode")
    assert compiled(sources) == []
    assert list((tmp_path / "theirs").iterdir()) == []
