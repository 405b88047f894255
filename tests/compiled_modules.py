"""Which modules are compiled when a wheel is built."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
_WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
    "wheel"
]
FILES: list[str] = _WHEEL["hooks"]["custom"]["modules"]
