"""Talking to a master: for people's programs (`Client`) and for nodes (`HttpControlLink`)."""

from crawlfleet.client.api import Client

__all__ = ["Client"]
