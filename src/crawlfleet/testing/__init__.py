"""Suites and stand-ins that are shipped for the authors of plug-ins."""
