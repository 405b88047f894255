"""The guides for contributors name modules that exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "crawlfleet"
PAGES = sorted((ROOT / "docs" / "contributing").glob("*.md"))
CODE = re.compile(r"`([^`\n]+)`")
NAMED = re.compile(r"[\w.-]+(?:/[\w.-]+)+")
MODULE = re.compile(r"crawlfleet(?:\.\w+)+")


def _named(page: Path) -> Iterator[str]:
    """The paths and dotted modules that a page names in code."""
    for code in CODE.findall(page.read_text("utf-8")):
        if NAMED.fullmatch(code) or MODULE.fullmatch(code):
            yield code


def _exists(name: str) -> bool:
    if "/" in name:
        return (ROOT / name).exists() or (PACKAGE / name).exists()
    path = ROOT / "src" / name.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    # A class or function of a module, or a group of entry points.
    module, _, member = name.rpartition(".")
    file = ROOT / "src" / f"{module.replace('.', '/')}.py"
    if file.exists():
        defined = re.compile(rf"^(?:class|def|async def) {member}\b", re.MULTILINE)
        return defined.search(file.read_text("utf-8")) is not None
    return f'"{name}"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_there_are_guides_for_contributors() -> None:
    assert len(PAGES) >= 4
    assert sum(len(list(_named(page))) for page in PAGES) > 100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_module_that_a_guide_names_exists(page: Path) -> None:
    assert [name for name in _named(page) if not _exists(name)] == []


@pytest.mark.parametrize(
    "name",
    ["src/crawlfleet/no/such.py", "control/leases/no_such.py", "crawlfleet.core.no_such.thing"],
)
def test_a_module_that_is_not_there_is_noticed(name: str) -> None:
    assert not _exists(name)
