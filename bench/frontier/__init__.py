"""What a page costs in each frontier, when few and when many URLs are known.

`python -m bench.frontier [--quick] [--only STORE …] [--known 10000 1000000] [--json FILE]`;
`docs/reference/benchmarks.md` says how it is measured, `bench.frontier.chart` writes that page.
"""

from bench.frontier.run import main

__all__ = ["main"]
