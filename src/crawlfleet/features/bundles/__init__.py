"""Bundles: versions of user code, deployed to nodes."""
