"""Builds a compiled wheel for every Python of this machine, from 3.11 on.

python wheels.py [folder]    # dist, where none is named
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.pythons import ROOT, others, prepare


def main(folder: Path) -> None:
    environment = {**os.environ, "CRAWLFLEET_COMPILE": "always"}
    for python in (sys.executable, *map(prepare, others())):
        command = [python, "-m", "hatchling", "build", "-t", "wheel", "-d", folder.absolute()]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)  # noqa: S603


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else "dist"))
