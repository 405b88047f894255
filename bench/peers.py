"""Other people's programs beside which we are measured, each set in a venv of its own.

Nothing here is a dependency of crawlfleet: peers go below `.bench/`, in the versions that a
benchmark names. What cannot be had is a `Missing` with the reason, and is not measured.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / ".bench"
PLAIN_PYTHON: Final = ROOT / ".venv" / "bin" / "python"
"""Has crawlfleet as its sources are, not compiled."""


class Missing(Exception):
    """Something that a measurement needs cannot be had; the message says why."""


def prepare(venv: Path, packages: Sequence[str]) -> dict[str, str]:
    """Install the packages (`name==version`) if need be; their versions. Raises `Missing`."""
    wanted = venv / "packages.txt"
    text = "\n".join(packages) + "\n"
    if not (wanted.exists() and wanted.read_text() == text):
        _install(venv, packages)
        wanted.write_text(text)
    pairs = (package.split("==") for package in packages)
    return {name.partition("[")[0]: version for name, version in pairs}


def _install(venv: Path, packages: Sequence[str]) -> None:
    uv = Path(sys.executable).parent / "uv"
    found = str(uv) if uv.exists() else shutil.which("uv")
    if not found:
        raise Missing("`uv` is neither beside this Python nor on the path")
    environment = {**os.environ}
    if Path("/etc/ssl/certs/ca-certificates.crt").exists():
        environment.setdefault("UV_SYSTEM_CERTS", "1")
    into = ["--quiet", "--compile-bytecode", "--python", str(venv / "bin" / "python")]
    for command in (
        [found, "venv", "--quiet", "--clear", "--python", sys.executable, str(venv)],
        [found, "pip", "install", *into, *packages],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"`uv {command[1]}` failed: {done.stderr.strip()[-300:]}")
