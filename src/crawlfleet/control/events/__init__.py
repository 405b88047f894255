"""The event log: its outbox, its followers, and live streams."""
