"""The machine that this process runs on: its clock and its randomness."""

import os
import time


class Machine:
    """The real `System`."""

    def now(self) -> float:
        return time.time()

    def entropy(self, size: int) -> bytes:
        return os.urandom(size)
