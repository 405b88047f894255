"""Talking to a master: for people's programs (`Client`) and for nodes (`HttpControlLink`)."""

from crawlfleet.client.blocking import BlockingClient
from crawlfleet.client.client import Client
from crawlfleet.tls import Trust

__all__ = ["BlockingClient", "Client", "Trust"]
