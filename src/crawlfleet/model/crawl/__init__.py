"""Rows and messages of crawls: parameters, figures, frontiers."""
