"""Dispatch of tasks to nodes, and leases until their end is recorded."""
