"""Talking to a master: for people's programs (`Client`) and for nodes (`HttpControlLink`)."""

from crawlfleet.client.api import Client
from crawlfleet.client.sync import BlockingClient
from crawlfleet.trust import Trust

__all__ = ["BlockingClient", "Client", "Trust"]
