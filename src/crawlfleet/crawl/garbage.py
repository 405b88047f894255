"""How often Python looks for circles of objects that nobody needs, in a process that crawls."""

import gc
from typing import Final

THRESHOLDS: Final = (10_000, 20, 50)
"""In place of Python's 700, 10 and 10."""


def look_seldom() -> None:
    """For the rest of this process; call it when all modules are there, before the crawl.

    A page makes hundreds of objects that go as soon as they are not needed, and hardly a circle
    of them: the usual looks cost a tenth of a crawl and find nothing. What was there before stays
    for good, and is not looked at again.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
