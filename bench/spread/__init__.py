"""One crawl by several processes: what more of them bring, and what one that is killed costs.

`python -m bench.spread [--quick] [--json FILE] [--only PART …] [--wait MINUTES]`;
`docs/reference/benchmarks.md` says how it is measured, `bench.spread.chart` writes that page.
"""

from bench.spread.run import main

__all__ = ["main"]
