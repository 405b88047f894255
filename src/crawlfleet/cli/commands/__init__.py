"""The commands that ask a master, one module for each resource."""
