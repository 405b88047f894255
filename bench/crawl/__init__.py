"""The same site crawled by crawlfleet and by other crawlers: pages, CPU, memory.

`python -m bench.crawl [--quick] [--json FILE] [--only NAME …] [--profile] [--wait MINUTES]`;
`docs/reference/benchmarks.md` says how it is measured, `bench.crawl.chart` writes that page.
"""

from bench.crawl.run import main

__all__ = ["main"]
