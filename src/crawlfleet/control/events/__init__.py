"""The event log as an outbox: who follows it, and live streams."""
