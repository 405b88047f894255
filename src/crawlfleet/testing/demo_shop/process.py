"""The demo shop in a process of its own."""

import subprocess
import sys
from types import TracebackType
from typing import Self


class ServedShop:
    """A context manager: the shop is open while it is entered, and closes with its owner."""

    def __init__(self) -> None:
        self.url = ""
        """URL of the first page."""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crawlfleet.testing.demo_shop", "--until-stdin-ends"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is for whoever opened it.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().decode().strip()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
