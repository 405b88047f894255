"""The session of a node with its master: heartbeats, leases, reports, requests."""
