"""Workflows: read a document, say what is wrong with it, and decide what follows what."""
