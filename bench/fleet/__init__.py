"""The fleet under load: many nodes, dead nodes, and more and more workers."""

from bench.fleet.run import main

__all__ = ["main"]
