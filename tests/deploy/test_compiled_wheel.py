"""A compiled wheel behaves as the sources do; nothing is compiled unless that is asked for."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.build import get_requires_for_build_wheel

from tests.compiled_modules import FILES, ROOT

MODULES = [each.removeprefix("src/").removesuffix(".py").replace("/", ".") for each in FILES]
SUITES = ("tests/core/pages", "tests/core/urls", "tests/crawl", "tests/adapters/frontier")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("compiled wheel")]


def build(into: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel installs."""
    folder = tmp_path_factory.mktemp("compiled")
    done = build(folder / "wheels", CRAWLFLEET_COMPILE="always")
    assert done.returncode == 0, done.stderr
    (wheel,) = (folder / "wheels").glob("*.whl")
    assert "-none-any" not in wheel.name, "it is for this machine"
    zipfile.ZipFile(wheel).extractall(folder / "installed")
    return folder / "installed"


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With the installed package in place of the sources, here and in all that this starts."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.mark.timeout(900)
def test_the_listed_modules_are_compiled(installed: Path) -> None:
    program = "import importlib, sys\nfor name in sys.argv[1:]:\n"
    program += "    print(name, importlib.import_module(name).__file__)"
    done = run(installed, "-c", program, *MODULES)
    assert done.returncode == 0, done.stderr
    files = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert sorted(files) == sorted(MODULES)
    for file in files.values():
        assert file.startswith(str(installed))
        assert file.endswith(".so")
    assert run(installed, "-m", "crawlfleet", "--version").stdout.endswith(" (compiled)\n")


@pytest.mark.timeout(1200)
def test_the_fast_tests_pass_with_compiled_modules(installed: Path) -> None:
    done = run(
        installed,
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-n", "2"),
        *("-m", "not slow and not interpreted", *SUITES),
    )
    assert done.returncode == 0, done.stdout[-10_000:]


def test_nothing_is_compiled_unless_asked_for(tmp_path: Path) -> None:
    done = build(tmp_path, CC="/nowhere/cc")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]


@pytest.mark.parametrize(("wish", "expected"), [(None, False), ("never", False), ("always", True)])
def test_only_a_compiled_wheel_needs_a_compilers_packages(
    wish: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("CRAWLFLEET_COMPILE", raising=False)
    if wish:
        monkeypatch.setenv("CRAWLFLEET_COMPILE", wish)
    needed = get_requires_for_build_wheel()
    assert any(each.startswith("mypy") for each in needed) is expected
    assert any(each.startswith("setuptools") for each in needed) is expected


@pytest.mark.parametrize(
    ("wish", "message"), [("always", "no C compiler"), ("perhaps", "write always or never")]
)
def test_a_wish_that_cannot_be_fulfilled_is_an_error(
    tmp_path: Path, wish: str, message: str
) -> None:
    done = build(tmp_path, PATH="/nowhere", CC="cc", CRAWLFLEET_COMPILE=wish)
    assert done.returncode != 0
    assert message in done.stderr
    assert not [*tmp_path.iterdir()]
