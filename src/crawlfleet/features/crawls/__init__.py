"""Crawls on a fleet: frontiers at the master, output, figures, orders."""
