"""Bytecode of environments, compiled in a cell of the highest level that this machine has."""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from crawlfleet.model.bundle import BundleRef
from crawlfleet.worker.code.bytecode import OUTPUT, Bytecode
from crawlfleet.worker.code.environments import Environment, Environments
from tests.code_archives import packed
from tests.support.cells import offer_of, sandbox_in

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="Linux only")]

ARCHIVE = packed({"tool.py": "ANSWER = 42", "broken.py": "def ("})
REF = BundleRef(name="tools", number=1, digest=hashlib.sha256(ARCHIVE).hexdigest())
SEE = """
import json, sys
sys.path[:0] = sys.argv[1:]
import part, tool
print(json.dumps(tool.ANSWER))
"""


async def install(requirements: Sequence[str], venv: str, tell: Callable[[str], None]) -> None:
    fill(venv)


def fill(venv: str) -> None:
    """A package, and lines that would run with every start of the environment's Python."""
    packages = Path(venv, "lib", "python3", "site-packages")
    packages.mkdir(parents=True)
    (packages / "part.py").write_text("PART = 1")
    (packages / "evil.pth").write_text(f"import os; open({str(packages / 'seen')!r}, 'w')\n")
    (Path(venv) / "bin").mkdir()


async def fetch() -> bytes:
    return ARCHIVE


def test_it_is_made_once_and_is_found_by_those_who_run_the_code(tmp_path: Path) -> None:
    async def scenario() -> Environment:
        async with sandbox_in(tmp_path / "sandbox", offer_of()) as sandbox:
            environments = Environments(
                tmp_path / "environments",
                install=install,
                most_bytes=10**9,
                compile=Bytecode(sandbox),
            )
            async with environments.borrowed(REF, fetch, print) as found:
                return found

    found = asyncio.run(scenario())
    packages = found.folder / "venv" / "lib" / "python3" / "site-packages"
    compiled = sorted(path.name.partition(".")[0] for path in found.folder.rglob("*.pyc"))
    assert compiled == ["part", "tool"]
    assert not (packages / "seen").exists()
    assert {path.lstat().st_uid for path in found.folder.rglob("*")} == {os.geteuid()}
    assert not (found.folder / OUTPUT).exists()
    (found.code / "tool.py").write_text("ANSWER = 43")
    told = subprocess.run(
        [sys.executable, "-I", "-c", SEE, str(found.code), str(packages)],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert json.loads(told.stdout) == 42, "the source is not looked at again"
