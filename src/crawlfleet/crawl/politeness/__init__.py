"""Politeness of an engine: robots.txt, clocks of hosts, the fleet's ledger."""
