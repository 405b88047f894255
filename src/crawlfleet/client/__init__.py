"""Talking to a master: for people's programs (`Client`) and for nodes (`HttpControlLink`)."""

from crawlfleet.client.api import Client
from crawlfleet.client.sync import BlockingClient

__all__ = ["BlockingClient", "Client"]
