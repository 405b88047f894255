"""Submission of tasks, orders to them, and queries."""
