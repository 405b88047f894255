"""The two locks: all that this tree is worked on with, and what a fleet runs on."""

import re
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
ALL, RUN = "requirements.lock", "requirements-run.lock"
DOCUMENT: Any = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = DOCUMENT["project"]["optional-dependencies"]


HASHED = re.compile(r"^([a-z0-9.-]+)==([^\s;]+) (?:; .+ )?\\\n +--hash=", re.MULTILINE)


def locked(name: str) -> dict[str, set[str]]:
    """The versions of each package: of some there is one for older Pythons, too."""
    found: dict[str, set[str]] = {}
    for package, version in HASHED.findall((ROOT / name).read_text("utf-8")):
        found.setdefault(package, set()).add(version)
    return found


def named(*lists: list[str]) -> dict[str, Requirement]:
    """What lists of dependencies ask for, by name."""
    asked = [Requirement(line) for lines in lists for line in lines]
    return {canonicalize_name(each.name): each for each in asked}


def test_what_a_fleet_runs_on_is_what_the_tests_ran_on() -> None:
    every, run = locked(ALL), locked(RUN)
    assert run
    assert {name: every.get(name) for name in run} == run
    lines = re.findall(r"^[^\s#]", (ROOT / RUN).read_text("utf-8"), re.MULTILINE)
    assert len(lines) == sum(map(len, run.values())), "a package has no hash"


def test_a_fleet_runs_on_what_the_package_asks_for() -> None:
    wanted = named(DOCUMENT["project"]["dependencies"], *EXTRAS.values())
    del wanted["crawlfleet"]
    run = locked(RUN)
    wrong = {
        name: run.get(name)
        for name, requirement in wanted.items()
        if name not in run or not all(map(requirement.specifier.contains, run[name]))
    }
    assert not wrong, "run `make lock`"


def test_a_fleet_runs_without_the_tools_of_its_developers() -> None:
    tools = named(DOCUMENT["dependency-groups"]["dev"])
    assert tools.keys() <= locked(ALL).keys()
    assert not tools.keys() & locked(RUN).keys()


def test_the_image_holds_what_was_locked() -> None:
    text = (ROOT / "deploy/docker/Dockerfile").read_text("utf-8").replace("\\\n", " ")
    into = re.findall(r"/opt/crawlfleet/bin/pip install ([^&\n]+)", text)
    assert [line.split()[1:] for line in into] == [
        ["--require-hashes", "-r", RUN],
        ["--no-deps", "/wheel/*.whl"],
    ]
