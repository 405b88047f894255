"""Sessions of nodes, their health and history, and nodes that were lost."""
