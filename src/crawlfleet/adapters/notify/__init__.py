"""Senders of webhooks and alerts: HTTP and mail."""
