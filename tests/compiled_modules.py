"""Which modules are compiled in a compiled wheel."""

import tomllib
from pathlib import Path

from compiling import modules

ROOT = Path(__file__).parents[1]
_BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
FILES = modules(ROOT, _BUILD["targets"]["wheel"]["hooks"]["custom"])
