"""The store in memory: for tests and simulations, with the same answers as the others."""
