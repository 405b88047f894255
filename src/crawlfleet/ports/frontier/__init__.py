"""The ports of frontiers: for an engine, for a master, and for checkpoints."""
