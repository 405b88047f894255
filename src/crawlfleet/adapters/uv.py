"""Packages for a bundle, installed by uv into a virtual environment of its own.

Only wheels are installed, and the environment's Python is not started once a package is in it: a
package may bring lines that run whenever that Python starts (`.pth`), and outside of a cell they
would run with the agent's rights. So uv compiles nothing ahead either, as it has that Python do it:
a cell does, later.
uv is given the list of packages and nothing else of the bundle, so that no option in it can point
elsewhere; where packages come from is what the machine is set up for.
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.installer import InstallFailed

PASSED_ON: Final = re.compile(
    r"PATH|HOME|LANG|LC_\w+|TMPDIR|TZ|NETRC|XDG_\w+|SSL_CERT_\w+|UV_\w+"
    r"|(?:https?|all|no)_proxy",
    re.IGNORECASE,
)
"""Environment variables that uv needs; no token or setting of crawlfleet."""
LINES_TOLD: Final = 200
TAIL_LINES: Final = 40
_UNREACHABLE: Final = re.compile(
    r"error sending request|failed to fetch|connect(ion)? error|timed out|timeout|dns error|"
    r"client error \(connect\)|temporary failure|operation was interrupted|50[0234] ",
    re.IGNORECASE,
)
_WRONG: Final = re.compile(
    r"no solution found|not found in the package registry|no matching distribution|"
    r"has no wheels|no usable wheels|building source distributions is disabled|"
    r"failed to parse|couldn't parse|requires-python|hash(es)? mismatch|invalid|unsatisfiable",
    re.IGNORECASE,
)


def find_uv() -> str | None:
    """The program, beside this Python or on the path."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.is_file() else shutil.which("uv")


Leash = Callable[[Sequence[str]], Sequence[str]]
"""A command line as one that dies with this process."""


class UvInstall:
    """Implements `crawlfleet.ports.installer.Install`."""

    def __init__(self, *, uv: str | None, timeout_s: float, leash: Leash = tuple) -> None:
        self._uv = uv
        self._timeout_s = timeout_s
        self._leash = leash

    async def __call__(
        self, requirements: Sequence[str], venv: str, tell: Callable[[str], None]
    ) -> None:
        if self._uv is None:
            raise InstallFailed(
                "there is no `uv` on this node; install it (`pip install 'crawlfleet[bundles]'`)",
                ErrorClass.ERROR,
            )
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._make(self._uv, requirements, Path(venv), tell)
        except TimeoutError:
            raise InstallFailed(
                f"it took longer than {self._timeout_s:g} s (`worker.install_timeout_s`)",
                ErrorClass.NETWORK,
            ) from None

    async def _make(
        self, uv: str, requirements: Sequence[str], venv: Path, tell: Callable[[str], None]
    ) -> None:
        # Relocatable, since it is made under another name than it has later.
        made = (uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, str(venv))
        await _run(self._leash(made), venv.parent, tell)
        if not requirements:
            return
        wanted = venv.parent / "requirements.txt"
        wanted.write_text("".join(f"{each}\n" for each in requirements))
        tell(f"installing {', '.join(requirements)}"[:500])
        installed = (
            *(uv, "pip", "install", "--python", str(venv / "bin" / "python")),
            # Copies: whoever spoils a file spoils nobody else's.
            *("--no-build", "--link-mode", "copy", "--no-progress"),
            # Also where a `uv.toml` of the machine says otherwise.
            "--no-compile-bytecode",
            *("--color", "never", "-r", str(wanted)),
        )
        await _run(self._leash(installed), venv.parent, tell)


def variables(parent: Mapping[str, str]) -> dict[str, str]:
    """The environment of uv."""
    kept = {name: value for name, value in parent.items() if PASSED_ON.fullmatch(name)}
    kept.pop("UV_COMPILE_BYTECODE", None)  # uv takes no option against it
    return {"PATH": os.defpath} | kept | {"UV_PYTHON_DOWNLOADS": "never"}


async def _run(command: Sequence[str], folder: Path, tell: Callable[[str], None]) -> None:
    """Run a command to its end, and pass its output on to `tell`. Raises `InstallFailed`."""
    try:
        child = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env=variables(os.environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise InstallFailed(f"uv: {error.strerror}", ErrorClass.ERROR) from None
    lines: list[str] = []
    try:
        assert child.stdout is not None, "it was asked for"
        async for line in child.stdout:
            text = line.decode(errors="replace").rstrip()
            if text and len(lines) < LINES_TOLD:
                tell(text)
            lines.append(text)
        code = await child.wait()
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()
    if code:
        told = "\n".join(lines[-TAIL_LINES:])
        raise InstallFailed(_said(lines, code), class_of(told), told)


def class_of(told: str) -> ErrorClass:
    """Return the class of uv's error, which says whether trying again can help."""
    if _UNREACHABLE.search(told):
        return ErrorClass.NETWORK
    return ErrorClass.INVALID if _WRONG.search(told) else ErrorClass.ERROR


def _said(lines: Sequence[str], code: int) -> str:
    said = [line.strip(" \t│×╰─▶") for line in lines if line.strip()]
    return " ".join(said[-8:])[:1_500] or f"uv exited with code {code}"
