"""Started as `python -I …/worker/runner`: then this folder is the first on the path."""

import sys

from crawlfleet_runner.main import main  # type: ignore[import-not-found]

main(*sys.argv[1:2])
