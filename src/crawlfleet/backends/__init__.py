"""Implementations of the ports that keep or carry state."""
