"""Conformance suites and test doubles for authors of plug-ins."""
