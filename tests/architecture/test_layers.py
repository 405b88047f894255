"""The shape of the code itself: imports, names, sizes, and what must not be committed."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "crawlfleet"
MODULES = sorted(SOURCE.rglob("*.py"))
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "base", "stuff", "tools"}
REGISTRY_HOST = re.compile(
    r"(pypi|pythonhosted|npmjs|npmmirror|debian|tuna|aliyun)\.(org|com|cn|net|io)\b|/simple/\b"
    r"|--(extra-)?index-url|--find-links",
    re.IGNORECASE,
)
"""Where packages come from is a matter of the machine, not of this tree."""
MAKES_LOCK = "--no-emit-index-url"


def committed_texts() -> list[Path]:
    """The files that are, or are about to be, under version control, and are text."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git work tree")
    listing = subprocess.run(
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=30,
    )
    paths = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()[:4096]]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.slow  # `make check` asks for it by itself
def test_imports_follow_the_layers() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run(
        [lint, "--no-logo", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = [m for m in MODULES if VAGUE_NAMES & {m.stem, m.parent.name}]
    assert not vague, [relative(m) for m in vague]


def test_every_module_says_what_it_is_for() -> None:
    silent = [m for m in MODULES if not ast.get_docstring(ast.parse(m.read_text("utf-8")))]
    assert not silent, [relative(m) for m in silent]


def test_nothing_is_left_for_later_in_the_code() -> None:
    marker = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    code = [path for path in committed_texts() if path.suffix in {".py", ".sh", ".sql", ".mako"}]
    assert not [relative(path) for path in code if marker.search(path.read_text("utf-8"))]


def test_no_registry_is_named_in_a_committed_file() -> None:
    named = {}
    for path in committed_texts():
        if path == Path(__file__).resolve():
            continue
        text = path.read_text("utf-8", errors="replace").replace(MAKES_LOCK, "")
        if found := REGISTRY_HOST.search(text):
            named[relative(path)] = found[0]
    assert not named
