"""Compiles the modules that are busy with every page and every task, when a wheel is built.

They are plain Python and work as such: whoever changes them needs no compiler, and an editable
install has them as they are. `CRAWLFLEET_COMPILE` says what to do for a wheel: `auto` compiles
where there is a C compiler, and says so where there is none; `always` fails in place of making do
without; `never` packs the sources alone.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHARED: Final = "crawlfleet_compiled"
"""The library that all compiled modules have in common."""
TOOLS: Final = ("mypy>=1.15", "setuptools>=75")


class CannotCompile(Exception):
    """Why there are no compiled modules."""


class Compiling(BuildHookInterface[Any]):
    """A hook of hatchling; its modules are listed in `pyproject.toml`."""

    PLUGIN_NAME = "custom"
    _built: tempfile.TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """What is needed to compile; types of what the modules import make them quicker."""
        if _wish() == "never" or not _compiler():
            return []
        return [*TOOLS, *self.metadata.core.dependencies]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or _wish() == "never":
            return
        self._built = tempfile.TemporaryDirectory(prefix="crawlfleet-compiled-")
        try:
            libraries = _compiled(Path(self.root), self.config["modules"], Path(self._built.name))
        except CannotCompile as error:
            if _wish() == "always":
                raise
            self.app.display_warning(f"crawlfleet is installed without compiled modules: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update(libraries)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._built is not None:
            self._built.cleanup()


def _wish() -> str:
    wish = os.environ.get("CRAWLFLEET_COMPILE", "auto")
    if wish not in ("auto", "always", "never"):
        raise ValueError(f"CRAWLFLEET_COMPILE={wish}: write auto, always or never")
    return wish


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CC", "cc").split()[0])


def _compiled(root: Path, modules: list[str], into: Path) -> dict[str, str]:
    """The libraries, and where in the wheel they belong. Raises `CannotCompile`."""
    if not _compiler():
        raise CannotCompile("there is no C compiler; on Debian: apt-get install gcc python3-dev")
    out = into / "out"
    command = [sys.executable, __file__, str(root), str(out), *modules]
    done = subprocess.run(command, cwd=into, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()
        why = next((line for line in lines if ": error: " in line), lines[-1])
        raise CannotCompile(f"{why} (all of it: {' '.join(command[:4])} …)")
    return {str(each): each.relative_to(out).as_posix() for each in out.rglob("*.so")}


def _compile(root: Path, out: Path, modules: list[str]) -> None:
    """Runs in a process of its own, in an empty folder: it leaves files and changes options."""
    from mypyc.build import mypycify
    from setuptools import setup

    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    # Without our strict settings: of what is not installed here no types are known, and it is
    # called as plain Python does.
    options = ["--config-file=", "--ignore-missing-imports", "--python-version", this]
    flags = os.environ.get("CFLAGS", "").split()
    level = next((flag[2:] for flag in reversed(flags) if flag.startswith("-O")), "3")
    extensions = mypycify(
        [*options, *(str(root / each) for each in modules)],
        group_name=SHARED,
        debug_level="0",
        opt_level=level,
    )
    folders = ["--build-lib", str(out), "--build-temp", "objects"]
    setup(name=SHARED, ext_modules=extensions, script_args=["--quiet", "build_ext", *folders])


if __name__ == "__main__":
    _compile(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
