"""Cells: whether limits hold, what a start costs, and whether anything is left."""

from bench.sandbox.run import main

__all__ = ["main"]
