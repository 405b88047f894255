"""Decisions of alerts: which rules hold, and when an alert fires and ends."""
