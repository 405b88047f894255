"""`python -m bench [part …]`: all benchmarks, or those that are named."""

import argparse
import importlib
import sys

PARTS = (
    "placement",
    "store",
    "latency",
    "workflows",
    "fleet",
    "day",
    "reading",
    "tasks",
    "urls",
    "fetch",
    "frontier",
    "crawl",
    "spread",
    "page",
    "sandbox",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, rougher figures")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for part in options.parts or PARTS:
        module = importlib.import_module(f"bench.{part}")
        module.main(["--quick"] if options.quick else [])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
