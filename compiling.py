"""Compiles the modules that are busy with every page of a crawl, when a wheel is built.

They are plain Python and work as such: whoever changes them needs no compiler, and an editable
install has them as they are. Only `CRAWLFLEET_COMPILE=always` compiles, and fails where it cannot;
without it a wheel has the sources alone and needs no tools. `make wheels` sets it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHARED: Final = "crawlfleet_compiled"
"""The library that all compiled modules have in common."""
TOOLS: Final = ("mypy>=1.15", "setuptools>=75")
LEVEL: Final = "1"
"""Of the C compiler's optimisation. Level 2 takes half as long again and makes no crawl faster;
with level 0 a crawl is slower than without compiled modules."""


class CannotCompile(Exception):
    """Why there are no compiled modules."""


class Compiling(BuildHookInterface[Any]):
    """A hook of hatchling; `pyproject.toml` names the modules."""

    PLUGIN_NAME = "custom"
    _built: tempfile.TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """List what compiling needs; types of what the modules import make them quicker."""
        return [*TOOLS, *self.metadata.core.dependencies] if _is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not _is_wanted():
            return
        self._built = tempfile.TemporaryDirectory(prefix="crawlfleet-compiled-")
        root = Path(self.root)
        libraries = _compiled(root, modules(root, self.config), Path(self._built.name))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update(libraries)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._built is not None:
            self._built.cleanup()


def modules(root: Path, config: dict[str, Any]) -> list[str]:
    """List the files that `modules` of the hook's settings names and `except` does not."""
    found = [
        path.relative_to(root).as_posix()
        for pattern in config["modules"]
        for path in sorted(root.glob(pattern))
        if path.name != "__init__.py"
    ]
    return [each for each in found if not any(fnmatch(each, left) for left in config["except"])]


def _is_wanted() -> bool:
    wish = os.environ.get("CRAWLFLEET_COMPILE", "never")
    if wish not in ("always", "never"):
        raise ValueError(f"CRAWLFLEET_COMPILE={wish}: write always or never")
    return wish == "always"


def _compiled(root: Path, files: list[str], into: Path) -> dict[str, str]:
    """Make the libraries; returns where in the wheel each belongs. Raises `CannotCompile`."""
    if not shutil.which(os.environ.get("CC", "cc").split()[0]):
        raise CannotCompile("there is no C compiler; on Debian: apt-get install gcc python3-dev")
    out = into / "out"
    command = [sys.executable, __file__, str(root), str(out), *files]
    done = subprocess.run(command, cwd=into, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        why = next((line for line in lines if ": error: " in line), lines[-1])
        raise CannotCompile(f"{why} (the whole command: {' '.join(command[:4])} …)")
    return {str(each): each.relative_to(out).as_posix() for each in out.rglob("*.so")}


def _compile(root: Path, out: Path, files: list[str]) -> None:
    """Runs in a process of its own, in an empty folder: it leaves files and changes options."""
    from mypyc.build import mypycify
    from setuptools import setup
    from setuptools.command.build_ext import build_ext

    class OnAllCores(build_ext):
        """Setuptools compiles the C files of a library one after the other."""

        def build_extensions(self) -> None:
            compile_some = self.compiler.compile

            def compile_all(sources: list[str], **options: Any) -> list[str]:
                largest_first = sorted(sources, key=lambda each: -Path(each).stat().st_size)
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    made = pool.map(lambda each: compile_some([each], **options), largest_first)
                    return [each for objects in made for each in objects]

            self.compiler.compile = compile_all
            super().build_extensions()

    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    # Without our strict settings: of what is not installed here no types are known, and it is
    # called as plain Python does.
    options = ["--config-file=", "--ignore-missing-imports", "--python-version", this]
    extensions = mypycify(
        [*options, *(str(root / each) for each in files)],
        group_name=SHARED,
        multi_file=True,
        debug_level="0",
        opt_level=LEVEL,
    )
    folders = ["--build-lib", str(out), "--build-temp", "objects"]
    setup(
        name=SHARED,
        ext_modules=extensions,
        cmdclass={"build_ext": OnAllCores},
        script_args=["--quiet", "build_ext", *folders],
    )


if __name__ == "__main__":
    _compile(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
