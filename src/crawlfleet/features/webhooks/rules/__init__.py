"""Decisions of webhooks: which events are wanted, signatures, attempts."""
