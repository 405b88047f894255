"""Frontiers that are elsewhere: at the master, or on Redis."""
