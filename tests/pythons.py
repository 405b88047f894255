"""Runs the fast tests on every other Python of this machine that crawlfleet is for.

    python tests/pythons.py [--newest] [arguments of pytest …]

Interpreters are those on the PATH and those of pyenv, from 3.11 on: the newest of each minor
version but that of `.venv`. Each gets the packages of `requirements.lock` in `.pythons/`.
`--newest` takes only the newest interpreter. Ends with 1 where tests fail, and with 0 where there
is no other Python.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
LOCK: Final = ROOT / "requirements.lock"
PROJECT: Final = ROOT / "pyproject.toml"
FAST: Final = ("-q", "-p", "no:schemathesis", "-p", "no:cacheprovider", "-m", "not slow")
LEAST: Final = (3, 11)
NAME: Final = re.compile(r"python3\.\d+")
ASK: Final = (
    "import json, sys; v = sys.version_info; print(json.dumps("
    "[*v[:3], v.releaselevel == 'final' and sys.implementation.name == 'cpython']))"
)
UV: Final = ROOT / ".venv" / "bin" / "uv"


class Interpreter(NamedTuple):
    """A Python, with its version first, so that the newest is the greatest."""

    version: tuple[int, ...]
    path: str

    @property
    def minor(self) -> str:
        return ".".join(map(str, self.version[:2]))


def candidates() -> Iterator[str]:
    """The programs that may be a Python."""
    for folder in os.get_exec_path():
        for path in sorted(Path(folder).glob("python3.*")):
            if NAME.fullmatch(path.name):
                yield str(path)
    pyenv = os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv")
    for path in sorted(Path(pyenv, "versions").glob("3.*/bin/python")):
        yield str(path)


def interpreter(path: str) -> Interpreter | None:
    """The interpreter behind a program, if it runs and is a released CPython."""
    try:
        done = subprocess.run(
            [path, "-c", ASK], capture_output=True, text=True, timeout=30, check=True
        )
        *version, usable = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None  # a shim of a version that is not there, for one
    return Interpreter(tuple(version), path) if usable else None


def others() -> list[Interpreter]:
    """One interpreter of each minor version but our own, the oldest first."""
    found: dict[str, Interpreter] = {}
    for each in map(interpreter, dict.fromkeys(candidates())):
        if each is not None and each.version >= LEAST and each.version[:2] != sys.version_info[:2]:
            found[each.minor] = max(each, found.get(each.minor, each))
    return sorted(found.values())


def prepare(one: Interpreter) -> Path:
    """The Python of an environment with all packages; made anew when the lock, or what the package
    says of itself, has changed."""
    folder = ROOT / ".pythons" / one.minor
    python, ready = folder / "bin" / "python", folder / "ready"
    state = f"{one.version} {LOCK.stat().st_mtime_ns} {PROJECT.stat().st_mtime_ns}"
    if ready.exists() and ready.read_text() == state:
        return python
    print(f"installing packages into {folder.relative_to(ROOT)}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    install = [UV, "pip", "install", "--quiet", "--python", python]
    for command in (
        [UV, "venv", "--quiet", "--python", one.path, folder],
        [*install, "--require-hashes", "-r", LOCK],
        [*install, "--no-deps", "--no-build-isolation", "-e", ROOT],
    ):
        subprocess.run(command, check=True, cwd=ROOT)
    ready.write_text(state)
    return python


def main(arguments: list[str]) -> int:
    only_newest = "--newest" in arguments
    arguments = [each for each in arguments if each != "--newest"]
    found = others()
    if not found:
        print("no other Python from 3.11 on is here")
        return 0
    failed = []
    for one in found[-1:] if only_newest else found:
        print(f"Python {'.'.join(map(str, one.version))} ({one.path})", flush=True)
        done = subprocess.run(
            [prepare(one), "-m", "pytest", *FAST, *arguments], cwd=ROOT, check=False
        )
        if done.returncode:
            failed.append(one.minor)
    if failed:
        print(f"failed on Python {' and '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
