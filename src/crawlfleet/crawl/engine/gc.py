"""Settings of the garbage collector and of malloc for a process that crawls: pages come and go, and
nearly all of their objects go with them."""

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

THRESHOLDS: Final = (10_000, 20, 50)
"""Collector thresholds in place of Python's 700, 10 and 10."""
KEPT_BYTES: Final = 16_777_216
"""Free memory at the end of the heap that is not given back to the system."""
MAPPED_BYTES: Final = 4_194_304
"""Blocks larger than this get memory pages of their own, which are given back at once."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def look_seldom() -> None:
    """Run the garbage collector rarely for the rest of this process. Call it after all modules are
    imported, before the crawl.

    Reference counting frees the hundreds of objects of a page at once, and hardly any are in
    reference cycles: with Python's thresholds the collector takes a tenth of a crawl and finds
    nothing. Objects that exist now are frozen, and are not examined again.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def keep_memory() -> None:
    """Let malloc keep the memory of one page's tree for the next one.

    Returning memory after each page and getting it again costs glibc a fortieth of a crawl. With
    another C library nothing is done.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, MAPPED_BYTES)


@contextlib.contextmanager
def crawling() -> Iterator[None]:
    """Apply these settings for the block, in a process that has other work before and after. The
    malloc settings stay for good."""
    keep_memory()
    before = gc.get_threshold()
    look_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
