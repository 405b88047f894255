"""Webhooks and call-backs: events sent to the outside, in order, until answered."""
