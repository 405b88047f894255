"""Messages between nodes and masters."""
