"""Tasks a second, CPU, latency, memory and what a dead worker costs, beside other task queues.

`python -m bench.tasks [--quick] [--json FILE] [--only NAME …] [--postgres [URL]] [--wait MINUTES]`;
`docs/reference/benchmarks.md` says how it is measured, `bench.tasks.chart` writes that page.
"""

from bench.tasks.run import main

__all__ = ["main"]
