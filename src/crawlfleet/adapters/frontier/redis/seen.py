"""What the Bloom filters of a crawl with `dedup: bloom` promise; `lua/seen.lua` has them."""

from typing import Final

FIRST_ERROR: Final = 4e-5
"""Of the first stage; each further one has half of that, so that all together stay below 8e-5."""
LEAST: Final = 1000
"""URLs that a filter is made for, even if fewer are expected."""
