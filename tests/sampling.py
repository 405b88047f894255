"""How much of what is random a run looks at: all of it in the soak, else a part."""

import os
from typing import Final

SOAK: Final = bool(os.environ.get("CRAWLFLEET_SOAK"))


def examples(most: int) -> int:
    """So many examples of a property, of which every run takes others."""
    return most if SOAK else max(most // 3, 10)
