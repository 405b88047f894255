"""Secrets of projects: sealed in the store, given to executions that declare them."""
