"""The way out of a cell: a guarded proxy, and names."""
