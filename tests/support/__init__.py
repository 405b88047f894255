"""Fleets, servers and machines for the tests and benchmarks of this tree."""
