"""The commands that run a fleet on this machine, and look after it."""
