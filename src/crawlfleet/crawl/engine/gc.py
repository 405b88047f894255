"""How a process that crawls keeps house: pages come and go, and nearly all they need with them."""

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

THRESHOLDS: Final = (10_000, 20, 50)
"""In place of Python's 700, 10 and 10."""
KEPT_BYTES: Final = 16_777_216
"""Free memory at the end of the heap that is not given back to the system."""
MAPPED_BYTES: Final = 4_194_304
"""What is larger has pages of its own, which are given back at once."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def look_seldom() -> None:
    """Look seldom for circles of objects that nobody needs, for the rest of this process; call it
    when all modules are there, before the crawl.

    A page makes hundreds of objects that go as soon as they are not needed, and hardly a circle
    of them: the usual looks cost a tenth of a crawl and find nothing. What was there before stays
    for good, and is not looked at again.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def keep_memory() -> None:
    """Keep what the tree of one page had for that of the next one.

    Where the C library is not glibc nothing is done: giving memory back after each page, and
    getting it again, costs glibc a fortieth of a crawl.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, MAPPED_BYTES)


@contextlib.contextmanager
def crawling() -> Iterator[None]:
    """Keep house like this while it is entered, in a process that has other work before and after;
    memory is kept for good."""
    keep_memory()
    before = gc.get_threshold()
    look_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
